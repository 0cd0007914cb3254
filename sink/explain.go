package sink

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Explanation is what MongoDB did to find buckets.
type Explanation struct {
	// Index is the name of the index that was used; empty: none, every bucket was read.
	Index string
	// Found are the buckets that the filter finds; Keys and Examined what was looked at for that.
	Found, Keys, Examined int64
}

// ExplainFilter lets MongoDB execute a filter on the buckets of a time series, and says what that took; it takes as long as reading
// them. False: this server does not tell.
func (d *Database) ExplainFilter(ctx context.Context, series string, filter bson.Raw) (e Explanation, told bool, err error) {
	find := bson.D{{Key: "find", Value: d.series(series).buckets().Name()}, {Key: "filter", Value: filter}}
	raw, err := d.db.RunCommand(ctx, bson.D{{Key: "explain", Value: find}, {Key: "verbosity", Value: "executionStats"}}).Raw()
	if err != nil {
		c := (*CommandError)(nil)
		if err = d.portError(err); errors.As(err, &c) && !passes(c.Code) {
			return e, false, nil
		}
		return e, false, failure("explaining a filter", err)
	}
	stats, ok := raw.Lookup("executionStats").DocumentOK()
	if !ok {
		return e, false, nil
	}
	number := func(key string) int64 {
		n, _ := stats.Lookup(key).AsInt64OK()
		return n
	}
	e = Explanation{Found: number("nReturned"), Keys: number("totalKeysExamined"), Examined: number("totalDocsExamined")}
	e.Index = indexUsed(raw.Lookup("queryPlanner", "winningPlan"))
	return e, true, nil
}

// indexUsed is the first index in a plan, whose stages are within each other: under other names from version to version, and of a
// sharded cluster one for each shard.
func indexUsed(plan bson.RawValue) string {
	if plan.Type != bson.TypeEmbeddedDocument && plan.Type != bson.TypeArray {
		return ""
	}
	elements, err := bson.Raw(plan.Value).Elements()
	if err != nil {
		return ""
	}
	for _, e := range elements {
		if name, ok := e.Value().StringValueOK(); ok && e.Key() == "indexName" {
			return name
		}
	}
	for _, e := range elements {
		if name := indexUsed(e.Value()); name != "" {
			return name
		}
	}
	return ""
}
