package main

import (
	"context"
	"errors"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/config"
	"waterwheel/kafka"
)

// What each error of a missing right ends with.
const (
	mayWriteLetters  = "grant this user WRITE on the dead-letter topic"
	mayCreateLetters = "grant this user CREATE and WRITE on the dead-letter topic; or create it, and set DLQ_CREATE=false"
)

// advisedLetter is an error of writing letters, or of making their topic, that says what to do about a right that is lacking.
func advisedLetter(err error) error {
	if errors.Is(err, kafkago.TopicAuthorizationFailed) || errors.Is(err, kafkago.ClusterAuthorizationFailed) {
		return fmt.Errorf("%w; %s, and CREATE if DLQ_CREATE is to make it", err, mayWriteLetters)
	}
	return err
}

// unreadableTopic is about a topic that this user may see and not read.
func unreadableTopic(topic string) error {
	return fmt.Errorf("topic %q of KAFKA_TOPICS may be seen and not read: grant this user READ on it", topic)
}

// unwritable says of dead-letter topics that this user may see and not write, what to do about each.
func unwritable(topics []kafka.Topic) (errs []error) {
	for _, topic := range topics {
		if topic.Err == nil && !topic.Rights.Allow(kafka.Write) {
			errs = append(errs, fmt.Errorf("dead-letter topic %q may be seen and not written: %s", topic.Name, mayWriteLetters))
		}
	}
	return errs
}

// checkReturn refuses a re-drive into topics that this user may see and not write: each letter would be tried in vain.
func checkReturn(ctx context.Context, c config.Config, client *kafka.Client) error {
	topics, err := client.Topics(ctx, c.Kafka.Topics...)
	if err != nil {
		return fmt.Errorf("looking at the topics: %w", err)
	}
	for _, topic := range topics {
		if topic.Err == nil && !topic.Rights.Allow(kafka.Write) {
			return fmt.Errorf("topic %q of KAFKA_TOPICS may be seen and not written: grant this user WRITE on it, to bring records back", topic.Name)
		}
	}
	return nil
}
