package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// produceTries is how often a parcel is tried before the re-drive gives up.
	produceTries = 5
	// produceRoom is the time one try, or a commit, may take after the caller's context has ended.
	produceRoom = time.Minute
)

// drive sends the parcel's letters and begins the next parcel. It does not stop in the middle when ctx ends.
func (r *Redrive) drive(ctx context.Context, b *parcel) error {
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), produceTries*(r.o.Settle+produceRoom))
	defer cancel()
	if err := r.sift(sending, b); err != nil {
		return err
	}
	if b.intent != nil {
		if err := r.lookUp(sending, b); err != nil {
			return err
		}
	}
	due := b.waiting()
	r.report.Arrived += int64(len(b.letters) - len(due))
	if !r.o.DryRun && len(due) > 0 {
		if err := r.send(ctx, sending, b); err != nil {
			return err
		}
	}
	r.count(due)
	if b.intent != nil && b.start < b.next && !r.o.DryRun {
		if err := r.commit(sending, b.place, b.next, nil); err != nil {
			return err
		}
	}
	*b = parcel{place: b.place, start: b.next, next: b.next, targets: map[Place]bool{}}
	if r.o.Report != nil {
		r.o.Report(r.report)
	}
	r.pace(ctx, len(due))
	return nil
}

// count counts the letters that went back, or would have.
func (r *Redrive) count(due []*item) {
	for _, one := range due {
		if one.refused {
			continue
		}
		r.report.Driven++
		r.report.Reasons[one.letter.Reason]++
		if one.gone {
			r.report.Gone++
		}
		r.countAgain(one.again)
	}
}

// countAgain counts a letter that would come back for a reason; empty: none is known.
func (r *Redrive) countAgain(reason string) {
	switch {
	case reason == "":
		return
	case r.report.Again == nil:
		r.report.Again = map[string]int64{}
	}
	r.report.Again[reason]++
}

// send brings all letters of the parcel back. Before each try it commits what it is about to do, which also tells whether
// the group is still this run's; after a failure it looks which letters have arrived. The end of ctx ends only the trying
// again.
func (r *Redrive) send(ctx, sending context.Context, b *parcel) error {
	if b.intent == nil {
		var err error
		if b.intent, err = r.plan(sending, b); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		if err := r.commit(sending, b.place, b.start, b.intent); err != nil {
			return err
		}
		err := r.produce(sending, b)
		if err == nil {
			return nil
		}
		if try == produceTries || ctx.Err() != nil {
			return err
		}
		if err := r.lookUp(sending, b); err != nil {
			return err
		}
	}
}

// plan notes where the logs end that the letters go to.
func (r *Redrive) plan(ctx context.Context, b *parcel) (*intent, error) {
	i := &intent{until: b.next, ends: map[Place]int64{}}
	for _, one := range b.waiting() {
		to := one.letter.source()
		if _, known := i.ends[to]; known {
			continue
		}
		_, end, err := r.log.Bounds(ctx, to.Topic, to.Partition)
		if err != nil {
			return nil, fmt.Errorf("looking for the end of %s, where letters go back to: %w", to, err)
		}
		i.ends[to] = end
	}
	return i, nil
}

// produce sends the parcel's waiting letters partition by partition. One that its topic refuses stays and holds up no other:
// what is then committed says nothing of it, so that it does not hold up other selections either.
func (r *Redrive) produce(ctx context.Context, b *parcel) error {
	for due := b.waiting(); len(due) > 0; due = b.waiting() {
		to := due[0].letter.source()
		due = slices.DeleteFunc(due, func(one *item) bool { return one.letter.source() != to })
		records := make([]Record, len(due))
		for i, one := range due {
			records[i] = one.record
		}
		err := r.target.Produce(ctx, to, records)
		var refused *RefusedError
		if err != nil && !errors.As(err, &refused) {
			return fmt.Errorf("bringing letters back to %s: %w", to, err)
		}
		for i, one := range due {
			if refused == nil || refused.Errs[i] == nil {
				one.done = true
				continue
			}
			one.refused = true
			r.report.Refused++
			if r.o.Refused != nil {
				r.o.Refused(Refusal{Place: b.place, Offset: one.offset, To: to, Err: refused.Errs[i]})
			}
		}
	}
	return nil
}

// settle commits what is done when a partition is left, unless a former run's letters still wait.
func (r *Redrive) settle(ctx context.Context, b *parcel) error {
	if r.o.DryRun || b.intent != nil || b.start == r.o.Own.Committed[b.place].Offset {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), produceRoom)
	defer cancel()
	return r.commit(ctx, b.place, b.start, nil)
}

// forget commits the end of a partition that has no more letters, where a former run was cut off: those that it was about have
// been deleted since, and its intent would hold up all other selections for ever.
func (r *Redrive) forget(ctx context.Context, b *parcel) error {
	if r.o.DryRun || b.intent == nil {
		return nil
	}
	return r.commit(ctx, b.place, b.next, nil)
}

func (r *Redrive) commit(ctx context.Context, place Place, offset int64, i *intent) error {
	metadata := ""
	if i != nil {
		metadata = i.String()
	}
	if err := r.progress.Commit(ctx, place, offset, metadata); err != nil {
		return fmt.Errorf("committing offset %d of %s: %w", offset, place, err)
	}
	return nil
}

// pace waits until as much time has passed as the letters so far may take.
func (r *Redrive) pace(ctx context.Context, letters int) {
	r.paced += int64(letters)
	if r.o.Rate > 0 && !r.o.DryRun {
		due := r.begin.Add(time.Duration(float64(r.paced) / float64(r.o.Rate) * float64(time.Second)))
		pause(ctx, time.Until(due))
	}
}

// pause waits; false: ctx has ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
