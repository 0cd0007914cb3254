package cli

import (
	"context"
	"fmt"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/kafka"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
)

// letterIndex are the dead letters of a topic, and which of them are not there any more.
type letterIndex struct {
	*verify.Letters
	deleted []DeletedLetters
}

// DeletedLetters are letters that a partition of a dead-letter topic does not have any more.
type DeletedLetters struct {
	// Place is topic/partition, Before the first offset that is still there.
	Place  string `json:"place"`
	Before int64  `json:"before"`
}

// readLetters notes the dead letters of a topic. It is read after the committed offsets: a letter of a record below them is
// there by then.
func readLetters(ctx context.Context, c config.Config, scanner *kafka.Scanner, src timeseries.Source, line *text.Progress) (letterIndex, error) {
	index := letterIndex{Letters: new(verify.Letters)}
	if c.DLQ.Topic == "" {
		return index, nil
	}
	name := c.DLQ.TopicFor(src.Topic)
	missing, err := scanner.Missing(ctx, name)
	if err != nil || len(missing) > 0 {
		return index, err
	}
	if err := index.read(ctx, scanner, name, src, line); err != nil {
		return index, fmt.Errorf("reading the dead letters of %s: %w", src.Topic, err)
	}
	return index, nil
}

// read notes the letters of a dead-letter topic. What was deleted is looked at behind the reading: letters may go meanwhile.
func (x *letterIndex) read(ctx context.Context, log dlq.Log, name string, src timeseries.Source, line *text.Progress) error {
	spans, err := dlq.Spans(ctx, log, []string{name})
	if err != nil {
		return err
	}
	line.Now("reading dead letters")
	err = scanSpans(ctx, log, spans, line, func(f *dlq.Found) error {
		l := &f.Letter
		unknownID := l.TopicID == [16]byte{} // not written by us
		if f.Err == nil && l.Topic == src.Topic && (unknownID || l.TopicID == src.TopicID) {
			x.Add(l.Number, l.Offset, l.Part)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if spans, err = dlq.Spans(ctx, log, []string{name}); err != nil {
		return err
	}
	for _, s := range spans {
		if s.First > 0 {
			x.NoteDeleted()
			x.deleted = append(x.deleted, DeletedLetters{Place: s.Partition.String(), Before: s.First})
		}
	}
	return nil
}
