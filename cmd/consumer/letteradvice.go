package main

import (
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
)

// advisedLetter is an error of writing letters that says what to do about a right that is lacking: no start notices it,
// and check cannot try it without leaving a record behind.
func advisedLetter(err error) error {
	if errors.Is(err, kafka.TopicAuthorizationFailed) {
		return fmt.Errorf("%w; grant this user WRITE and DESCRIBE on the dead-letter topic", err)
	}
	return err
}
