package check

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// calmTries bounds how often everything is read again because a compaction ran meanwhile.
const calmTries = 20

var errRestless = errors.New("whenever everything stored was read, a part of it was being compacted")

// unfinished is the set of compactions that have frozen segments. The keys are the bytes of their ids.
type unfinished map[string]bool

// readUnfinished reads which compactions are unfinished.
func readUnfinished(ctx context.Context, buckets *mongo.Collection) (unfinished, error) {
	frozen := bson.D{exists("control.segment.compaction", true), exists("control.segment.visibleUntil", false)}
	found := unfinished{}
	return found, each(ctx, buckets, frozen, []string{"control.segment"}, func(document bson.Raw) error {
		found[token(document)] = true
		return nil
	})
}

// counts reports whether a document is where its measurements are stored. While a compaction is unfinished, its segments count,
// even ended ones, and its buckets do not. Afterwards its buckets count, and its ended segments do not.
func (u unfinished) counts(document bson.Raw) bool {
	by := token(document)
	if document.Lookup("control", "segment").Type == 0 {
		return by == "" || !u[by]
	}
	return document.Lookup("control", "segment", "visibleUntil").Type == 0 || u[by]
}

// token returns the id of the compaction that a document names. Empty means none.
func token(document bson.Raw) string {
	for _, path := range [][]string{{"control", "segment", "compaction"}, {"control", "compaction", "id"}} {
		if _, by, ok := document.Lookup(path...).BinaryOK(); ok {
			return string(by)
		}
	}
	return ""
}

// calm records whether the state of every compaction is certain while the documents are read.
type calm struct {
	buckets    *mongo.Collection
	over       map[string]bool // compactions that documents named before unfinished was read, without the unfinished ones
	unfinished unfinished
	restless   bool
}

// beginCalm is called before the documents are read.
func beginCalm(ctx context.Context, buckets *mongo.Collection) (*calm, error) {
	c := &calm{buckets: buckets, over: map[string]bool{}}
	named := bson.D{{Key: "$or", Value: bson.A{
		bson.D{exists("control.segment.compaction", true)}, bson.D{exists("control.compaction.id", true)},
	}}}
	err := each(ctx, buckets, named, []string{"control.segment", "control.compaction"}, func(document bson.Raw) error {
		c.over[token(document)] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.unfinished, err = readUnfinished(ctx, buckets)
	for by := range c.unfinished {
		delete(c.over, by)
	}
	return c, err
}

// counts reports whether a document counts. If its compaction began meanwhile, the answer is uncertain, and restless is set.
func (c *calm) counts(document bson.Raw) bool {
	by := token(document)
	c.restless = c.restless || by != "" && !c.over[by] && !c.unfinished[by]
	return c.unfinished.counts(document)
}

// end is called after all documents were read. It returns true if every answer of counts is certain, that is, no compaction began
// or ended meanwhile.
func (c *calm) end(ctx context.Context) (bool, error) {
	after, err := readUnfinished(ctx, c.buckets)
	for by := range c.unfinished {
		c.restless = c.restless || !after[by]
	}
	return !c.restless, err
}

// Listed calls take for each measurement that a bucket or segment of a series lists, if the document matches a filter and counts as
// stored.
func Listed(ctx context.Context, database *mongo.Database, series string, filter bson.D, take func(at Place, in bson.ObjectID)) error {
	buckets := bucketsOf(database, series)
	open, err := readUnfinished(ctx, buckets)
	if err != nil {
		return err
	}
	return each(ctx, buckets, filter, []string{"control"}, func(document bson.Raw) error {
		b, err := decodeBucket(document)
		if err == nil && open.counts(document) {
			b.eachPlace(func(at Place) { take(at, b.ID) })
		}
		return err
	})
}
