package dlq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	all := b.letters
	if b.intent != nil {
		if err := r.drop(sending, b); err != nil {
			return err
		}
		r.report.Arrived += int64(len(all) - len(b.letters))
		all = b.letters
	}
	if !r.o.DryRun && len(all) > 0 {
		if err := r.send(ctx, sending, b); err != nil {
			return err
		}
	}
	for _, one := range all {
		r.report.Driven++
		r.report.Reasons[one.reason]++
	}
	if b.intent != nil && b.start < b.next && !r.o.DryRun {
		if err := r.commit(sending, b.place, b.next, nil); err != nil {
			return err
		}
	}
	*b = parcel{place: b.place, start: b.next, next: b.next, targets: map[Place]bool{}}
	if r.o.Report != nil {
		r.o.Report(r.report)
	}
	r.pace(ctx, len(all))
	return nil
}

// send brings all letters of the parcel back. Before it sends, it commits what it is about to do; after a failure it looks
// which letters have arrived. The end of ctx ends only the trying again.
func (r *Redrive) send(ctx, sending context.Context, b *parcel) error {
	if b.intent == nil {
		i, err := r.plan(sending, b)
		if err != nil {
			return err
		}
		if err := r.commit(sending, b.place, b.start, i); err != nil {
			return err
		}
		b.intent = i
	}
	for try := 1; ; try++ {
		err := r.produce(sending, b)
		if err == nil {
			return nil
		}
		if try == produceTries || ctx.Err() != nil || errors.As(err, new(*RefusedError)) {
			return err
		}
		if err := r.drop(sending, b); err != nil {
			return err
		}
	}
}

// plan notes where the logs end that the letters go to.
func (r *Redrive) plan(ctx context.Context, b *parcel) (*intent, error) {
	i := &intent{until: b.next, ends: map[Place]int64{}}
	for to := range b.targets {
		_, end, err := r.log.Bounds(ctx, to.Topic, to.Partition)
		if err != nil {
			return nil, fmt.Errorf("looking for the end of %s, where letters go back to: %w", to, err)
		}
		i.ends[to] = end
	}
	return i, nil
}

// produce sends the parcel's letters partition by partition, and takes those that are acknowledged out of it.
func (r *Redrive) produce(ctx context.Context, b *parcel) error {
	for len(b.letters) > 0 {
		to := b.letters[0].to
		var records []Record
		var offsets []int64
		for _, one := range b.letters {
			if one.to == to {
				records, offsets = append(records, one.record), append(offsets, one.offset)
			}
		}
		err := r.target.Produce(ctx, to, records)
		if refused := (*RefusedError)(nil); errors.As(err, &refused) {
			return fmt.Errorf("%s does not take the letter %s/%d back; change the topic's configuration, leave the letter out by a filter, or set the group's offset to %d with kafka-consumer-groups.sh: %w",
				to, b.place, offsets[refused.Index], offsets[refused.Index]+1, err)
		}
		if err != nil {
			return fmt.Errorf("bringing letters back to %s: %w", to, err)
		}
		b.letters = slices.DeleteFunc(slices.Clone(b.letters), func(one item) bool { return one.to == to })
	}
	return nil
}

// drop takes letters that have arrived out of the parcel. Letters of one partition arrive in their order, so what is found
// of them is compared in that order.
func (r *Redrive) drop(ctx context.Context, b *parcel) error {
	if !r.o.DryRun && !pause(ctx, r.o.Settle) {
		return context.Cause(ctx)
	}
	arrived := map[Place][]fingerprint{}
	for _, to := range slices.SortedFunc(maps.Keys(b.intent.ends), comparePlaces) {
		_, end, err := r.log.Bounds(ctx, to.Topic, to.Partition)
		if err == nil && end > b.intent.ends[to] {
			err = r.log.Read(ctx, to.Topic, to.Partition, b.intent.ends[to], end, func(record *Record) error {
				if isReturned(record) {
					arrived[to] = append(arrived[to], fingerprintOf(record))
				}
				return nil
			})
		}
		if err != nil {
			return fmt.Errorf("looking for letters that have arrived in %s: %w", to, err)
		}
	}
	b.letters = slices.DeleteFunc(slices.Clone(b.letters), func(one item) bool {
		queue := arrived[one.to]
		i := slices.Index(queue, fingerprintOf(&one.record))
		if i >= 0 {
			arrived[one.to] = queue[i+1:]
		}
		return i >= 0
	})
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

func comparePlaces(a, b Place) int { return strings.Compare(a.String(), b.String()) }
