package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// drivePartition drives the letters of one partition, from where the group's commit says. A run that another ended in the
// middle of a parcel begins with that parcel.
func (r *Redrive) drivePartition(ctx context.Context, s Span) error {
	own := r.o.Own.Committed[s.Place]
	if own.Offset > s.End {
		return fmt.Errorf("the group has committed offset %d of %s, which ends at %d: was the topic made anew? Delete the group, or reset it with kafka-consumer-groups.sh",
			own.Offset, s.Place, s.End)
	}
	b := &parcel{place: s.Place, start: r.from(s), targets: map[Place]bool{}}
	b.next = b.start
	var err error
	if b.intent, err = parseIntent(own.Metadata); err != nil {
		return fmt.Errorf("%s: %w", s.Place, err)
	}
	if b.next >= s.End {
		return r.forget(ctx, b)
	}
	if r.isEnough(b) {
		return nil
	}
	failed := false
	err = Scan(ctx, r.log, []Span{{Place: s.Place, First: b.next, End: s.End}}, func(f *Found) error {
		err := r.take(ctx, b, f)
		failed = err != nil && !errors.Is(err, ErrStop)
		return err
	})
	if failed {
		return err
	}
	interrupted := err
	if interrupted == nil {
		if !r.isEnough(b) {
			b.next = s.End // what lies behind the last record are gaps
		}
		if err := r.drive(ctx, b); err != nil {
			return err
		}
	}
	if err := r.settle(ctx, b); err != nil {
		return err
	}
	return interrupted
}

// take puts a letter into the parcel, or leaves it, and drives the parcel when it is full.
func (r *Redrive) take(ctx context.Context, b *parcel, f *Found) error {
	if b.intent != nil && f.Offset >= b.intent.until || b.isFull(r.o.Rate) {
		if err := r.drive(ctx, b); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if enough, err := r.hasEnough(ctx, b); enough || err != nil {
		return cmp.Or(err, ErrStop)
	}
	wanted, err := r.judge(f)
	if err != nil {
		return err
	}
	r.report.Read++
	if wanted {
		again := ""
		if r.o.DryRun && r.o.Again != nil {
			again = r.o.Again(&f.Letter)
		}
		b.add(f, again)
	}
	b.next = f.Offset + 1
	return nil
}

// judge tells whether a letter goes into the parcel, and counts why not. Whether it is of the record that it names is looked at
// for many at once, when the parcel is full.
func (r *Redrive) judge(f *Found) (bool, error) {
	l, s := &f.Letter, &r.o.Selection
	switch {
	case f.Err != nil:
		r.report.Others++
	case !s.Selects(l):
		r.report.Unselected++
	case r.taken.has(l):
		r.report.Doubles++
	case l.Cut != "":
		r.report.Cut++
	case l.attempts() >= s.MaxAttempts:
		r.report.Exhausted++
	case r.isForeign(f):
	case !slices.Contains(r.o.Sources, l.Topic):
		return false, fmt.Errorf("the letter %s/%d comes from the topic %q, which is not one of KAFKA_TOPICS: add it there, or choose topics with --topic",
			f.Place, f.Offset, l.Topic)
	default:
		return true, nil
	}
	return false, nil
}

// hasEnough sifts the parcel before it says that the limit is reached: what stays does not count.
func (r *Redrive) hasEnough(ctx context.Context, b *parcel) (bool, error) {
	if !r.isEnough(b) {
		return false, nil
	}
	if err := r.sift(ctx, b); err != nil {
		return false, err
	}
	return r.isEnough(b), nil
}

// isEnough tells whether the limit is reached. A letter that is refused counts: a topic that takes nothing would otherwise be
// offered everything.
func (r *Redrive) isEnough(b *parcel) bool {
	return r.o.Limit > 0 && b.intent == nil && r.report.Driven+r.report.Refused+int64(len(b.letters)) >= r.o.Limit
}
