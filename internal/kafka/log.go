package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// damagedTries is how many damaged pieces in a row stop a partition. A retry helps when a copy was damaged on its way.
const damagedTries = 3

// Log reads a partition under one topic id. It keeps the broker's answer compressed until all of it is given out. A fetch
// therefore takes a bounded amount of memory, whatever its records unfold to. A Log is not for concurrent use. A batch is valid
// until its release.
//
// Exported methods return record.ErrOutOfRange, record.ErrTopicGone, a *record.StopError when a retry does not help, or else an
// outage.
type Log struct {
	client *Client
	record.Partition
	topicID   [16]byte
	isolation Isolation

	held    int64               // bytes of the answer's lent buffer
	quiet   bool                // the last answer brought nothing
	end     int64               // of the readable log, as the answer says
	high    int64               // high watermark
	reader  *recordbatch.Reader // of the answer. Nil means that no answer is held.
	damaged int                 // damaged pieces in a row
}

// Log returns the Log of a partition. The client must route requests for its topic.
func (c *Client) Log(of record.Partition, topicID [16]byte) *Log {
	return &Log{client: c, Partition: of, topicID: topicID, isolation: c.options.Isolation}
}

// Await waits until records from offset on are at hand, or until FetchWait is over. It returns the bytes that the Log holds. An
// earlier answer that still holds the offset is used without another request. most bounds the bytes of the answer, but the first
// record batch always comes whole.
func (l *Log) Await(ctx context.Context, offset, most int64) (int64, error) {
	err := l.await(ctx, offset, most)
	return l.left(), l.classified(err)
}

// Take returns the next piece of the answer, from the offset that was given to Await. An error means that the first thing left in
// the answer, at that offset, cannot be read. After an error the next Await asks the broker again.
func (l *Log) Take(offset int64, bytes int) (record.Batch, error) {
	batch, err := l.take(offset, recordbatch.PieceOf(bytes))
	if err != nil {
		return record.Batch{}, l.classified(err)
	}
	l.damaged = 0
	return batch, nil
}

// Bounds asks for both ends of the log, and for the offset between them at which Options.Start points. The requests use the
// topic's name, so compare its id again before acting on the answer.
func (l *Log) Bounds(ctx context.Context) (b record.Bounds, err error) {
	defer func() { err = l.classified(err) }()
	if b.First, b.End, err = l.client.Bounds(ctx, l.Partition); err != nil {
		return b, err
	}
	if b.High, err = l.client.HighWatermark(ctx, l.Partition); err != nil {
		return b, err
	}
	switch start := l.client.start(l.Topic); {
	case start.Latest:
		b.Start = b.End
	case !start.Time.IsZero():
		b.Start, err = l.client.OffsetAt(ctx, l.Partition, start.Time.UnixMilli())
	default:
		b.Start = b.First
	}
	return b, err
}

// Partitions returns the topic's number of partitions.
func (l *Log) Partitions(ctx context.Context) (int32, error) {
	topics, err := l.client.Topics(ctx, l.Topic)
	if err == nil {
		err = topics[0].Err
	}
	switch {
	case err != nil:
		return 0, l.classified(err)
	case topics[0].ID != l.topicID:
		return 0, fmt.Errorf("%w: topic %s was created again", record.ErrTopicGone, l.Topic)
	}
	return int32(len(topics[0].Partitions)), nil
}

// Timestamp returns the timestamp of the first record from an offset on, even if its transaction is open or aborted. It is 0 when
// there is none, and for a skipped record batch. It fetches as little as the broker sends and decodes as little as possible.
func (l *Log) Timestamp(ctx context.Context, offset int64) (int64, error) {
	isolation := l.isolation
	l.isolation = ReadUncommitted
	defer func() {
		l.drop()
		l.isolation = isolation
	}()
	if err := l.await(ctx, offset, 1); err != nil {
		return 0, err
	}
	batch, err := l.take(offset, recordbatch.Piece{Bytes: 1, Records: 1})
	if batch.Release != nil {
		defer batch.Release()
	}
	if err != nil || len(batch.Records) == 0 {
		return 0, err
	}
	return max(0, batch.Records[0].Timestamp), nil
}

// drop forgets the answer at hand. The answer's buffer is free for other fetches once all its batches are released too.
func (l *Log) drop() {
	if l.reader != nil {
		l.reader.Close()
	}
	l.reader, l.held = nil, 0
}

// await is Await with errors for Classify.
func (l *Log) await(ctx context.Context, offset, most int64) error {
	if l.reader != nil && l.reader.Has(offset) {
		return nil
	}
	l.drop()
	o := &l.client.options
	request := &fetchRequest{
		Place: record.Place{Partition: l.Partition, Offset: offset}, topicID: l.topicID, maxBytes: int32(min(most, int64(o.FetchBytes))),
		wait: o.FetchWait, isolation: l.isolation, resting: l.quiet && l.isolation == o.Isolation,
	}
	if request.maxBytes == o.FetchBytes { // memory is short: lend no buffer
		request.memory = l.client.answers.lend
	}
	answer, err := l.client.fetch(ctx, request)
	if err != nil {
		// Fetch alone until this passes. A partition with an error makes a broker answer at once, for all partitions that wait together.
		l.quiet = false
		if ctx.Err() == nil {
			l.client.metrics.count(l.Partition, err)
		}
		return err
	}
	l.held, l.end, l.high, l.quiet = int64(cap(answer.memory)), request.end(answer), answer.highWatermark, len(answer.records) == 0
	l.reader = l.client.memory.NewReader(recordbatch.Set{
		Partition: l.Partition, Bytes: answer.records, From: offset, End: answer.highWatermark, Aborted: answer.aborted,
		Free: func() { l.client.answers.takeBack(answer.memory) },
	})
	return nil
}

// take is Take with errors for Classify.
func (l *Log) take(offset int64, most recordbatch.Piece) (record.Batch, error) {
	if l.reader == nil {
		panic("kafka: Take without Await")
	}
	batch, err := l.reader.Take(offset, most)
	if err != nil {
		l.drop()
		l.client.metrics.count(l.Partition, err)
		return batch, NoAnswer(protocol.Fetch, l.Partition, err)
	}
	batch.End, batch.High, batch.Left, batch.More = l.end, l.high, l.left(), l.reader.Has(batch.Next)
	return batch, nil
}

// left is the memory in bytes that the Log holds between two pieces.
func (l *Log) left() int64 {
	if l.reader == nil {
		return 0
	}
	return l.held + l.reader.Kept()
}

// classified turns an error into one that the reader of a partition acts on.
func (l *Log) classified(err error) error {
	switch Classify(err) {
	case OutOfRange:
		return fmt.Errorf("%w: %w", record.ErrOutOfRange, err)
	case LookAtMetadata:
		return fmt.Errorf("%w: %w", record.ErrTopicGone, err)
	case StopIfPersists:
		if l.damaged++; l.damaged < damagedTries {
			return err
		}
		return &record.StopError{Reason: "corrupt", Detail: err.Error()}
	case StopPartition, StopProgram:
		return &record.StopError{Reason: "kafka", Detail: err.Error()}
	}
	return err
}

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
