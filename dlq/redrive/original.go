package redrive

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"waterwheel/dlq"
	"waterwheel/kafka"
	"waterwheel/record"
)

// nearRecords is how many records lie at most between two that are looked for and read in one go.
const nearRecords = 1000

// originals looks at the records that letters say they come from. Whoever may write to a dead-letter topic may name any.
type originals struct {
	log    dlq.Log
	topics map[string]kafka.Topic
	bounds map[record.Partition]dlq.Span
}

// claim is a letter's claim to be of a record, and what became of it.
type claim struct {
	letter *record.Letter
	// wrong says what speaks against it, empty: nothing.
	wrong string
	// gone tells that the log does not have the record any more: nothing can be compared.
	gone bool
}

func newOriginals(log dlq.Log) *originals {
	return &originals{log: log, topics: map[string]kafka.Topic{}, bounds: map[record.Partition]dlq.Span{}}
}

// doubt tells what speaks against that a letter is of the record that it names, empty: nothing. Such a letter is driven back by
// no selection.
func doubt(ctx context.Context, log dlq.Log, l *record.Letter) (string, error) {
	claims := []claim{{letter: l}}
	err := newOriginals(log).check(ctx, claims)
	return claims[0].wrong, err
}

// check judges claims: the position exists, or did so once, and the key is the record's.
func (o *originals) check(ctx context.Context, claims []claim) error {
	var open []*claim
	for i := range claims {
		c := &claims[i]
		if err := o.place(ctx, c); err != nil {
			return err
		}
		if c.wrong == "" && !c.gone {
			open = append(open, c)
		}
	}
	slices.SortStableFunc(open, func(a, b *claim) int {
		return cmp.Or(a.letter.Partition.Compare(b.letter.Partition), cmp.Compare(a.letter.Offset, b.letter.Offset))
	})
	for len(open) > 0 {
		n := near(open)
		if err := o.compare(ctx, open[:n]); err != nil {
			return fmt.Errorf("comparing letters with the records that they are of: %w", err)
		}
		open = open[n:]
	}
	return nil
}

// place looks whether the log has, or had, the position.
func (o *originals) place(ctx context.Context, c *claim) error {
	l := c.letter
	topic, err := o.topic(ctx, l.Topic)
	if err != nil {
		return err
	}
	var none [16]byte
	switch {
	case !slices.ContainsFunc(topic.Partitions, func(p kafka.Partition) bool { return p.ID == l.Number }):
		c.wrong = fmt.Sprintf("%s has no partition %d", l.Topic, l.Number)
	case l.TopicID != topic.ID && l.TopicID != none && topic.ID != none:
		c.wrong = l.Topic + " was created anew since"
	default:
		span, err := o.span(ctx, l.Partition)
		if err != nil {
			return err
		}
		c.gone = l.Offset < span.First
		if l.Offset >= span.End {
			c.wrong = fmt.Sprintf("%s ends at %d, before offset %d", span.Partition, span.End, l.Offset)
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

// span is asked for once: every letter that is looked at was written before, and its record before that.
func (o *originals) span(ctx context.Context, p record.Partition) (dlq.Span, error) {
	if s, known := o.bounds[p]; known {
		return s, nil
	}
	s := dlq.Span{Partition: p}
	var err error
	if s.First, s.End, err = o.log.Bounds(ctx, p); err != nil {
		return s, fmt.Errorf("looking for the bounds of %s, where letters come from: %w", p, err)
	}
	o.bounds[p] = s
	return s, nil
}

// near is how many claims, from the first on, are about records that are read in one go.
func near(sorted []*claim) int {
	n := 1
	for ; n < len(sorted); n++ {
		last, next := sorted[n-1].letter, sorted[n].letter
		if last.Partition != next.Partition || next.Offset-last.Offset > nearRecords {
			break
		}
	}
	return n
}

// compare reads the records of one partition that claims are about, in their order. One that the log has no more, by
// compaction or because it was deleted meanwhile, was there once.
func (o *originals) compare(ctx context.Context, claims []*claim) error {
	place, last := claims[0].letter.Partition, claims[len(claims)-1].letter.Offset
	pass := func(before int64) {
		for ; len(claims) > 0 && claims[0].letter.Offset < before; claims = claims[1:] {
			claims[0].gone = true
		}
	}
	_, err := o.log.Scan(ctx, place, claims[0].letter.Offset, last+1, func(r *record.Record) error {
		pass(r.Offset)
		for ; len(claims) > 0 && claims[0].letter.Offset == r.Offset; claims = claims[1:] {
			if key := claims[0].letter.Key; !bytes.Equal(key, r.Key) || (key == nil) != (r.Key == nil) {
				claims[0].wrong = fmt.Sprintf("its key is not that of the record %s/%d", place, r.Offset)
			}
		}
		if len(claims) == 0 {
			return kafka.ErrStop
		}
		return nil
	})
	pass(last + 1)
	return err
}
