package redrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// batchLetters and batchBytes bound the letters that go back under one commit.
const (
	batchLetters = 500
	batchBytes   = 1 << 20
)

// batch is a list of letters that go back under one commit.
type batch struct {
	from    record.Partition // a partition of a dead-letter topic
	start   int64            // everything before it is done
	next    int64            // everything before it is done or in letters
	letters []item
	checked int // this many of the letters, from the first on, were checked against their records
	bytes   int
	marker  *marker // a marker committed by an earlier run that began with these letters
	targets map[record.Partition]bool
	noted   int // bytes of the marker
}

// item is a letter on its way back.
type item struct {
	dlq.Found
	again   string        // the reason for which it would become a letter again. Empty means that none is known.
	message kafka.Message // the record that it goes back as
	wrong   string        // why the letter does not belong to the record that it names. Empty means that it does.
	gone    bool          // its topic no longer has the record, so nothing could be compared
	done    bool          // it has gone back
	refused bool          // its topic rejects it, so it stays
}

func (b *batch) add(f *dlq.Found, again string) {
	one := item{Found: f.Clone(), again: again}
	one.message = returned(&one.Found)
	b.letters = append(b.letters, one)
	b.bytes += one.message.Size()
	if to := f.Letter.Partition; !b.targets[to] {
		b.targets[to] = true
		b.noted += markerBytes(len(to.Topic))
	}
}

// isFull reports whether the batch is complete. A batch that an earlier run began keeps its original end.
func (b *batch) isFull(rate int) bool {
	if b.marker != nil {
		return false
	}
	most := batchLetters
	if rate > 0 {
		most = min(most, rate)
	}
	return len(b.letters) >= most || b.bytes >= batchBytes || b.noted+markerBytes(longestTopic) > maxMarker
}

// waiting returns the letters that still have to go back, in order.
func (b *batch) waiting() []*item {
	var waiting []*item
	for i := range b.letters {
		if one := &b.letters[i]; !one.done && !one.refused {
			waiting = append(waiting, one)
		}
	}
	return waiting
}

// drivePartition drives the letters of one partition, from the group's commit on. If an earlier run ended in the middle of a
// batch, drivePartition begins with that batch.
func (d *driver) drivePartition(ctx context.Context, s dlq.Span) error {
	own := d.own.committed[s.Partition]
	if own.Offset > s.End {
		return fmt.Errorf("the offset %d of %s that the consumer group %s has committed is beyond the end offset %d: was the topic deleted and created again? Delete this group, or reset its offsets, with kafka-consumer-groups.sh",
			own.Offset, s.Partition, Group(d.o.Member.GroupID, d.o.Selection), s.End)
	}
	b := &batch{from: s.Partition, start: d.from(s), targets: map[record.Partition]bool{}}
	b.next = b.start
	var err error
	if b.marker, err = parseMarker(own.Metadata); err != nil {
		return fmt.Errorf("%s: %w", s.Partition, err)
	}
	if b.next >= s.End {
		return d.forget(ctx, b)
	}
	if d.isEnough(b) {
		return nil
	}
	failed := false
	err = dlq.Scan(ctx, d.log, []dlq.Span{{Partition: s.Partition, First: b.next, End: s.End}}, func(f *dlq.Found) error {
		err := d.take(ctx, b, f)
		failed = err != nil && !errors.Is(err, kafka.ErrStop)
		return err
	})
	if failed {
		return err
	}
	interrupted := err
	if interrupted == nil {
		if !d.isEnough(b) {
			b.next = s.End // no records remain before the end
		}
		if err := d.drive(ctx, b); err != nil {
			return err
		}
	}
	if err := d.leave(ctx, b); err != nil {
		return err
	}
	return interrupted
}

// take adds a letter to the batch if it is wanted. Before that it drives the batch if it is full.
func (d *driver) take(ctx context.Context, b *batch, f *dlq.Found) error {
	if b.marker != nil && f.Offset >= b.marker.until || b.isFull(d.o.Rate) {
		if err := d.drive(ctx, b); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if enough, err := d.hasEnough(ctx, b); enough || err != nil {
		return cmp.Or(err, kafka.ErrStop)
	}
	wanted, err := d.judge(f)
	if err != nil {
		return err
	}
	d.report.Read++
	if wanted {
		again := ""
		if d.o.DryRun && d.o.Again != nil {
			again = d.o.Again(f)
		}
		b.add(f, again)
	}
	b.next = f.Offset + 1
	return nil
}

// judge reports whether a letter goes into the batch, and otherwise counts why not. filter checks later, for the whole batch at
// once, whether letters belong to the records that they name.
func (d *driver) judge(f *dlq.Found) (bool, error) {
	l, s := &f.Letter, &d.o.Selection
	switch {
	case f.Err != nil:
		d.report.Others++
	case !s.Selects(l):
		d.report.Unselected++
	case d.taken.Has(l):
		d.report.Doubles++
	case l.Cut != "":
		d.report.Cut++
	case f.Attempts() >= s.MaxAttempts:
		d.report.Exhausted++
	case d.isForeign(f):
	case !slices.Contains(d.o.Member.Topics, l.Topic):
		return false, fmt.Errorf("the dead letter %s comes from the topic %q, which is not in KAFKA_TOPICS: add the topic to KAFKA_TOPICS, or choose topics with --topic",
			f.Place, l.Topic)
	default:
		return true, nil
	}
	return false, nil
}

// hasEnough reports whether the limit is reached. It filters the batch first, because letters that stay do not count.
func (d *driver) hasEnough(ctx context.Context, b *batch) (bool, error) {
	if !d.isEnough(b) {
		return false, nil
	}
	if err := d.filter(ctx, b); err != nil {
		return false, err
	}
	return d.isEnough(b), nil
}

// isEnough reports whether the limit is reached. Refused letters count. Otherwise a topic that refuses everything would be
// offered all letters.
func (d *driver) isEnough(b *batch) bool {
	return d.o.Limit > 0 && b.marker == nil && d.report.Driven+d.report.Refused+int64(len(b.letters)) >= d.o.Limit
}

// returned is the record that a letter goes back as: the original, the number of attempts including the next one, and the
// letter's place.
func returned(f *dlq.Found) kafka.Message {
	l := &f.Letter
	return kafka.Message{Timestamp: l.Timestamp, Key: l.Key, Value: l.Value, Headers: append(
		slices.Clone(dlq.OwnHeaders(f.Headers)),
		record.Header{Key: dlq.HeaderAttempt, Value: []byte(strconv.Itoa(f.Attempts() + 1))},
		record.Header{Key: dlq.HeaderDriven, Value: []byte(f.Place.String())},
	)}
}

// target takes letters back. Calls do not overlap.
type target interface {
	// Produce appends messages to a partition, in order. It returns when all in-sync replicas have them, except refused ones. The
	// partition refuses a message because of its content, and would do so again. refused has the broker's errors by the messages'
	// indexes. After an error the first messages may have been written, or may still be written within arrivalTime.
	Produce(ctx context.Context, to record.Partition, messages []kafka.Message) (refused map[int]error, err error)
}

// returner implements target with Kafka.
type returner struct {
	write func(ctx context.Context, to record.Partition, messages ...kafka.Message) error
	// hold is called before each request. An error forbids the request, because another run may have taken over.
	hold func(context.Context) error
}

// Produce implements target.
func (r *returner) Produce(ctx context.Context, to record.Partition, messages []kafka.Message) (refused map[int]error, err error) {
	refused = map[int]error{}
	for done := 0; done < len(messages); {
		end := done + kafka.Fitting(messages[done:], (*kafka.Message).Size)
		err := r.send(ctx, to, messages[done:end]...)
		if dlq.Refuses(err) {
			err = r.sendOneByOne(ctx, to, messages[done:end], func(i int, err error) { refused[done+i] = err })
		}
		if err != nil {
			return nil, err
		}
		done = end
	}
	return refused, nil
}

// sendOneByOne finds the messages that the partition refuses, and sends the others.
func (r *returner) sendOneByOne(ctx context.Context, to record.Partition, messages []kafka.Message, refused func(i int, err error)) error {
	for i := range messages {
		err := r.send(ctx, to, messages[i])
		switch {
		case dlq.Refuses(err):
			refused(i, err)
		case err != nil:
			return err
		}
	}
	return nil
}

func (r *returner) send(ctx context.Context, to record.Partition, messages ...kafka.Message) error {
	if err := r.hold(ctx); err != nil {
		return err
	}
	return r.write(ctx, to, messages...)
}
