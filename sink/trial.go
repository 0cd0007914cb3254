package sink

import (
	"context"
	"crypto/rand"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// Trial tries the privileges that a consumer needs: it reads the collections of a time series, tries an update of a bucket
// that does not exist, and inserts, reads, updates and deletes a document of its own among those of the partitions, with
// the write concern of every write. Nothing of it stays but that collection, empty: a consumer that starts meanwhile may
// have its claims there.
func (d *Database) Trial(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, d.o.WriteTimeout)
	defer cancel()
	s := d.series(name)
	have, err := d.existing(ctx, name+timeseries.BucketsSuffix)
	if err != nil {
		return err
	}
	own := withID("trial/" + rand.Text())
	read := func(c Collection) error {
		_, err := first(ctx, c, Query{Filter: own})
		return err
	}
	update := func(c Collection) error {
		_, err := changed(c.Update(ctx, []Update{{Filter: own, Update: setFields(bson.D{{Key: "tried", Value: true}})}}))
		return err
	}
	for _, step := range []struct {
		doing string
		try   func() error
	}{
		{"reading the collection's options", func() error { return read(s.ports.Options) }},
		{"reading buckets", func() error { return read(s.ports.Buckets) }},
		{"updating buckets", func() error {
			if have.kind == "" { // not every server leaves a collection unmade that an update finds missing
				return nil
			}
			return update(s.ports.Buckets)
		}},
		{"inserting a document", func() error {
			_, err := changed(s.ports.Partitions.Insert(ctx, []bson.Raw{own}))
			return err
		}},
		{"updating a document", func() error { return update(s.ports.Partitions) }},
		{"reading claims", func() error { return read(s.ports.Partitions) }},
		{"deleting the trial document " + own.String(), func() error {
			_, err := d.db.Collection(name+timeseries.PartitionsSuffix).DeleteOne(ctx, own)
			return d.portError(err)
		}},
	} {
		if err := step.try(); err != nil {
			return failure(step.doing, err)
		}
	}
	return nil
}
