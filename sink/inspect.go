package sink

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"waterwheel/timeseries"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// errNoClock is an answer of a server that does not tell its time.
var errNoClock = errors.New("the server does not tell it")

// Clock is the server's time at some moment between the call and its return.
func (d *Database) Clock(ctx context.Context) (time.Time, error) {
	var answer struct {
		LocalTime time.Time `bson:"localTime"`
	}
	var err error
	for _, command := range []string{"hello", "isMaster"} { // the older name for older servers
		err = d.client.Database("admin").RunCommand(ctx, bson.D{{Key: command, Value: 1}}).Decode(&answer)
		if err == nil && answer.LocalTime.IsZero() {
			err = errNoClock
		}
		if err == nil {
			return answer.LocalTime, nil
		}
	}
	return time.Time{}, failure("asking MongoDB for its time", portError(err))
}

// HasView tells whether the time series has its view of measurements.
func (d *Database) HasView(ctx context.Context, name string) (bool, error) {
	s := &series{Database: d, name: name}
	have, err := s.existing(ctx)
	return have.kind == "view", err
}

// Trial tries the privileges that a consumer needs: it reads the collections of a time series, tries an update of a bucket
// that does not exist, and inserts, reads, updates and deletes a document of its own among those of the partitions, with
// the write concern of every write. Nothing of it stays but that collection, empty.
func (d *Database) Trial(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, d.o.WriteTimeout)
	defer cancel()
	ports := d.ports(name)
	id := bson.E{Key: "_id", Value: "trial/" + rand.Text()}
	own := document(bson.D{id})
	update := []Update{{Filter: own, Update: document(bson.D{{Key: "$set", Value: bson.D{{Key: "tried", Value: true}}}})}}
	if err := read(ctx, ports.Options, "reading the collection's options", own); err != nil {
		return err
	}
	if err := read(ctx, ports.Buckets, "reading buckets", own); err != nil {
		return err
	}
	if there, err := d.hasCollection(ctx, name+timeseries.BucketsSuffix); err != nil {
		return err
	} else if there { // not every server leaves a collection unmade that an update finds missing
		reply, err := ports.Buckets.Update(ctx, update)
		if _, err := changed("updating buckets", reply, err); err != nil {
			return err
		}
	}
	// What it makes of the collection stays, empty: a consumer that starts meanwhile may have its claims there.
	return d.tryDocument(ctx, name, own, update)
}

// tryDocument inserts a document among those of the partitions, and removes it.
func (d *Database) tryDocument(ctx context.Context, name string, own bson.Raw, update []Update) error {
	partitions := d.ports(name).Partitions
	reply, err := partitions.Insert(ctx, []bson.Raw{own})
	if _, err := changed("inserting a document", reply, err); err != nil {
		return err
	}
	reply, err = partitions.Update(ctx, update)
	if _, err := changed("updating a document", reply, err); err != nil {
		return err
	}
	if err := read(ctx, partitions, "reading claims", own); err != nil {
		return err
	}
	if _, err := d.db.Collection(name+timeseries.PartitionsSuffix).DeleteOne(ctx, own); err != nil {
		return failure("deleting the document of a trial, "+own.String(), portError(err))
	}
	return nil
}

func read(ctx context.Context, c Collection, doing string, filter bson.Raw) error {
	if err := c.Find(ctx, Query{Filter: filter, Limit: 1}, func(bson.Raw) error { return nil }); err != nil {
		return failure(doing, err)
	}
	return nil
}

func (d *Database) hasCollection(ctx context.Context, name string) (bool, error) {
	names, err := d.db.ListCollectionNames(ctx, bson.D{{Key: "name", Value: name}})
	if err != nil {
		return false, failure("listing collections", portError(err))
	}
	return len(names) > 0, nil
}
