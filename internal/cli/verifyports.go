package cli

import (
	"context"
	"fmt"
	"log/slog"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/claim"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
	"waterwheel/sink"
)

// offsetsOf implements verify.Offsets with Kafka.
type offsetsOf struct{ *kafka.Scanner }

// Committed implements verify.Offsets.
func (o offsetsOf) Committed(ctx context.Context, group string, partitions []record.Partition) (committed []claim.Committed, err error) {
	answers, err := o.Scanner.Committed(ctx, group, partitions)
	for _, a := range answers {
		committed = append(committed, claim.Committed{Offset: a.Offset, Metadata: a.Metadata, Consumed: a.Consumed()})
	}
	return committed, err
}

// claimsOf implements verify.Claims with MongoDB.
type claimsOf struct{ contents sink.Contents }

// Claims implements verify.Claims.
func (c claimsOf) Claims(ctx context.Context) (claims []claim.Document, err error) {
	documents, err := c.contents.Partitions(ctx)
	for _, d := range documents {
		claims = append(claims, d.Document)
	}
	return claims, err
}

// lostRecords reads the notes of consumers about records that retention deleted before they were read. A sink.Contents implements
// it.
type lostRecords interface {
	Lost(ctx context.Context, clusterID string, source timeseries.Source) ([]claim.Lost, error)
}

// readLost adds to ranges what was lost of their partitions. If a limit is given, it adds only losses from there on.
func readLost(ctx context.Context, in lostRecords, clusterID string, ranges []verify.Range, from verify.Limit) error {
	for i := range ranges {
		r := &ranges[i]
		least := int64(0)
		switch {
		case from.Offset != nil:
			least = *from.Offset
		case !from.Time.IsZero():
			least = r.From
		}
		noted, err := in.Lost(ctx, clusterID, r.Source)
		if err != nil {
			return err
		}
		for _, lost := range noted {
			if lost.From = max(lost.From, least); lost.From < lost.To {
				r.Lost = append(r.Lost, lost)
			}
		}
	}
	return nil
}

// openVerified connects to Kafka for a topic and its dead letters.
func openVerified(ctx context.Context, c config.Config, log *slog.Logger, topic string) (*kafka.Scanner, error) {
	o := connect.KafkaOptions(c, log)
	o.Topics = []string{topic}
	if c.DLQ.Topic != "" {
		o.Topics = append(o.Topics, c.DeadLettersFor(topic))
	}
	return kafka.OpenScanner(ctx, o)
}

// letterIndex holds the dead letters of a topic, and which of them were deleted.
type letterIndex struct {
	*verify.Letters
	deleted []deletedLetters
}

// deletedLetters are the letters that a partition of a dead-letter topic no longer has.
type deletedLetters struct {
	// Place is topic/partition. Before is the first offset that still exists.
	Place  string `json:"place"`
	Before int64  `json:"before"`
}

// readLetters reads the dead letters of a topic. It runs after the committed offsets were read, because then the letters of all
// records below them exist.
func readLetters(ctx context.Context, c config.Config, scanner *kafka.Scanner, src timeseries.Source, line *text.Progress) (letterIndex, error) {
	index := letterIndex{Letters: new(verify.Letters)}
	if c.DLQ.Topic == "" {
		return index, nil
	}
	name := c.DeadLettersFor(src.Topic)
	missing, err := scanner.Missing(ctx, name)
	if err != nil || len(missing) > 0 {
		return index, err
	}
	if err := index.read(ctx, scanner, name, src, line); err != nil {
		return index, fmt.Errorf("reading the dead letters of %s: %w", src.Topic, err)
	}
	return index, nil
}

// read reads the letters of a dead-letter topic. It checks the log's start after the reading, because letters may be deleted
// meanwhile.
func (x *letterIndex) read(ctx context.Context, log dlq.Log, name string, src timeseries.Source, line *text.Progress) error {
	spans, err := dlq.Spans(ctx, log, []string{name})
	if err != nil {
		return err
	}
	line.Now("reading dead letters")
	err = scanSpans(ctx, log, spans, line, func(f *dlq.Found) error {
		l := &f.Letter
		unknownID := l.TopicID == [16]byte{} // written by another program
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
			x.deleted = append(x.deleted, deletedLetters{Place: s.Partition.String(), Before: s.First})
		}
	}
	return nil
}
