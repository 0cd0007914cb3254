package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

const (
	// scanBytes is the size of a fetch in bytes. scanWait is how long the broker waits for records.
	scanBytes = 4 << 20
	scanFew   = 64 << 10 // about the size of a fetch for one record
	scanWait  = 100 * time.Millisecond
)

// ErrStop, returned by the callback of Scan, ends the scan without an error.
var ErrStop = errors.New("enough is read")

// Scanner reads topics with retries and without being a member of a group. It reads a topic under the id that it saw last. Its
// own methods are not safe for concurrent use, those of its Client are.
type Scanner struct {
	*Client
	ids map[string][16]byte
}

// OpenScanner connects for scanning Options.Topics.
func OpenScanner(ctx context.Context, o Options) (*Scanner, error) {
	o.FetchBytes, o.FetchWait = scanBytes, scanWait
	client, err := Open(ctx, o, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	return &Scanner{client, map[string][16]byte{}}, nil
}

// Topic returns the metadata of a topic.
func (s *Scanner) Topic(ctx context.Context, name string) (Topic, error) {
	topic, err := Answer(ctx, func() (Topic, error) {
		answers, err := s.Topics(ctx, name)
		if err != nil {
			return Topic{}, err
		}
		return answers[0], answers[0].Err
	})
	if err != nil {
		return topic, fmt.Errorf("reading metadata of topic %q: %w", name, err)
	}
	s.ids[name] = topic.ID
	return topic, nil
}

// TopicID returns the id of a topic. A topic that is created again has another id.
func (s *Scanner) TopicID(ctx context.Context, name string) ([16]byte, error) {
	if _, known := s.ids[name]; !known {
		if _, err := s.Topic(ctx, name); err != nil {
			return [16]byte{}, err
		}
	}
	return s.ids[name], nil
}

// Bounds returns the first offset that still exists, and the offset after the last.
func (s *Scanner) Bounds(ctx context.Context, of record.Partition) (first, end int64, err error) {
	err = Patiently(ctx, func() error {
		first, end, err = s.Client.Bounds(ctx, of)
		return err
	})
	return first, end, err
}

// Committed returns a group's commits for partitions, in their order. A commit that cannot be read is an error.
func (s *Scanner) Committed(ctx context.Context, group string, partitions []record.Partition) (committed []Committed, err error) {
	err = Patiently(ctx, func() error {
		committed, err = s.Client.Committed(ctx, group, partitions)
		for _, c := range committed {
			err = errors.Join(err, c.Err)
		}
		return err
	})
	return committed, err
}

// Scan calls each for the records from offset from to before offset to, in order. A record's bytes are valid during the call.
// Scan leaves out unreadable records. An error of each ends the scan, and Scan returns it as it is, except ErrStop. Records may
// be deleted before Scan reads them. first is then the offset where the log went on, otherwise it is from.
func (s *Scanner) Scan(ctx context.Context, of record.Partition, from, to int64, each func(*record.Record) error) (first int64, err error) {
	id, err := s.TopicID(ctx, of.Topic)
	if err != nil {
		return from, err
	}
	log := s.Log(of, id)
	defer log.drop()
	first = from
	for at, idle := from, 0; at < to; {
		batch, err := log.scanned(ctx, at, to)
		if Classify(err) == OutOfRange {
			if at, err = s.behind(ctx, of, at); err == nil {
				first = min(at, to)
				continue
			}
		}
		if err != nil {
			return first, err
		}
		err = giveOut(batch, to, each)
		if batch.Release != nil {
			batch.Release()
		}
		switch {
		case errors.Is(err, ErrStop):
			return first, nil
		case err != nil:
			return first, err
		}
		if idle++; batch.Next > at {
			idle = 0
		}
		if idle == patience { // else it would be read for ever
			return first, fmt.Errorf("partition %s returns no records at offset %d, although its end offset was %d before: the partition may have been truncated", of, at, to)
		}
		at = batch.Next
	}
	return first, nil
}

// scanned returns the next piece of a log. A short range fetches little, so that a few records are cheap to read in a log of any
// size.
func (l *Log) scanned(ctx context.Context, from, to int64) (record.Batch, error) {
	most := min(scanFew+min(to-from, scanBytes)*(scanFew/64), scanBytes)
	return Answer(ctx, func() (record.Batch, error) {
		if err := l.await(ctx, from, most); err != nil {
			return record.Batch{}, err
		}
		return l.take(from, recordbatch.PieceOf(l.client.options.Decoding.PieceBytes))
	})
}

// behind returns where a log goes on when the records at an offset were deleted during the scan.
func (s *Scanner) behind(ctx context.Context, of record.Partition, offset int64) (int64, error) {
	first, end, err := s.Bounds(ctx, of)
	if err != nil {
		return 0, err
	}
	if offset >= first {
		return 0, fmt.Errorf("partition %s now ends at %d, before offset %d: the topic may have been deleted and created again", of, end, offset)
	}
	return first, nil
}

func giveOut(batch record.Batch, to int64, each func(*record.Record) error) error {
	for i := range batch.Records {
		r := &batch.Records[i]
		switch {
		case r.Offset >= to:
			return nil
		case r.Unreadable != "": // skipped
		default:
			if err := each(r); err != nil {
				return err
			}
		}
	}
	return nil
}
