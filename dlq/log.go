package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrStop, returned by what Scan or Log.Read call for each record, ends the reading without an error.
var ErrStop = errors.New("enough is read")

// Record is a record of a topic as a Log gives it out. Its bytes are valid during the call.
type Record struct {
	Offset int64
	// Timestamp is in milliseconds since 1970.
	Timestamp  int64
	Key, Value []byte
	Headers    []Header
}

// Log reads topics without being a member of a group: dead-letter topics, and those that letters go back to. Calls do not
// overlap.
type Log interface {
	// Partitions lists the partitions of a topic in ascending order.
	Partitions(ctx context.Context, topic string) ([]int32, error)
	// TopicID is the topic's id, zero where it has none. A topic that is created again has another.
	TopicID(ctx context.Context, topic string) ([16]byte, error)
	// Bounds are the first offset that is still there and the one after the last.
	Bounds(ctx context.Context, topic string, partition int32) (first, end int64, err error)
	// Read calls each for the records from an offset to before another, in order. An error of each ends the reading and is
	// returned as it is, but for ErrStop.
	Read(ctx context.Context, topic string, partition int32, from, to int64, each func(*Record) error) error
}

// Place is a partition of a topic.
type Place struct {
	Topic     string
	Partition int32
}

// String is topic/partition.
func (p Place) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

func comparePlaces(a, b Place) int { return strings.Compare(a.String(), b.String()) }

// Found is a letter where it stands in a dead-letter topic.
type Found struct {
	Place
	Offset int64
	// Letter shares its bytes with the log: they are valid during the call.
	Letter Letter
	// Err is why the record is no letter; Letter is then empty.
	Err error
}

func found(p Place, r *Record) Found {
	f := Found{Place: p, Offset: r.Offset}
	f.Letter, f.Err = Parse(r.Key, r.Value, r.Headers, r.Timestamp)
	return f
}

// Span is the part of a partition from an offset to before another.
type Span struct {
	Place
	First, End int64
}

// Spans are all partitions of topics as they are now, in order.
func Spans(ctx context.Context, log Log, topics []string) ([]Span, error) {
	var spans []Span
	for _, topic := range topics {
		partitions, err := log.Partitions(ctx, topic)
		if err != nil {
			return nil, err
		}
		for _, partition := range partitions {
			s := Span{Place: Place{Topic: topic, Partition: partition}}
			if s.First, s.End, err = log.Bounds(ctx, topic, partition); err != nil {
				return nil, err
			}
			spans = append(spans, s)
		}
	}
	return spans, nil
}

// Scan calls each for every letter of the spans, and for records that are none. An error of each ends the scan and is
// returned as it is, but for ErrStop.
func Scan(ctx context.Context, log Log, spans []Span, each func(*Found) error) error {
	for _, s := range spans {
		if s.First >= s.End {
			continue
		}
		stopped := false
		err := log.Read(ctx, s.Topic, s.Partition, s.First, s.End, func(r *Record) error {
			f := found(s.Place, r)
			err := each(&f)
			stopped = errors.Is(err, ErrStop)
			return err
		})
		if err != nil || stopped {
			return err
		}
	}
	return nil
}

// clone is the letter with bytes of its own.
func (l *Letter) clone() Letter {
	c := *l
	c.Key, c.Value = slices.Clone(l.Key), slices.Clone(l.Value)
	c.Headers = slices.Clone(l.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = slices.Clone(c.Headers[i].Value)
	}
	return c
}
