package dlq

import (
	"context"
	"errors"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// Log reads topics without being a member of a group: dead-letter topics, and those that letters go back to. It is
// *kafka.Scanner. Calls do not overlap.
type Log interface {
	// Topic is what is known of a topic. One that is created again has another id.
	Topic(ctx context.Context, name string) (kafka.Topic, error)
	// Bounds are the first offset that is still there and the one after the last.
	Bounds(ctx context.Context, of record.Partition) (first, end int64, err error)
	// Scan calls each for the records from an offset to before another, in order. Their bytes are valid during the call. An
	// error of each ends the scan and is returned as it is, but for kafka.ErrStop. first is where the log went on behind the
	// last records that were deleted before they were read.
	Scan(ctx context.Context, of record.Partition, from, to int64, each func(*record.Record) error) (first int64, err error)
}

// Span is the part of a partition from an offset to before another.
type Span struct {
	record.Partition
	First, End int64
}

// Spans are all partitions of topics as they are now, in order.
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

// Offsets is how many offsets the spans have.
func Offsets(spans []Span) (n int64) {
	for _, s := range spans {
		n += s.End - s.First
	}
	return n
}

// Scan calls each for every letter of the spans, and for records that are none. An error of each ends the scan and is
// returned as it is, but for kafka.ErrStop.
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

// At calls each for the record at a place, if the spans have it.
func At(ctx context.Context, log Log, spans []Span, at record.Place, each func(*Found) error) error {
	for _, s := range spans {
		if s.Partition == at.Partition && at.Offset >= s.First && at.Offset < s.End {
			return Scan(ctx, log, []Span{{at.Partition, at.Offset, at.Offset + 1}}, each)
		}
	}
	return nil
}
