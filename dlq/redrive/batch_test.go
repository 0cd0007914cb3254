package redrive

import (
	"context"
	"errors"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// answering has an answer for each request to write.
type answering struct {
	errs     []error // for the first requests; later ones have no error
	requests int
}

func (a *answering) write(context.Context, record.Partition, ...kafka.Message) (err error) {
	if a.requests < len(a.errs) {
		err = a.errs[a.requests]
	}
	a.requests++
	return err
}

// The message large fills a request. Many small messages fit into one.
var large, small = kafka.Message{Value: make([]byte, 512<<10)}, kafka.Message{}

// TestReturnerAsksBeforeEachRequest checks that the check before each request is also made when messages are sent one by one.
func TestReturnerAsksBeforeEachRequest(t *testing.T) {
	errOver := errors.New("over")
	for name, c := range map[string]struct {
		message kafka.Message
		errs    []error
	}{"chunks": {large, nil}, "one by one": {small, []error{kafkago.MessageSizeTooLarge}}} {
		a := answering{errs: c.errs}
		asked := 0
		r := returner{a.write, func(context.Context) error {
			if asked++; asked > 2 {
				return errOver
			}
			return nil
		}}
		if _, err := r.Produce(t.Context(), dead, []kafka.Message{c.message, c.message, c.message}); !errors.Is(err, errOver) || a.requests != 2 {
			t.Errorf("%s: %v after %d requests, want an end after 2", name, err, a.requests)
		}
	}
}

// TestReturnerNamesAllRefusedMessages checks that all refused messages are reported together, and that the others are written.
func TestReturnerNamesAllRefusedMessages(t *testing.T) {
	const tooLarge, badTime, notLeader = kafkago.MessageSizeTooLarge, kafkago.InvalidTimestamp, kafkago.NotLeaderForPartition
	held := func(context.Context) error { return nil }
	a := answering{errs: []error{nil, tooLarge, nil, tooLarge, badTime}}
	r := returner{a.write, held}
	refused, err := r.Produce(t.Context(), dead, []kafka.Message{large, small, small, small})
	if err != nil || len(refused) != 2 || a.requests != 5 || !errors.Is(refused[2], tooLarge) || !errors.Is(refused[3], badTime) {
		t.Errorf("%v, %v after %d requests", refused, err, a.requests)
	}
	a = answering{errs: []error{tooLarge, tooLarge, notLeader}}
	if refused, err := r.Produce(t.Context(), dead, []kafka.Message{small, small}); refused != nil || !errors.Is(err, notLeader) {
		t.Errorf("an outage beside a refusal is %v, %v", refused, err)
	}
}
