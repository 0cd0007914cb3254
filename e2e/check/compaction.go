package check

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// calmTries bounds how often everything is read again because a compaction ran meanwhile.
const calmTries = 20

var errRestless = errors.New("whenever everything stored was read, a part of it was being compacted")

// Unfinished is the set of compactions that have frozen segments. The keys are the bytes of their ids.
type Unfinished map[string]bool

// ReadUnfinished reads which compactions of a series are unfinished.
func ReadUnfinished(ctx context.Context, database *mongo.Database, series string) (Unfinished, error) {
	cursor, err := database.Collection(series+".buckets").Find(ctx, bson.D{
		{Key: "control.segment.compaction", Value: bson.D{{Key: "$exists", Value: true}}},
		{Key: "control.segment.visibleUntil", Value: bson.D{{Key: "$exists", Value: false}}},
	}, options.Find().SetProjection(bson.D{{Key: "control.segment", Value: 1}}))
	if err != nil {
		return nil, fmt.Errorf("reading the frozen segments: %w", err)
	}
	defer cursor.Close(ctx)
	unfinished := Unfinished{}
	for cursor.Next(ctx) {
		unfinished[token(cursor.Current)] = true
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("reading the frozen segments: %w", err)
	}
	return unfinished, nil
}

// Counts reports whether a document is where its measurements are stored. While a compaction is unfinished, its segments count,
// even ended ones, and its buckets do not. Afterwards its buckets count, and its ended segments do not.
func (a Unfinished) Counts(document bson.Raw) bool {
	by := token(document)
	if document.Lookup("control", "segment").Type == 0 {
		return by == "" || !a[by]
	}
	return document.Lookup("control", "segment", "visibleUntil").Type == 0 || a[by]
}

// token returns the id of the compaction that a document names. Empty means none.
func token(document bson.Raw) string {
	for _, path := range [][]string{{"segment", "compaction"}, {"compaction", "id"}} {
		if _, by, ok := document.Lookup(append([]string{"control"}, path...)...).BinaryOK(); ok {
			return string(by)
		}
	}
	return ""
}

// calm records whether the state of every compaction is certain while the documents are read.
type calm struct {
	over       map[string]bool // compactions that documents named before unfinished was read, without the unfinished ones
	unfinished Unfinished
	restless   bool
}

// beginCalm is called before the documents are read.
func beginCalm(ctx context.Context, database *mongo.Database, series string) (*calm, error) {
	c := &calm{over: map[string]bool{}}
	named := func(field string) bson.D {
		return bson.D{{Key: "control." + field, Value: bson.D{{Key: "$exists", Value: true}}}}
	}
	cursor, err := database.Collection(series+".buckets").Find(ctx, bson.D{{Key: "$or", Value: bson.A{named("segment.compaction"), named("compaction.id")}}},
		options.Find().SetProjection(bson.D{{Key: "control.segment", Value: 1}, {Key: "control.compaction", Value: 1}}).SetBatchSize(batchBuckets))
	if err != nil {
		return nil, fmt.Errorf("reading which compactions there were: %w", err)
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		c.over[token(cursor.Current)] = true
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("reading which compactions there were: %w", err)
	}
	c.unfinished, err = ReadUnfinished(ctx, database, series)
	for by := range c.unfinished {
		delete(c.over, by)
	}
	return c, err
}

// counts reports whether a document counts. If its compaction began meanwhile, the answer is uncertain, and restless is set.
func (c *calm) counts(document bson.Raw) bool {
	by := token(document)
	c.restless = c.restless || by != "" && !c.over[by] && !c.unfinished[by]
	return c.unfinished.Counts(document)
}

// end is called after all documents were read. It returns true if every answer of counts is certain, that is, no compaction began
// or ended meanwhile.
func (c *calm) end(ctx context.Context, database *mongo.Database, series string) (bool, error) {
	after, err := ReadUnfinished(ctx, database, series)
	for by := range c.unfinished {
		c.restless = c.restless || !after[by]
	}
	return !c.restless, err
}

// Listed calls take for each measurement that a bucket or segment of a series lists, if the document matches a filter and counts as
// stored.
func Listed(ctx context.Context, database *mongo.Database, series string, filter bson.D, take func(at Place, in bson.ObjectID)) error {
	unfinished, err := ReadUnfinished(ctx, database, series)
	if err != nil {
		return err
	}
	find := options.Find().SetProjection(bson.D{{Key: "control", Value: 1}}).SetBatchSize(batchBuckets)
	cursor, err := database.Collection(series+".buckets").Find(ctx, filter, find)
	if err != nil {
		return fmt.Errorf("reading the buckets: %w", err)
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		b, err := decodeBucket(cursor.Current)
		if err != nil {
			return err
		}
		if !unfinished.Counts(cursor.Current) {
			continue
		}
		for _, p := range b.positions {
			take(Place{b.Control.Source.Partition, p}, b.ID)
		}
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("reading the buckets: %w", err)
	}
	return nil
}
