package dlq

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/segmentio/kafka-go"
	protocol "github.com/segmentio/kafka-go/protocol/produce"
)

// answering answers each request to produce with a code.
type answering struct {
	codes    []int16 // by request; then 0
	requests int
}

// RoundTrip implements kafka.RoundTripper.
func (a *answering) RoundTrip(_ context.Context, _ net.Addr, request kafka.Request) (kafka.Response, error) {
	asked := request.(*protocol.Request)
	code := int16(0)
	if a.requests < len(a.codes) {
		code = a.codes[a.requests]
	}
	a.requests++
	return &protocol.Response{Topics: []protocol.ResponseTopic{{
		Topic: asked.Topics[0].Topic, Partitions: []protocol.ResponsePartition{{ErrorCode: code}},
	}}}, nil
}

// returning is a Returner that is answered so, and a record that fills a request.
func returning(a *answering, hold func(context.Context) error) (*Returner, Record) {
	r := NewReturner([]string{"127.0.0.1:1"}, &kafka.Transport{}, 0, hold)
	r.client.Transport = a
	return r, Record{Timestamp: 1, Value: make([]byte, chunkBytes)}
}

// Before each request it is asked whether it may be sent, also where the records of one are sent one by one.
func TestReturnerAsksBeforeEachRequest(t *testing.T) {
	errOver := errors.New("over")
	small := Record{Timestamp: 1}
	for name, codes := range map[string][]int16{"chunks": nil, "one by one": {10}} {
		var a answering
		a.codes = codes
		asked := 0
		r, large := returning(&a, func(context.Context) error {
			if asked++; asked > 2 {
				return errOver
			}
			return nil
		})
		records := []Record{large, large, large}
		if codes != nil {
			records = []Record{small, small, small}
		}
		if err := r.Produce(t.Context(), dead, records); !errors.Is(err, errOver) || a.requests != 2 {
			t.Errorf("%s: %v after %d requests, want an end after 2", name, err, a.requests)
		}
	}
}

// All refused records are told of at once, and the others are written.
func TestReturnerNamesAllRefusedRecords(t *testing.T) {
	const tooLarge, badTime, notLeader = 10, 32, 6
	small := Record{Timestamp: 1}
	a := answering{codes: []int16{0, tooLarge, 0, tooLarge, badTime}}
	r, large := returning(&a, nil)
	err := r.Produce(t.Context(), dead, []Record{large, small, small, small})
	var refused *RefusedError
	if !errors.As(err, &refused) || len(refused.Errs) != 2 || a.requests != 5 ||
		!errors.Is(refused.Errs[2], kafka.MessageSizeTooLarge) || !errors.Is(refused.Errs[3], kafka.InvalidTimestamp) {
		t.Errorf("%v after %d requests", err, a.requests)
	}
	a = answering{codes: []int16{tooLarge, tooLarge, notLeader}}
	if err := r.Produce(t.Context(), dead, []Record{small, small}); errors.As(err, &refused) || !errors.Is(err, kafka.NotLeaderForPartition) {
		t.Errorf("an outage beside a refusal is %v", err)
	}
}
