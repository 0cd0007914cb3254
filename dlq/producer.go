package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
)

// Options define where letters go.
type Options struct {
	// Sources are the topics whose letters are produced.
	Sources []string
	// TopicFor returns the dead-letter topic of a source topic. It is empty if there is none. Sources may share one, which must
	// not be a source.
	TopicFor func(source string) string
	// GroupID is the consumer group, written into each letter.
	GroupID string
	// Create makes Setup create missing dead-letter topics. Otherwise a missing topic is an error.
	Create bool
	// Partitions and Replication apply to a created topic. Zero means the broker's default.
	Partitions, Replication int
	// Retention is how long a created topic keeps letters after they were written. Zero means until they are deleted.
	Retention time.Duration
}

// Topics lists the dead-letter topics of all sources, sorted, each once.
func (o *Options) Topics() []string {
	names := make([]string, 0, len(o.Sources))
	for _, source := range o.Sources {
		if name := o.TopicFor(source); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Producer writes letters. Its methods are safe for concurrent use, except that Close must be the last call.
type Producer struct {
	options Options
	client  *kafka.Client
	writer  writer
}

// writer is the part of *kafka.Writer that a Producer uses.
type writer interface {
	// Partitions returns the number of partitions of a topic.
	Partitions(ctx context.Context, topic string) (int, error)
	// Write writes messages in one request, and waits until all in-sync replicas have them. It does not retain them.
	Write(ctx context.Context, to record.Partition, messages ...kafka.Message) error
	// Route makes the writer write to these topics.
	Route(topics ...string)
	// Create creates missing topics.
	Create(ctx context.Context, topics ...kafka.NewTopic) error
	// Close closes the connections.
	Close()
}

// New returns a Producer that is not connected yet. Letters use their own connections.
func New(client *kafka.Client, options Options) *Producer {
	return &Producer{options, client, client.Writer(options.Topics()...)}
}

// grantWrite ends each error about a missing right.
const grantWrite = "grant this user WRITE on the dead-letter topic"

// advised adds to an error about a missing right what to do about it.
func advised(err error) error {
	if errors.Is(err, kafkago.TopicAuthorizationFailed) || errors.Is(err, kafkago.ClusterAuthorizationFailed) {
		return fmt.Errorf("%w; %s, and CREATE if waterwheel should create the topic (DLQ_CREATE=true)", err, grantWrite)
	}
	return err
}

// Setup finds the dead-letter topics, and creates missing ones if the options allow it. It may be called again after an error.
// kafka.Classify reports whether that can help.
func (p *Producer) Setup(ctx context.Context) error { return p.setUp(ctx, p.options.Topics()...) }

func (p *Producer) setUp(ctx context.Context, names ...string) error {
	missing, err := p.client.Missing(ctx, names...)
	switch {
	case err != nil:
	case len(missing) == 0:
	case !p.options.Create:
		return kafka.Mistake(fmt.Errorf("dead-letter topics do not exist: %s (create them, or set DLQ_CREATE=true)", strings.Join(missing, ", ")))
	default:
		err = p.create(ctx, missing)
	}
	if err != nil {
		return advised(err)
	}
	topics, err := p.client.Topics(ctx, names...)
	if err != nil {
		return fmt.Errorf("reading metadata of the dead-letter topics: %w", err)
	}
	var errs []error
	for _, t := range topics {
		if t.Err == nil && !t.Rights.Allow(kafka.Write) {
			errs = append(errs, kafka.Mistake(fmt.Errorf("this user can see dead-letter topic %q but may not write to it: %s", t.Name, grantWrite)))
		}
	}
	return errors.Join(errs...)
}

// create creates topics that keep letters for a time after their writing (LogAppendTime). By default Kafka would use the times of
// the records, and would delete letters of old records at once.
func (p *Producer) create(ctx context.Context, names []string) error {
	retention := int64(-1)
	if p.options.Retention > 0 {
		retention = p.options.Retention.Milliseconds()
	}
	topics := make([]kafka.NewTopic, len(names))
	for i, name := range names {
		topics[i] = kafka.NewTopic{
			Name: name, Partitions: p.options.Partitions, Replication: p.options.Replication,
			Configuration: map[string]string{
				"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime", "retention.ms": strconv.FormatInt(retention, 10),
			},
		}
	}
	if err := p.writer.Create(ctx, topics...); err != nil {
		return fmt.Errorf("creating the dead-letter topics: %w", err)
	}
	return nil
}

// Add adds a source topic, and finds or creates its dead-letter topic as Setup does. It may be called again after an error, and
// while letters are produced, but not concurrently with itself.
func (p *Producer) Add(ctx context.Context, source string) error {
	if !slices.Contains(p.options.Sources, source) {
		p.options.Sources = append(p.options.Sources, source)
		p.writer.Route(p.options.Topics()...)
	}
	if name := p.options.TopicFor(source); name != "" {
		return p.setUp(ctx, name)
	}
	return nil
}

// Close closes the connections.
func (p *Producer) Close() { p.writer.Close() }

// Produce writes letters in their order. It returns how many of them, from the first on, all in-sync replicas have acknowledged.
// If that is not all, the error says why the next one is not acknowledged. A *record.StopError means that its dead-letter topic
// takes it in no form. After any other error the same letters may be produced again. Then a letter whose acknowledgement was lost
// is written twice, and readers can detect that from its headers.
//
// A letter that is too long for its topic is written alone. Its value, headers and key are cut, and a header records that.
// Produce does not retain the letters or their slices.
func (p *Producer) Produce(ctx context.Context, letters []record.DeadLetter) (written int, err error) {
	for written < len(letters) {
		chunk := letters[written : written+together(letters[written:])]
		to, err := p.partition(ctx, chunk[0].Partition)
		if err == nil {
			var n int
			n, err = p.writeChunk(ctx, to, chunk)
			written += n
		}
		if err != nil {
			return written, advised(err)
		}
	}
	return written, nil
}

// partition returns the partition for letters of a source partition. It is always the same one, so that the letters keep their
// order.
func (p *Producer) partition(ctx context.Context, source record.Partition) (to record.Partition, err error) {
	to.Topic = p.options.TopicFor(source.Topic)
	n, err := p.writer.Partitions(ctx, to.Topic)
	switch {
	case errors.Is(err, kafkago.UnknownTopicOrPartition):
		return to, fmt.Errorf("dead-letter topic %q does not exist (create it, or restart with DLQ_CREATE=true): %w", to.Topic, err)
	case err != nil:
		return to, fmt.Errorf("looking up dead-letter topic %q: %w", to.Topic, err)
	}
	to.Number = source.Number % int32(n)
	return to, nil
}

// together returns how many letters, from the first on, go into one request. They are letters of one source partition, as many as
// fit.
func together(letters []record.DeadLetter) int {
	n := 1
	for n < len(letters) && letters[n].Partition == letters[0].Partition {
		n++
	}
	return kafka.Fitting(letters[:n], func(l *record.DeadLetter) int { return letterOverhead + len(l.Key) + len(l.Value) + len(l.Headers) })
}

// These are sizes in bytes.
const (
	// longestLetter is the longest letter that is tried without a cut. Brokers close a connection that sends more than 100 MiB.
	longestLetter = 64 << 20
	// letterOverhead bounds what Kafka's record format and our headers add to a letter's key, value and own headers.
	letterOverhead = 3 << 10
	// longestCut is the first length tried for a letter that its topic does not take whole. It fits the broker's default limit.
	// Each further length is half of it. The last one has no room for any content of the record.
	longestCut = 1000 << 10
)

// draft is a letter to be written, with the parsed headers of its record.
type draft struct {
	record.DeadLetter
	own []record.Header
}

// drafts parses the letters' headers. Letters of one record share them.
func drafts(letters []record.DeadLetter) ([]draft, error) {
	list := make([]draft, len(letters))
	for i, l := range letters {
		list[i].DeadLetter = l
		if i > 0 && l.Offset == letters[i-1].Offset {
			list[i].own = list[i-1].own
			continue
		}
		var err error
		if list[i].own, err = recordbatch.ParseHeaders(l.Headers); err != nil {
			return nil, fmt.Errorf("reading the headers of the record %s: %w", l.Place, err)
		}
	}
	return list, nil
}

func (p *Producer) message(d *draft) kafka.Message {
	return Message(&d.DeadLetter, d.own, p.options.GroupID)
}

// Message returns the record for a letter. own are the headers of the letter's record, and group is the consumer group. The
// message shares their bytes.
func Message(l *record.DeadLetter, own []record.Header, group string) kafka.Message {
	return kafka.Message{Timestamp: l.Timestamp, Key: l.Key, Value: l.Value, Headers: envelope(l, own, group)}
}

// size bounds the bytes that the letter takes in a request.
func (d *draft) size() int {
	m := kafka.Message{Key: d.Key, Value: d.Value, Headers: d.own}
	return letterOverhead + m.Size()
}

// writeChunk writes letters in one request. If the broker rejects it because of one letter's content, it writes them one by one.
// It returns how many letters, from the first on, are acknowledged. That is all, unless there is an error.
func (p *Producer) writeChunk(ctx context.Context, to record.Partition, letters []record.DeadLetter) (written int, err error) {
	list, err := drafts(letters)
	if err != nil {
		return 0, err
	}
	if len(list) > 1 {
		messages := make([]kafka.Message, len(list))
		for i := range list {
			messages[i] = p.message(&list[i])
		}
		switch err := p.write(ctx, to, messages...); {
		case err == nil:
			return len(list), nil
		case !Refuses(err):
			return 0, err
		}
	}
	for i, d := range list {
		if err := p.writeAlone(ctx, to, d); err != nil {
			return i, err
		}
	}
	return len(list), nil
}

// writeAlone writes one letter, shortened as far as its topic demands.
func (p *Producer) writeAlone(ctx context.Context, to record.Partition, d draft) error {
	err := error(kafkago.MessageSizeTooLarge)
	if d.size() <= longestLetter {
		err = p.writeOne(ctx, to, &d)
	}
	for limit := longestCut; tooLarge(err) && limit >= letterOverhead/2; limit /= 2 {
		shorter := d.cut(max(limit, letterOverhead))
		err = p.writeOne(ctx, to, &shorter)
	}
	if Refuses(err) {
		return untaken(to.Topic, err)
	}
	return err
}

// writeOne writes one letter. If its topic rejects the record's timestamp, it uses the present time.
func (p *Producer) writeOne(ctx context.Context, to record.Partition, d *draft) error {
	message := p.message(d)
	err := p.write(ctx, to, message)
	if !errors.Is(err, kafkago.InvalidTimestamp) {
		return err
	}
	message.Timestamp = 0
	return p.write(ctx, to, message)
}

func (p *Producer) write(ctx context.Context, to record.Partition, messages ...kafka.Message) error {
	if err := p.writer.Write(ctx, to, messages...); err != nil {
		return fmt.Errorf("writing to dead-letter topic %q, partition %d: %w", to.Topic, to.Number, err)
	}
	return nil
}

// cut shortens a letter to about limit bytes. It first removes the record's headers, then the key, and then the end of the value,
// as far as necessary. If no content of the record has room, it shortens the message too.
func (d draft) cut(limit int) draft {
	var lost []string
	if d.Cut != "" {
		lost = append(lost, d.Cut)
	}
	rest := func() int { return d.size() - len(d.Value) }
	if rest() > limit && len(d.own) > 0 {
		lost = append(lost, words.Count(len(d.own), "header"))
		d.own = nil
	}
	if rest() > limit && d.Key != nil {
		lost = append(lost, fmt.Sprintf("key of %d bytes", len(d.Key)))
		d.Key = nil
	}
	if kept := max(0, limit-rest()); kept < len(d.Value) {
		lost = append(lost, fmt.Sprintf("value of %d bytes", len(d.Value)))
		d.Value = d.Value[:kept]
	}
	if limit <= letterOverhead {
		d.Message = shorten(d.Message, leastMessage)
	}
	d.Cut = strings.Join(lost, ", ")
	return d
}

// untaken returns the error that stops the partition of a letter that its dead-letter topic takes in no form. Another try helps
// only after a change of that topic's settings.
func untaken(topic string, err error) error {
	wayOut := "raise its max.message.bytes to a few KiB more than that of the source topic"
	if errors.Is(err, kafkago.InvalidRecord) {
		wayOut = "set its cleanup.policy to delete: a compacted topic refuses letters without a key, and deletes letters with equal keys"
	}
	return &record.StopError{
		Reason: "dead_letter_refused",
		Detail: fmt.Sprintf("the dead-letter topic %q refuses the dead letter, even in its shortest form (%v): %s, then restart", topic, err, wayOut),
	}
}

// Refuses reports whether the broker rejected a request because of the content of a message. A compacted topic returns
// INVALID_RECORD for a record without a key.
func Refuses(err error) bool {
	return tooLarge(err) || errors.Is(err, kafkago.InvalidTimestamp) || errors.Is(err, kafkago.InvalidRecord)
}

// tooLarge reports whether a message exceeds the topic's longest record or the log's segment.
func tooLarge(err error) bool {
	return errors.Is(err, kafkago.MessageSizeTooLarge) || errors.Is(err, kafkago.RecordListTooLarge)
}
