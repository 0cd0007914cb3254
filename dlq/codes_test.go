package dlq

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/segmentio/kafka-go"
)

// TestOnlyThreeCodesBlameALetter: whatever else a broker answers is an outage of the dead-letter topic, and the letter is
// sent again as it is. The names are those of Kafka's protocol guide, https://kafka.apache.org/protocol#protocol_error_codes.
func TestOnlyThreeCodesBlameALetter(t *testing.T) {
	blaming := map[kafka.Error]string{10: "MESSAGE_TOO_LARGE", 18: "RECORD_LIST_TOO_LARGE", 32: "INVALID_TIMESTAMP"}
	for code := kafka.Error(-1); code < 1000; code++ {
		if code == 0 {
			continue
		}
		err := fmt.Errorf("writing: %w", code)
		name, want := blaming[code]
		if refusesLetter(err) != want || tooLarge(err) != (want && code != kafka.InvalidTimestamp) {
			t.Errorf("%v %s: refuses %v, too large %v", code, name, refusesLetter(err), tooLarge(err))
		}
	}
	for _, err := range []error{nil, io.ErrUnexpectedEOF, context.DeadlineExceeded} {
		if refusesLetter(err) {
			t.Errorf("%v blames a letter", err)
		}
	}
}

// TestOneMoreCodeBlamesAReturningRecord: the rest is an outage of the source topic, and nothing stays behind for it.
func TestOneMoreCodeBlamesAReturningRecord(t *testing.T) {
	for code := kafka.Error(-1); code < 1000; code++ {
		if code == 0 {
			continue
		}
		err := fmt.Errorf("writing: %w", code)
		if want := refusesLetter(err) || code == 87; refusesRecord(err) != want {
			t.Errorf("%v: refuses %v", code, !want)
		}
	}
}
