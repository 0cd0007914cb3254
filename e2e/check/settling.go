package check

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// calmTries bounds how often everything is read again because something was being settled meanwhile.
const calmTries = 20

var errRestless = errors.New("whenever everything stored was read, a part of it was being settled")

// Announced are the settlings that partition documents announce, by the bytes of their tokens.
type Announced map[string]bool

// ReadAnnounced reads the partition documents of a series.
func ReadAnnounced(ctx context.Context, database *mongo.Database, series string) (Announced, error) {
	cursor, err := database.Collection(series+".partitions").Find(ctx, bson.D{})
	if err != nil {
		return nil, fmt.Errorf("reading the partition documents: %w", err)
	}
	defer cursor.Close(ctx)
	announced := Announced{}
	for cursor.Next(ctx) {
		if _, by, ok := cursor.Current.Lookup("settling", "by").BinaryOK(); ok {
			announced[string(by)] = true
		}
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("reading the partition documents: %w", err)
	}
	return announced, nil
}

// Counts tells whether a document is where its measurements are stored: while a settling is announced these are its segments, whatever
// they say, and not its buckets, and when it is over it is the other way about.
func (a Announced) Counts(document bson.Raw) bool {
	by := token(document)
	if document.Lookup("control", "segment").Type == 0 {
		return by == "" || !a[by]
	}
	return document.Lookup("control", "segment", "until").Type == 0 || a[by]
}

// token is of the settling that a document names; empty: none.
func token(document bson.Raw) string {
	for _, field := range []string{"segment", "settled"} {
		if _, by, ok := document.Lookup("control", field, "by").BinaryOK(); ok {
			return string(by)
		}
	}
	return ""
}

// calm tells of the settlings that documents name whether it is sure what they were while all were read.
type calm struct {
	over      map[string]bool // by documents that were seen before announced was read, which does not name them
	announced Announced
	restless  bool
}

// beginCalm is called before documents are read.
func beginCalm(ctx context.Context, database *mongo.Database, series string) (*calm, error) {
	c := &calm{over: map[string]bool{}}
	named := func(field string) bson.D {
		return bson.D{{Key: "control." + field + ".by", Value: bson.D{{Key: "$exists", Value: true}}}}
	}
	cursor, err := database.Collection(series+".buckets").Find(ctx, bson.D{{Key: "$or", Value: bson.A{named("segment"), named("settled")}}},
		options.Find().SetProjection(bson.D{{Key: "control.segment", Value: 1}, {Key: "control.settled", Value: 1}}).SetBatchSize(batchBuckets))
	if err != nil {
		return nil, fmt.Errorf("reading which settlings there were: %w", err)
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		c.over[token(cursor.Current)] = true
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("reading which settlings there were: %w", err)
	}
	c.announced, err = ReadAnnounced(ctx, database, series)
	for by := range c.announced {
		delete(c.over, by)
	}
	return c, err
}

// counts tells whether a document counts, and notes when that is not sure: its settling came meanwhile.
func (c *calm) counts(document bson.Raw) bool {
	by := token(document)
	c.restless = c.restless || by != "" && !c.over[by] && !c.announced[by]
	return c.announced.Counts(document)
}

// end tells, after all documents were read, whether all that counts said is sure: no settling came, and none is over.
func (c *calm) end(ctx context.Context, database *mongo.Database, series string) (bool, error) {
	after, err := ReadAnnounced(ctx, database, series)
	for by := range c.announced {
		c.restless = c.restless || !after[by]
	}
	return !c.restless, err
}
