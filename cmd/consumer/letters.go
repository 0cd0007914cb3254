package main

import (
	"context"
	"errors"
	"fmt"

	"waterwheel/dlq"
	"waterwheel/kafka/recordbatch"
	"waterwheel/record"
)

// lettersAtOnce is how many letters of a worker are brought into the producer's form at a time.
const lettersAtOnce = 1000

// letterTopic is the dead-letter topic of the process.
type letterTopic struct {
	producer *dlq.Producer         // nil: there is none, and no letter is ever made
	written  func([]record.Letter) // is told what is written
}

// Produce writes the letters of one partition, and ends with the first that is not written.
func (t letterTopic) Produce(ctx context.Context, letters []record.Letter) (done int, err error) {
	for done < len(letters) {
		part := letters[done:min(done+lettersAtOnce, len(letters))]
		written, err := t.producePart(ctx, part)
		t.written(part[:written])
		done += written
		if err != nil {
			return done, letterError(err)
		}
	}
	return done, nil
}

// producePart writes letters and returns how many, from the first on, are written.
func (t letterTopic) producePart(ctx context.Context, letters []record.Letter) (int, error) {
	out, err := outgoing(letters)
	if err != nil {
		return 0, err
	}
	var failed *dlq.ProduceError
	switch err := t.producer.Produce(ctx, out); {
	case err == nil:
		return len(letters), nil
	case errors.As(err, &failed):
		return failed.Unacknowledged[0], err
	default:
		return 0, err
	}
}

// outgoing adds to the letters what only their headers tell. Letters of one record share what its headers are read into.
func outgoing(letters []record.Letter) ([]dlq.Letter, error) {
	out := make([]dlq.Letter, len(letters))
	var headers []dlq.Header
	for i := range letters {
		l := &letters[i]
		if i == 0 || l.Offset != letters[i-1].Offset {
			var err error
			if headers, err = headersOf(l); err != nil {
				return nil, err
			}
		}
		stage := dlq.StageDecode
		if l.RefusedByDatabase {
			stage = dlq.StageWrite
		}
		out[i] = dlq.Letter{
			Topic: l.Topic, TopicID: l.TopicID, Partition: l.Number, Offset: l.Offset, Part: l.Part,
			Key: l.Key, Value: l.Value, Headers: headers, Timestamp: l.Timestamp, Reason: l.Reason, Message: l.Message,
			Stage: stage, Attempt: dlq.Attempt(headers), Cut: l.Cut,
		}
	}
	return out, nil
}

func headersOf(l *record.Letter) ([]dlq.Header, error) {
	parsed, err := recordbatch.ParseHeaders(l.Headers)
	if err != nil {
		return nil, fmt.Errorf("reading the headers of the record at offset %d: %w", l.Offset, err)
	}
	headers := make([]dlq.Header, len(parsed))
	for i := range parsed {
		headers[i] = dlq.Header{Key: parsed[i].Key, Value: parsed[i].Value}
	}
	return headers, nil
}

// letterError is an error of writing letters as the worker acts on it: what trying again does not help stops the partition.
func letterError(err error) error {
	var untaken *dlq.UntakenError
	if errors.As(err, &untaken) {
		return &record.StopError{Reason: "letter_refused", Detail: untaken.Error()}
	}
	return advisedLetter(err)
}
