package redrive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// nearRecords is the maximum distance of two records that are read with one scan.
const nearRecords = 1000

// originals checks the records that letters say they come from. Anyone who may write to a dead-letter topic can name any record.
type originals struct {
	log    dlq.Log
	topics map[string]kafka.Topic
	bounds map[record.Partition]dlq.Span
}

func newOriginals(log dlq.Log) *originals {
	return &originals{log: log, topics: map[string]kafka.Topic{}, bounds: map[record.Partition]dlq.Span{}}
}

// doubt returns why a letter does not belong to the record that it names. Empty means that it does. No selection drives such a
// letter back.
func doubt(ctx context.Context, log dlq.Log, f *dlq.Found) (string, error) {
	letters := []item{{Found: *f}}
	err := newOriginals(log).check(ctx, letters)
	return letters[0].wrong, err
}

// check checks letters: the position exists or once existed, and the key is the record's.
func (o *originals) check(ctx context.Context, letters []item) error {
	var open []*item
	for i := range letters {
		one := &letters[i]
		if err := o.place(ctx, one); err != nil {
			return err
		}
		if one.wrong == "" && !one.gone {
			open = append(open, one)
		}
	}
	slices.SortStableFunc(open, func(a, b *item) int {
		return cmp.Or(a.Letter.Partition.Compare(b.Letter.Partition), cmp.Compare(a.Letter.Offset, b.Letter.Offset))
	})
	for len(open) > 0 {
		n := near(open)
		if err := o.compare(ctx, open[:n]); err != nil {
			return fmt.Errorf("comparing dead letters with their records: %w", err)
		}
		open = open[n:]
	}
	return nil
}

// place checks whether the log has, or once had, the position.
func (o *originals) place(ctx context.Context, one *item) error {
	l := &one.Letter
	topic, err := o.topic(ctx, l.Topic)
	if err != nil {
		return err
	}
	var none [16]byte
	switch {
	case !slices.ContainsFunc(topic.Partitions, func(p kafka.Partition) bool { return p.ID == l.Number }):
		one.wrong = fmt.Sprintf("topic %s has no partition %d", l.Topic, l.Number)
	case l.TopicID != topic.ID && l.TopicID != none && topic.ID != none:
		one.wrong = "topic " + l.Topic + " was deleted and created again after the dead letter was written"
	default:
		span, err := o.span(ctx, l.Partition)
		if err != nil {
			return err
		}
		one.gone = l.Offset < span.First
		if l.Offset >= span.End {
			one.wrong = fmt.Sprintf("the end offset of %s is %d, but the dead letter names offset %d", span.Partition, span.End, l.Offset)
		}
	}
	return nil
}

func (o *originals) topic(ctx context.Context, name string) (t kafka.Topic, err error) {
	t, known := o.topics[name]
	if !known {
		if t, err = o.log.Topic(ctx, name); err == nil {
			o.topics[name] = t
		}
	}
	return t, err
}

// span reads the bounds of a partition only once. Every letter that is checked was written before, and its record even before
// that.
func (o *originals) span(ctx context.Context, p record.Partition) (dlq.Span, error) {
	if s, known := o.bounds[p]; known {
		return s, nil
	}
	s := dlq.Span{Partition: p}
	var err error
	if s.First, s.End, err = o.log.Bounds(ctx, p); err != nil {
		return s, fmt.Errorf("reading the first and the end offset of the source partition %s: %w", p, err)
	}
	o.bounds[p] = s
	return s, nil
}

// near returns how many letters, from the first on, belong to records that are read with one scan.
func near(sorted []*item) int {
	n := 1
	for ; n < len(sorted); n++ {
		last, next := &sorted[n-1].Letter, &sorted[n].Letter
		if last.Partition != next.Partition || next.Offset-last.Offset > nearRecords {
			break
		}
	}
	return n
}

// compare reads the records of one partition that letters belong to, in their order. A record that is missing, because of
// compaction or deletion, once existed.
func (o *originals) compare(ctx context.Context, letters []*item) error {
	place, last := letters[0].Letter.Partition, letters[len(letters)-1].Letter.Offset
	pass := func(before int64) {
		for ; len(letters) > 0 && letters[0].Letter.Offset < before; letters = letters[1:] {
			letters[0].gone = true
		}
	}
	_, err := o.log.Scan(ctx, place, letters[0].Letter.Offset, last+1, func(r *record.Record) error {
		pass(r.Offset)
		for ; len(letters) > 0 && letters[0].Letter.Offset == r.Offset; letters = letters[1:] {
			if key := letters[0].Letter.Key; !equal(key, r.Key) {
				letters[0].wrong = fmt.Sprintf("the dead letter's key differs from the key of the record %s/%d", place, r.Offset)
			}
		}
		if len(letters) == 0 {
			return kafka.ErrStop
		}
		return nil
	})
	pass(last + 1)
	return err
}

// equal distinguishes null from an empty value, as Kafka does.
func equal(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// filter removes from the batch the letters that belong to no record, and the letters of a record that already has a letter. Only
// here the position of a letter is marked as taken. A letter that stays must not hide another one.
func (d *driver) filter(ctx context.Context, b *batch) error {
	fresh := b.letters[b.checked:]
	if err := d.originals.check(ctx, fresh); err != nil {
		return err
	}
	kept := slices.DeleteFunc(fresh, func(one item) bool {
		switch {
		case one.wrong != "":
			d.foreign(Foreign{one.Place, one.wrong})
		case !d.taken.Add(&one.Letter):
			d.report.Doubles++
		default:
			return false
		}
		return true
	})
	b.checked += len(kept)
	b.letters = b.letters[:b.checked]
	return nil
}

// isForeign reports whether a letter is in another dead-letter topic than that of the topic it names, and counts it.
func (d *driver) isForeign(f *dlq.Found) bool {
	if d.o.TopicFor == nil || d.o.TopicFor(f.Letter.Topic) == f.Topic {
		return false
	}
	d.foreign(Foreign{f.Place, fmt.Sprintf("dead letters of topic %q belong in the dead-letter topic %q", f.Letter.Topic, d.o.TopicFor(f.Letter.Topic))})
	return true
}

func (d *driver) foreign(s Foreign) {
	d.report.Foreign++
	if d.o.Foreign != nil {
		d.o.Foreign(s)
	}
}

// markerPrefix begins the metadata of a commit before a batch is produced.
const markerPrefix = "redrive"

// maxMarker bounds the bytes of a marker. Brokers accept 4096 bytes of metadata.
const maxMarker = 3000

// longestTopic is the maximum length of a topic name, in bytes.
const longestTopic = 249

// marker is committed before a batch goes back. It means that the letters from the commit's offset up to until may be on their
// way. ends are the ends of the logs that they go to, before that. A run that finds a marker searches there for letters that have
// arrived.
type marker struct {
	until int64
	ends  map[record.Partition]int64
}

// String returns the metadata of the commit: "redrive until=<offset> <topic>/<partition>=<end> …".
func (m *marker) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s until=%d", markerPrefix, m.until)
	places := slices.SortedFunc(maps.Keys(m.ends), record.Partition.Compare)
	for _, p := range places {
		fmt.Fprintf(&b, " %s=%d", p, m.ends[p])
	}
	return b.String()
}

// markerBytes bounds how many bytes a partition adds to a marker. topic is the length of the topic's name in bytes.
func markerBytes(topic int) int { return topic + 34 }

// parseMarker parses the metadata of a commit. Nil means that the commit has no marker.
func parseMarker(metadata string) (*marker, error) {
	fields := strings.Fields(metadata)
	if len(fields) == 0 || fields[0] != markerPrefix {
		return nil, nil
	}
	broken := func(err error) error {
		return fmt.Errorf("reading the metadata %q of the committed offset: %w", metadata, err)
	}
	m := &marker{until: -1, ends: map[record.Partition]int64{}}
	for _, field := range fields[1:] {
		if until, ok := strings.CutPrefix(field, "until="); ok {
			offset, err := strconv.ParseUint(until, 10, 63)
			if err != nil {
				return nil, broken(err)
			}
			m.until = int64(offset)
			continue
		}
		end, err := record.ParsePlace(strings.Replace(field, "=", "/", 1))
		if err != nil {
			return nil, broken(err)
		}
		m.ends[end.Partition] = end.Offset
	}
	if m.until < 0 {
		return nil, broken(errors.New("the field \"until\" is missing"))
	}
	return m, nil
}

// lookUp marks the letters of a begun batch that have arrived. It looks for them among the records that were written since the
// batch began. A record names the place of its letter. Anyone who may write to the topic can name a letter, so the record must
// also have the content with which the letter goes back. lookUp ignores the timestamp, because the broker may have replaced it.
func (d *driver) lookUp(ctx context.Context, b *batch) error {
	if !d.o.DryRun && !kafka.Sleep(ctx, arrivalTime) {
		return context.Cause(ctx)
	}
	sent := map[record.Place]*item{}
	for i := range b.letters {
		if one := &b.letters[i]; !one.refused {
			sent[one.Place] = one
		}
	}
	for to, from := range b.marker.ends {
		_, end, err := d.log.Bounds(ctx, to)
		if err == nil && end > from {
			_, err = d.log.Scan(ctx, to, from, end, func(r *record.Record) error {
				headers, err := recordbatch.ParseHeaders(r.Headers)
				place, _ := dlq.DrivenFrom(headers)
				if one := sent[place]; one != nil && one.Letter.Partition == to && isSame(&one.message, r, headers) {
					one.done = true
				}
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("checking which records of dead letters have arrived in %s: %w", to, err)
		}
	}
	return nil
}

// isSame reports whether a message was written as this record.
func isSame(m *kafka.Message, r *record.Record, headers []record.Header) bool {
	return equal(m.Key, r.Key) && equal(m.Value, r.Value) && slices.EqualFunc(m.Headers, headers, func(a, b record.Header) bool {
		return a.Key == b.Key && equal(a.Value, b.Value)
	})
}
