package collection

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// MetaChange is the meta of a series before and after a change.
type MetaChange struct{ Before, After bson.RawValue } // Type 0 means none.

// Change gives the buckets of series other metas, each bucket once. At any time a bucket has one of the two metas. Its other
// fields stay as they are.
type Change struct {
	editing
	after map[string]target // by the meta before
	// moved holds the former series of each moved bucket. It is used if a bucket may move to a series that also changes.
	moved map[string]string
}

// target is the new meta of a series. If set is false, the series stays as it is.
type target struct {
	meta bson.RawValue
	set  bool
}

// Change makes the Change of a selection. all are all its series, as Series lists them. changes are those that change.
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

// Run changes the buckets that were not changed yet. After an *OutageError it may be called again. It changes no bucket twice.
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
		return false // the bucket was moved before
	}
	return to.set
}

// update sends one update for each bucket, on the condition that the bucket still has its meta and its measurements.
func (c *Change) update(ctx context.Context, buckets []edited) (int64, error) {
	updates := make([]mongodb.Update, len(buckets))
	for i, b := range buckets {
		filter := c.s.asRead(b)
		// mongos takes a change of the shard key only with a filter that gives each field of the key a value.
		if b.meta.Type == 0 {
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

// setsMeta returns the update that gives a bucket a meta, or removes it.
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

// Run deletes the buckets. After an *OutageError it may be called again.
func (d *Deletion) Run(ctx context.Context) error {
	return d.pass(ctx, "deleting buckets", func(edited) bool { return true })
}

// delete deletes each bucket that still has the measurements that were read. Then the selection still includes it.
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
