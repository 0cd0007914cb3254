package redrive

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// lookUp marks the letters of a begun batch that have arrived. It compares the records written since the batch began with all
// letters of the batch, including those that are known to have arrived. Otherwise, among equal letters, an arrival that was
// counted before would count again for a letter that was never sent. It skips only the refused letters. The letters of one
// partition arrive in their order.
func (d *driver) lookUp(ctx context.Context, b *batch) error {
	if !d.o.DryRun && !kafka.Sleep(ctx, arrivalTime) {
		return context.Cause(ctx)
	}
	arrived, err := d.arrived(ctx, b.marker.ends)
	if err != nil {
		return err
	}
	for i := range b.letters {
		one := &b.letters[i]
		if one.refused {
			continue
		}
		to := one.Letter.Partition
		queue := arrived[to]
		if at := slices.Index(queue, fingerprintOf(one.message.Key, one.message.Value, one.message.Headers)); at >= 0 {
			arrived[to] = queue[at+1:]
			one.done = true
		}
	}
	return nil
}

// arrived returns the records that went back to each partition after the offset in ends, in order.
func (d *driver) arrived(ctx context.Context, ends map[record.Partition]int64) (map[record.Partition][]fingerprint, error) {
	arrived := map[record.Partition][]fingerprint{}
	for _, to := range slices.SortedFunc(maps.Keys(ends), record.Partition.Compare) {
		_, end, err := d.log.Bounds(ctx, to)
		if err == nil && end > ends[to] {
			_, err = d.log.Scan(ctx, to, ends[to], end, func(r *record.Record) error {
				headers, err := recordbatch.ParseHeaders(r.Headers)
				if mayBeReturned(headers) {
					arrived[to] = append(arrived[to], fingerprintOf(r.Key, r.Value, headers))
				}
				return err
			})
		}
		if err != nil {
			return nil, fmt.Errorf("checking which records of dead letters have arrived in %s: %w", to, err)
		}
	}
	return arrived, nil
}
