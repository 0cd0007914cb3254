package dlq

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// lookUp marks the letters of a begun parcel that have arrived. It compares what was written since the parcel began with all
// of its letters, also with those that are known to be there: of letters that are equal, an arrival that an earlier look has
// counted would otherwise pass for one that never left. Only those that were refused are none of them. Letters of one
// partition arrive in their order.
func (r *Redrive) lookUp(ctx context.Context, b *parcel) error {
	if !r.o.DryRun && !pause(ctx, r.o.Settle) {
		return context.Cause(ctx)
	}
	arrived, err := r.arrived(ctx, b.intent.ends)
	if err != nil {
		return err
	}
	for i := range b.letters {
		one := &b.letters[i]
		if one.refused {
			continue
		}
		to := one.letter.source()
		queue := arrived[to]
		if at := slices.Index(queue, fingerprintOf(&one.record)); at >= 0 {
			arrived[to] = queue[at+1:]
			one.done = true
		}
	}
	return nil
}

// arrived is what went back to each partition since its log ended there, in order.
func (r *Redrive) arrived(ctx context.Context, ends map[Place]int64) (map[Place][]fingerprint, error) {
	arrived := map[Place][]fingerprint{}
	for _, to := range slices.SortedFunc(maps.Keys(ends), comparePlaces) {
		_, end, err := r.log.Bounds(ctx, to.Topic, to.Partition)
		if err == nil && end > ends[to] {
			err = r.log.Read(ctx, to.Topic, to.Partition, ends[to], end, func(record *Record) error {
				if isReturned(record) {
					arrived[to] = append(arrived[to], fingerprintOf(record))
				}
				return nil
			})
		}
		if err != nil {
			return nil, fmt.Errorf("looking for letters that have arrived in %s: %w", to, err)
		}
	}
	return arrived, nil
}
