package sink

import (
	"context"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Deletion deletes the buckets of a selection.
type Deletion struct{ editing }

// Delete makes the Deletion of a selection.
func (s *Selection) Delete(progress func(Edited)) *Deletion {
	d := &Deletion{editing{s: s, progress: progress, most: maxDeleted, kind: notedDeleted}}
	if s.unnoted {
		d.kind = ""
	}
	d.send, d.isDone = d.delete, func(_ edited, now *edited) bool { return now == nil }
	d.segments = newSegmentEdits(&d.editing)
	return d
}

// Run takes the measurements out of the segments that there are, and deletes the buckets. After an *OutageError it can be called
// again. See segmentEdits for why it is in this order.
func (d *Deletion) Run(ctx context.Context) error {
	if err := d.s.begin(ctx); err != nil {
		return err
	}
	selected, err := d.s.stagedSeries(ctx)
	if err != nil {
		return failure("looking for segments", err)
	}
	gone := make(map[string]bool, len(selected))
	for _, one := range selected {
		gone[seriesOf(one.meta)] = true
	}
	left := d.segments.run(ctx, func(meta bson.RawValue) (bson.RawValue, bool) { return meta, !gone[seriesOf(meta)] })
	if left != nil && !d.segments.isDamage(left) {
		return left
	}
	if err := d.pass(ctx, "deleting buckets", func(edited) bool { return true }); err != nil {
		return err
	}
	return left
}

// delete deletes buckets that the selection still finds, each as long as it has the measurements with which it was read.
func (d *Deletion) delete(ctx context.Context, buckets []edited) (int64, error) {
	byCount := map[string][]edited{}
	for _, b := range buckets {
		byCount[string(b.counted.Value)] = append(byCount[string(b.counted.Value)], b)
	}
	asRead := make(bson.A, 0, len(byCount))
	for _, key := range slices.Sorted(maps.Keys(byCount)) {
		asRead = append(asRead, bson.D{byCount[key][0].asCounted(), among(byCount[key])})
	}
	conditions := bson.A{d.s.bucketQuery(), bson.D{{Key: "$or", Value: asRead}}}
	if !d.s.closed {
		conditions = append(conditions, bson.D{d.s.open()})
	}
	return d.s.buckets.Delete(ctx, document(bson.D{among(buckets), {Key: "$and", Value: conditions}}))
}
