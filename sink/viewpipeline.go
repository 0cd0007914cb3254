package sink

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// internalUnpack is the name of MongoDB's own stage. It is not documented: that a server knows it is tried, never assumed.
const internalUnpack = "$_internalUnpackBucket"

// internalPipeline makes measurements of buckets by MongoDB's own stage. The server narrows filters on time and meta to
// buckets, by the span, which is why the span must never be smaller than that of a stored bucket.
func internalPipeline(o timeseries.Options) bson.A {
	stage := bson.D{{Key: "timeField", Value: o.TimeField}}
	if o.MetaField != "" {
		stage = append(stage, bson.E{Key: "metaField", Value: o.MetaField})
	}
	// The stage wants an int32.
	stage = append(stage, bson.E{Key: "bucketMaxSpanSeconds", Value: o.MaxSpanSeconds})
	return bson.A{bson.D{{Key: internalUnpack, Value: stage}}}
}

// portablePipeline makes the same measurements by documented stages alone, for MongoDB from 5.0 on. Names of columns are
// data here, and until 7.2 no expression takes a field whose name is computed. So each column becomes an array with one cell
// a measurement: {k: the column's name, v: the value}, or null where the measurement lacks the field. The cells of a sparse
// column fall into their places by being merged into a template of all indexes: that takes time in proportion to the cells,
// where looking each index up among the column's would take its square. Then a measurement is the cells at its place.
//
// No stage keeps more than a bucket, and a $limit behind them ends early. Nothing of a filter behind $replaceWith is moved
// before it: the server cannot know which fields that makes.
func portablePipeline(o timeseries.Options) bson.A {
	return portableStages(o, filtered(columnPairs(), "column", apply("$ne", "$$column.k", literal(o.TimeField))))
}

// columnPairs are the columns of a bucket as {k: name, v: values}.
func columnPairs() bson.D { return pairsOf("$" + timeseries.FieldData) }

// portableStages are the stages of portablePipeline for some of the columns, in this order.
func portableStages(o timeseries.Options, columns any) bson.A {
	measurement := bson.D{{Key: o.TimeField, Value: "$times.v"}}
	if o.MetaField != "" {
		measurement = append(measurement, bson.E{Key: o.MetaField, Value: "$meta"})
	}
	times := "$" + timeseries.DataPath(o.TimeField)
	template := objectOf(mapped(pairsOf(times), "time", bson.D{{Key: "k", Value: "$$time.k"}, {Key: "v", Value: nil}}))
	return bson.A{
		bson.D{{Key: "$project", Value: bson.D{
			{Key: "_id", Value: 0},
			{Key: "meta", Value: "$" + timeseries.FieldMeta},
			{Key: "times", Value: pairsOf(times)},
			{Key: "columns", Value: let("template", template, mapped(columns, "column", cells()))},
		}}},
		bson.D{{Key: "$unwind", Value: bson.D{{Key: "path", Value: "$times"}, {Key: "includeArrayIndex", Value: "place"}}}},
		bson.D{{Key: "$replaceWith", Value: apply("$mergeObjects", measurement, objectOf(
			filtered(
				mapped("$columns", "cells", apply("$arrayElemAt", "$$cells", "$place")),
				"cell", apply("$ne", "$$cell", nil)),
		))}},
	}
}

// cells are the cells of $$column, in the places of $$template.
func cells() bson.D {
	cell := bson.D{{Key: "k", Value: "$$column.k"}, {Key: "v", Value: "$$value.v"}}
	placed := mapped(pairsOf("$$column.v"), "value", bson.D{{Key: "k", Value: "$$value.k"}, {Key: "v", Value: cell}})
	return let("placed", pairsOf(apply("$mergeObjects", "$$template", objectOf(placed))), "$$placed.v")
}

// Expressions of the aggregation language.

func pairsOf(object any) bson.D { return bson.D{{Key: "$objectToArray", Value: object}} }

func objectOf(pairs any) bson.D { return bson.D{{Key: "$arrayToObject", Value: pairs}} }

func literal(v any) bson.D { return bson.D{{Key: "$literal", Value: v}} }

func apply(operator string, arguments ...any) bson.D {
	return bson.D{{Key: operator, Value: bson.A(arguments)}}
}

func let(name string, value, in any) bson.D {
	return bson.D{{Key: "$let", Value: bson.D{{Key: "vars", Value: bson.D{{Key: name, Value: value}}}, {Key: "in", Value: in}}}}
}

func mapped(array any, each string, in any) bson.D {
	return bson.D{{Key: "$map", Value: bson.D{{Key: "input", Value: array}, {Key: "as", Value: each}, {Key: "in", Value: in}}}}
}

func filtered(array any, each string, condition any) bson.D {
	return bson.D{{Key: "$filter", Value: bson.D{{Key: "input", Value: array}, {Key: "as", Value: each}, {Key: "cond", Value: condition}}}}
}
