package dlq

import (
	"context"
	"errors"
	"fmt"
	"strings"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
)

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
	record.Letter
	own []record.Header
}

// drafts parses the letters' headers. Letters of one record share them.
func drafts(letters []record.Letter) ([]draft, error) {
	list := make([]draft, len(letters))
	for i, l := range letters {
		list[i].Letter = l
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
	return Message(&d.Letter, d.own, p.options.GroupID)
}

// Message returns the record for a letter. own are the headers of the letter's record, and group is the consumer group. The
// message shares their bytes.
func Message(l *record.Letter, own []record.Header, group string) kafka.Message {
	return kafka.Message{Timestamp: l.Timestamp, Key: l.Key, Value: l.Value, Headers: envelope(l, own, group)}
}

// size bounds the bytes that the letter takes in a request.
func (d *draft) size() int {
	m := kafka.Message{Key: d.Key, Value: d.Value, Headers: d.own}
	return letterOverhead + m.Size()
}

// writeChunk writes letters in one request. If the broker rejects it because of one letter's content, it writes them one by one.
// It returns how many letters, from the first on, are acknowledged. That is all, unless there is an error.
func (p *Producer) writeChunk(ctx context.Context, to record.Partition, letters []record.Letter) (written int, err error) {
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
		Reason: "letter_refused",
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
