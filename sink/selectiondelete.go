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
	return d
}

// Run deletes the buckets. After an *OutageError it can be called again.
func (d *Deletion) Run(ctx context.Context) error {
	return d.pass(ctx, "deleting buckets", func(edited) bool { return true })
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
