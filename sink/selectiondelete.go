package sink

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Deletion deletes the buckets of a selection.
type Deletion struct{ editing }

// Delete makes the Deletion of a selection.
func (s *Selection) Delete(progress func(Edited)) *Deletion {
	d := &Deletion{editing{s: s, progress: progress, most: maxDeleted}}
	d.send, d.isDone = d.delete, func(_ edited, now *edited) bool { return now == nil }
	return d
}

// Run deletes the buckets that there are. After an *OutageError it can be called again.
func (d *Deletion) Run(ctx context.Context) error {
	return d.pass(ctx, "deleting buckets", func(edited) bool { return true })
}

// delete deletes buckets that the selection still finds.
func (d *Deletion) delete(ctx context.Context, buckets []edited) (int64, error) {
	filter := bson.D{among(buckets), {Key: "$and", Value: bson.A{d.s.query}}}
	if !d.s.closed {
		filter = append(filter, d.s.open())
	}
	return d.s.buckets.Delete(ctx, document(filter))
}
