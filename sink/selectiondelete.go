package sink

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
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

// delete deletes buckets, each as long as it has the measurements with which it was read: then the selection still finds it.
func (d *Deletion) delete(ctx context.Context, buckets []edited) (int64, error) {
	filters := make([]bson.Raw, len(buckets))
	for i, b := range buckets {
		filter := d.s.asRead(b)
		if !d.s.Closed {
			filter = append(filter, d.s.open())
		}
		filters[i] = mongodb.Document(filter)
	}
	return mongodb.Executed(d.s.buckets.Delete(ctx, filters))
}
