package pipeline_test

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// onlyACopy reports whether a write of a bucket changes only the copy that a moved chunk left behind, and is acknowledged all the
// same. A router sends a write without the shard key to all shards, and without a shard version.
func (c port) onlyACopy(document, filter bson.Raw) bool {
	w := c.w
	if !w.traits.sharded || c.of != w.mongo.buckets {
		return false
	}
	_, noMeta := filter.LookupErr(timeseries.FieldMeta)
	_, noBegin := filter.LookupErr(timeseries.MinPath(simCollection.TimeField))
	forgotten := w.broken == keyForgotten && document.Lookup(timeseries.FieldControl, timeseries.FieldSegment).Type != 0
	return (noMeta != nil || noBegin != nil || forgotten) && w.mishap(0.2)
}

// findOnce answers the first query of a task, and then changes the metas of buckets. It finds nothing in later queries.
func (c port) findOnce(ctx context.Context, q mongodb.Query, seq int64, each func(bson.Raw) error) error {
	t := taskOf(ctx)
	if t.finds++; t.finds > 1 {
		return nil
	}
	err := c.read(q, seq, each)
	if c.w.chaos {
		c.moveBuckets()
	}
	return err
}

// readShards reads one shard of buckets as of one moment and another shard as of a later one, as a router does without a snapshot.
func (c port) readShards(ctx context.Context, q mongodb.Query, seq int64, each func(bson.Raw) error) error {
	if c.w.broken == shardsReadApart && isLoad(taskOf(ctx).what) && c.w.chaos {
		c.moveBuckets()
	}
	later, err := c.moment(ctx)
	if err != nil {
		return err
	}
	return c.readAs(q, func(id string) bson.Raw {
		if d := c.of.asOf(id, seq); d != nil && shardOf(d) == 0 {
			return d
		}
		if d := c.of.asOf(id, later); d != nil && shardOf(d) == 1 {
			return d
		}
		return nil
	}, each)
}

// moveBuckets changes the metas of all buckets on one shard, as update-meta does. Some of them move to the other shard then.
func (c port) moveBuckets() {
	for _, id := range c.of.ids() {
		if d := c.of.now(id); !isSegment(d) && shardOf(d) == 1 {
			c.w.mongo.edit(c.of, id, func(d bson.D) bson.D { return changed(d, []string{timeseries.FieldMeta}, "$set", "A") })
		}
	}
}

// shardOf returns the shard of a bucket, which its meta decides. It is 0 for the series A, 1 for B, 0 for C, and so on.
func shardOf(d bson.Raw) int {
	meta, ok := d.Lookup(timeseries.FieldMeta).StringValueOK()
	if !ok || meta == "" {
		return 0
	}
	return int(meta[0]-'A') & 1
}

// onAnotherShard reports whether a document lies on another shard than one with the same _id that is to be inserted. An _id is
// unique within a shard only, so both are stored then. Mutations move buckets without the wait of update-meta, so they are not
// checked for this.
func (c port) onAnotherShard(have, inserted bson.Raw) bool {
	return c.w.traits.sharded && c.w.broken == "" && c.of == c.w.mongo.buckets && !isSegment(have) && !isSegment(inserted) && shardOf(have) != shardOf(inserted)
}
