package dlq

import (
	"context"
	"errors"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// Log reads topics without being a member of a group: dead-letter topics, and the source topics of letters. *kafka.Scanner
// implements it. Calls do not overlap.
type Log interface {
	// Topic describes a topic. A topic that is deleted and created again has another id.
	Topic(ctx context.Context, name string) (kafka.Topic, error)
	// Bounds returns the first offset that still exists, and the offset after the last.
	Bounds(ctx context.Context, of record.Partition) (first, end int64, err error)
	// Scan calls each for the records in [from, to), in order. Their bytes are valid during the call. An error of each ends the
	// scan and is returned unchanged, except kafka.ErrStop. first is the first offset after the last record that was deleted
	// before it could be read.
	Scan(ctx context.Context, of record.Partition, from, to int64, each func(*record.Record) error) (first int64, err error)
}

// Span is the range of offsets [First, End) of a partition.
type Span struct {
	record.Partition
	First, End int64
}

// Spans returns all partitions of topics as they are now, in order.
func Spans(ctx context.Context, log Log, topics []string) ([]Span, error) {
	var spans []Span
	for _, topic := range topics {
		found, err := log.Topic(ctx, topic)
		if err != nil {
			return nil, err
		}
		for _, p := range found.Partitions {
			s := Span{Partition: record.Partition{Topic: topic, Number: p.ID}}
			if s.First, s.End, err = log.Bounds(ctx, s.Partition); err != nil {
				return nil, err
			}
			spans = append(spans, s)
		}
	}
	return spans, nil
}

// Offsets returns the number of offsets in the spans.
func Offsets(spans []Span) (n int64) {
	for _, s := range spans {
		n += s.End - s.First
	}
	return n
}

// Scan calls each for every record of the spans, including those that are not letters. An error of each ends the scan and is
// returned unchanged, except kafka.ErrStop.
func Scan(ctx context.Context, log Log, spans []Span, each func(*Found) error) error {
	for _, s := range spans {
		if s.First >= s.End {
			continue
		}
		stopped := false
		_, err := log.Scan(ctx, s.Partition, s.First, s.End, func(r *record.Record) error {
			f := found(s.Partition, r)
			err := each(&f)
			stopped = errors.Is(err, kafka.ErrStop)
			return err
		})
		if err != nil || stopped {
			return err
		}
	}
	return nil
}

// At calls each for the record at a place, if the place is within the spans.
func At(ctx context.Context, log Log, spans []Span, at record.Place, each func(*Found) error) error {
	for _, s := range spans {
		if s.Partition == at.Partition && at.Offset >= s.First && at.Offset < s.End {
			return Scan(ctx, log, []Span{{at.Partition, at.Offset, at.Offset + 1}}, each)
		}
	}
	return nil
}
