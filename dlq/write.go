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

// Sizes of what is sent, in bytes.
const (
	// longestLetter is the longest letter that is tried uncut: brokers cut a connection that sends more than 100 MiB.
	longestLetter = 64 << 20
	// letterOverhead bounds what Kafka's record format and our headers add to a letter's key, value and own headers.
	letterOverhead = 3 << 10
	// longestCut is the first length tried for a letter that its topic does not take whole: it fits the broker's default
	// limit. Each further one is half as long, and the last is that of a letter with nothing of its record.
	longestCut = 1000 << 10
)

// draft is a letter to be written, with the headers of its record.
type draft struct {
	record.Letter
	own []record.Header
}

// drafts reads the letters' headers. Letters of one record share them.
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

// Message is the record that a letter becomes, of a record with these headers, in a consumer group. It shares their bytes.
func Message(l *record.Letter, own []record.Header, group string) kafka.Message {
	return kafka.Message{Timestamp: l.Timestamp, Key: l.Key, Value: l.Value, Headers: envelope(l, own, group)}
}

// size bounds the bytes that the letter takes in a request.
func (d *draft) size() int {
	m := kafka.Message{Key: d.Key, Value: d.Value, Headers: d.own}
	return letterOverhead + m.Size()
}

// writeChunk writes letters in one request, or one by one when the broker refuses it for what one of them is. It returns how
// many, from the first on, are acknowledged: all, unless there is an error.
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

// writeAlone writes one letter, changed as far as its topic demands.
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

// writeOne writes one letter, restamped where its topic refuses the record's time as too far from now.
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

// cut shortens a letter to about limit bytes. The record's headers go when they and the key are longer, then the key, and then
// the value's end. Where nothing of the record has room, the message is short too.
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

// untaken stops the partition of a letter that its dead-letter topic takes in no form: trying again helps only after that
// topic's settings were changed.
func untaken(topic string, err error) error {
	wayOut := "raise its max.message.bytes, which is to be at least the source topic's and some KiB more"
	if errors.Is(err, kafkago.InvalidRecord) {
		wayOut = "set its cleanup.policy to delete: a compacted topic takes no letter without a key, and drops letters of equal keys"
	}
	return &record.StopError{
		Reason: "letter_refused",
		Detail: fmt.Sprintf("the dead-letter topic %q takes no letter, not even the shortest (%v): %s, then restart", topic, err, wayOut),
	}
}

// Refuses reports whether the broker refused a request for the content of a message.
// INVALID_RECORD is what a compacted topic says to a record without a key.
func Refuses(err error) bool {
	return tooLarge(err) || errors.Is(err, kafkago.InvalidTimestamp) || errors.Is(err, kafkago.InvalidRecord)
}

// tooLarge reports whether a message exceeds the topic's longest record or the log's segment.
func tooLarge(err error) bool {
	return errors.Is(err, kafkago.MessageSizeTooLarge) || errors.Is(err, kafkago.RecordListTooLarge)
}
