package dlq

import (
	"strconv"

	"waterwheel/internal/record"
)

// These headers are appended by a re-drive to a record that goes back.
const (
	// HeaderAttempt counts the attempts to store the record, including the next one. A letter has it too.
	HeaderAttempt = "waterwheel.attempt"
	// HeaderDriven is the last header: the place of the letter that the record was made of. A producer does not write it by
	// accident, whereas it might write an attempt.
	HeaderDriven = "waterwheel.driven"
)

// AttemptOf returns the attempt of a letter of a record with these headers. It is 1, unless a re-drive has sent the record back.
// It ignores an attempt in a producer's own header.
func AttemptOf(headers []record.Header) int {
	if !isDriven(headers) {
		return 1
	}
	return parseAttempt(string(headers[len(headers)-2].Value))
}

// isDriven reports whether a record with these headers has gone back. A re-drive appends its two headers at the end.
func isDriven(headers []record.Header) bool {
	n := len(headers)
	if n < 2 || headers[n-2].Key != HeaderAttempt || headers[n-1].Key != HeaderDriven {
		return false
	}
	_, err := record.ParsePlace(string(headers[n-1].Value))
	return err == nil
}

// OwnHeaders returns the record's headers without those of a re-drive.
func OwnHeaders(headers []record.Header) []record.Header {
	if isDriven(headers) {
		return headers[:len(headers)-2]
	}
	return headers
}

// parseAttempt returns 1 for anything that is not a positive number, because another program may have written the header.
func parseAttempt(text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 1
	}
	return int(n)
}
