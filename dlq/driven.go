package dlq

import (
	"strconv"

	"waterwheel/internal/record"
)

// The headers that a re-drive appends to a record that goes back.
const (
	// HeaderAttempt counts how often the record was tried, the coming time included. A letter has it too.
	HeaderAttempt = "waterwheel.attempt"
	// HeaderDriven is the last: the place of the letter that the record was made of. A producer does not write that by
	// accident, as it may an attempt.
	HeaderDriven = "waterwheel.driven"
)

// AttemptOf is the attempt of a letter made of a record with these headers: 1, unless it was driven back before. An attempt
// that is a producer's own header counts for nothing.
func AttemptOf(headers []record.Header) int {
	if !isDriven(headers) {
		return 1
	}
	return parseAttempt(string(headers[len(headers)-2].Value))
}

// isDriven reports whether a record with these headers is one that went back: the last two are what a re-drive appends.
func isDriven(headers []record.Header) bool {
	n := len(headers)
	if n < 2 || headers[n-2].Key != HeaderAttempt || headers[n-1].Key != HeaderDriven {
		return false
	}
	_, err := record.ParsePlace(string(headers[n-1].Value))
	return err == nil
}

// OwnHeaders are the record's without those of a re-drive.
func OwnHeaders(headers []record.Header) []record.Header {
	if isDriven(headers) {
		return headers[:len(headers)-2]
	}
	return headers
}

// parseAttempt takes anything that is no positive number for a first attempt: the header may be anybody's.
func parseAttempt(text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 1
	}
	return int(n)
}
