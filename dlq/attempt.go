package dlq

import (
	"fmt"
	"strconv"

	"waterwheel/record"
)

// Attempt is the attempt of a letter made of a record with these headers: 1, unless it was driven back before. An attempt
// that is a producer's own header counts for nothing.
func Attempt(headers []Header) int {
	if !isDriven(headers) {
		return 1
	}
	return parseAttempt(string(headers[len(headers)-2].Value))
}

// isDriven tells whether a record with these headers is one that went back: the last two are what a re-drive appends.
func isDriven(headers []Header) bool {
	n := len(headers)
	if n < 2 || headers[n-2].Key != headerAttempt || headers[n-1].Key != headerDriven {
		return false
	}
	_, err := record.ParsePlace(string(headers[n-1].Value))
	return err == nil
}

// ownHeaders are the record's without those of a re-drive.
func ownHeaders(headers []Header) []Header {
	if isDriven(headers) {
		return headers[:len(headers)-2]
	}
	return headers
}

// drivenHeaders are appended to a record that goes back.
func drivenHeaders(f *Found) []Header {
	return []Header{
		{Key: headerAttempt, Value: []byte(strconv.Itoa(f.Letter.attempts() + 1))},
		{Key: headerDriven, Value: fmt.Appendf(nil, "%s/%d", f.Place, f.Offset)},
	}
}

// parseAttempt takes anything that is no positive number for a first attempt: the header may be anybody's.
func parseAttempt(text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 1
	}
	return int(n)
}

// attempts is how often the record was tried. The letter of another program has the count of ours among the record's own
// headers.
func (l *Letter) attempts() int { return max(l.Attempt, Attempt(l.Headers)) }
