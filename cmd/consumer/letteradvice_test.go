package main

import (
	"errors"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/dlq"
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

func TestALetterThatMayNotBeWrittenSaysWhichRightIsLacking(t *testing.T) {
	err := advisedLetter(&dlq.ProduceError{Unacknowledged: []int{0}, Err: kafkago.TopicAuthorizationFailed})
	if !strings.Contains(err.Error(), "WRITE on the dead-letter topic") || !errors.Is(err, kafkago.TopicAuthorizationFailed) {
		t.Error(err)
	}
	if err := advisedLetter(kafkago.NotEnoughReplicas); !errors.Is(err, kafkago.NotEnoughReplicas) || strings.Contains(err.Error(), "grant") {
		t.Error(err)
	}
}
