package collection

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// MetaChange is what becomes of the buckets of one series.
type MetaChange struct{ Before, After bson.RawValue } // Type 0 means none.

// Change gives the buckets of series other metas, each bucket once. A bucket has either meta all the while, and its other
// fields stay as they are.
type Change struct {
	editing
	after map[string]target // by the series before
	// moved is from which series each bucket was moved, where buckets may be moved to a series that is changed as well.
	moved map[string]string
}

// target is what a series becomes; not set: it stays as it is.
type target struct {
	meta bson.RawValue
	set  bool
}

// Change makes the Change of a selection: all its series, as Series lists them, and those that change.
func (s *Selection) Change(all []SelectedSeries, changes []MetaChange, progress func(Edited)) *Change {
	c := &Change{editing: editing{s: s, progress: progress, most: maxChanged, kind: NotedChanged}, after: make(map[string]target, len(all)+len(changes))}
	c.send, c.isDone = c.update, c.isMoved
	for _, one := range all {
		c.after[timeseries.Key(one.Meta)] = target{}
	}
	for _, one := range changes {
		c.after[timeseries.Key(one.Before)] = target{one.After, true}
	}
	for _, one := range changes {
		into, known := c.after[timeseries.Key(one.After)]
		switch {
		case !known:
			c.after[timeseries.Key(one.After)] = target{}
		case into.set && c.moved == nil:
			c.moved = map[string]string{}
		}
	}
	return c
}

// Run changes the buckets that were not changed yet. After an *OutageError it can be called again; none is
// changed twice.
func (c *Change) Run(ctx context.Context) error {
	c.edited.Appeared = 0
	return c.pass(ctx, "changing metas", c.isWanted)
}

func (c *Change) isWanted(b edited) bool {
	series := b.series()
	to, known := c.after[series]
	if !known {
		c.edited.Appeared++
		return false
	}
	if from, moved := c.moved[b.key()]; moved && from != series {
		return false // it has arrived
	}
	return to.set
}

// update sends one update for each bucket, under the condition that it still has its meta and its measurements.
func (c *Change) update(ctx context.Context, buckets []edited) (int64, error) {
	updates := make([]mongodb.Update, len(buckets))
	for i, b := range buckets {
		filter := c.s.asRead(b)
		if b.meta.Type == 0 { // mongos takes a change of the shard key only from a filter that gives each of its fields a value
			filter[1].Value = bson.D{{Key: "$eq", Value: nil}, {Key: "$exists", Value: false}}
		}
		if !c.s.Closed {
			filter = append(filter, c.s.open())
		}
		updates[i] = mongodb.Update{Filter: mongodb.Document(filter), Update: setsMeta(c.after[b.series()].meta)}
		if c.moved != nil {
			c.moved[b.key()] = b.series()
		}
	}
	return mongodb.Executed(c.s.Move(ctx, updates))
}

func (c *Change) isMoved(before edited, now *edited) bool {
	return now != nil && now.series() == timeseries.Key(c.after[before.series()].meta)
}

// setsMeta is the update that gives a bucket a meta, or takes it away.
func setsMeta(meta bson.RawValue) bson.Raw {
	if meta.Type == 0 {
		return mongodb.Document(bson.D{{Key: "$unset", Value: bson.D{{Key: timeseries.FieldMeta, Value: ""}}}})
	}
	return mongodb.Set(bson.D{{Key: timeseries.FieldMeta, Value: meta}})
}

// Deletion deletes the buckets of a selection.
type Deletion struct{ editing }

// Delete makes the Deletion of a selection.
func (s *Selection) Delete(progress func(Edited)) *Deletion {
	d := &Deletion{editing{s: s, progress: progress, most: maxDeleted, kind: NotedDeleted}}
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
