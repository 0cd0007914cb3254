package main

import (
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/kafka"
	"waterwheel/record"
)

// TestATopicThatMayNotBeSeenIsNotToBeCreated: each error has the advice of its own, once.
func TestATopicThatMayNotBeSeenIsNotToBeCreated(t *testing.T) {
	refused := func(code kafkago.Error) error {
		return &kafka.Error{API: "Metadata", Of: record.Partition{Topic: "events", Number: -1}, Err: code}
	}
	errs := unreadable([]kafka.Topic{
		{Name: "a", Err: refused(kafkago.TopicAuthorizationFailed)},
		{Name: "b", Err: refused(kafkago.UnknownTopicOrPartition)},
		{Name: "c", Err: refused(kafkago.LeaderNotAvailable)},
		{Name: "d"},
	})
	if len(errs) != 2 || strings.Contains(errs[0].Error(), "create") || !strings.Contains(errs[0].Error(), "grant READ and DESCRIBE") ||
		strings.Count(errs[1].Error(), "create") != 1 {
		t.Errorf("%q", errs)
	}
}
