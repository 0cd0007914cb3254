package dlq

import (
	"context"
	"fmt"
	"io"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// TestOnlyFourCodesBlameARecord checks that every other error code for a letter or a redriven record counts as an outage of the
// topic, and that the same messages are sent again. The names are those of Kafka's protocol guide,
// https://kafka.apache.org/protocol#protocol_error_codes.
func TestOnlyFourCodesBlameARecord(t *testing.T) {
	blaming := map[kafkago.Error]string{10: "MESSAGE_TOO_LARGE", 18: "RECORD_LIST_TOO_LARGE", 32: "INVALID_TIMESTAMP", 87: "INVALID_RECORD"}
	for code := kafkago.Error(-1); code < 1000; code++ {
		if code == 0 {
			continue
		}
		err := fmt.Errorf("writing: %w", code)
		name, want := blaming[code]
		if Refuses(err) != want || tooLarge(err) != (want && code != kafkago.InvalidTimestamp && code != kafkago.InvalidRecord) {
			t.Errorf("%v %s: refuses %v, too large %v", code, name, Refuses(err), tooLarge(err))
		}
	}
	for _, err := range []error{nil, io.ErrUnexpectedEOF, context.DeadlineExceeded} {
		if Refuses(err) {
			t.Errorf("%v blames a letter", err)
		}
	}
}
