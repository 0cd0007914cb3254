package collection

import (
	"slices"

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

// The view of a time series with segments reads the collection twice: the segments that are shown now, and the buckets that are.
// Both parts go by $$NOW, which is one moment for a whole query, on all servers of a cluster, in a view and in the pipeline of a
// $unionWith too: so a measurement that is being compacted is in exactly one of them. Segments come first, since MongoDB reads the parts one
// after the other: those that end after the query has begun are deleted some minutes later, and a query may take hours. What a
// query filters and projects first MongoDB applies to both parts; all else comes behind them.

// The stages that the parts of such a view begin and end with.
const (
	stageMatch = "$match"
	stageUnset = "$unset" // of a segment's own meta
	stageUnion = "$unionWith"
)

// viewPipeline is the pipeline of a view on a collection, of a time series with segments or without.
func viewPipeline(kind ViewKind, o timeseries.Options, segments bool, on string) bson.A {
	if !segments {
		return unpackingStages(kind, o)
	}
	return unionPipeline(kind, o, on, nil)
}

// unionPipeline is the pipeline of a time series with segments; in are stages that give the documents of both parts, none for all of the
// collection.
func unionPipeline(kind ViewKind, o timeseries.Options, on string, in bson.A) bson.A {
	part := func(shown bson.D, stages bson.A) bson.A {
		return slices.Concat(in, bson.A{bson.D{{Key: stageMatch, Value: shown}}}, stages)
	}
	return append(part(segmentsShownNow(), segmentStages(kind, o)), bson.D{{Key: stageUnion, Value: bson.D{
		{Key: "coll", Value: on},
		{Key: "pipeline", Value: part(bucketsShownNow(), unpackingStages(kind, o))},
	}}})
}

// bucketsShownNow is timeseries.BucketsShown at $$NOW. In an expression a field that is absent is less than any date.
func bucketsShownNow() bson.D {
	return bson.D{
		timeseries.IsAbsent(timeseries.PathOwner),
		{Key: "$expr", Value: apply("$lte", "$"+timeseries.PathVisibleFrom, "$$NOW")},
	}
}

// segmentsShownNow is timeseries.SegmentsShown at $$NOW, of all series.
func segmentsShownNow() bson.D {
	return bson.D{
		timeseries.IsSegment(),
		{Key: "$expr", Value: apply("$gt", apply("$ifNull", "$"+timeseries.PathVisibleUntil, timeseries.Never), "$$NOW")},
	}
}

// unpackingStages make measurements of buckets.
func unpackingStages(kind ViewKind, o timeseries.Options) bson.A {
	if kind == ViewInternal {
		return internalPipeline(o)
	}
	return portablePipeline(o)
}

// segmentStages make measurements of segments. The meta is a column there: MongoDB's own stage gives it out where it lies among the
// columns, which is behind the time; the documented stages put it there. MongoDB's own stage refuses a document with a meta of its own,
// unless it is told under which name to show it. MongoDB moves a filter on bounds before the stage that takes it away.
func segmentStages(kind ViewKind, o timeseries.Options) bson.A {
	meta := o.MetaField
	o.MetaField = ""
	switch {
	case kind == ViewInternal:
		return append(bson.A{bson.D{{Key: stageUnset, Value: timeseries.FieldMeta}}}, internalPipeline(o)...)
	case meta == "":
		return portablePipeline(o)
	}
	metas := filtered(columnPairs(), "column", apply("$eq", "$$column.k", literal(meta)))
	others := filtered(columnPairs(), "column", apply("$not", apply("$in", "$$column.k", bson.A{literal(o.TimeField), literal(meta)})))
	return portableStages(o, apply("$concatArrays", metas, others))
}

// ownStages are the parameters of MongoDB's own stages in a view: one, or of a time series with segments two. None means that it is not
// made of them.
func ownStages(pipeline bson.RawValue) []bson.RawValue {
	stages := stagesOf(pipeline)
	if len(stages) == 1 && stages[0].name == internalUnpack {
		return []bson.RawValue{stages[0].value}
	}
	if !isUnion(stages) {
		return nil
	}
	first := stages[:len(stages)-1]
	more, _ := stages[len(first)].value.DocumentOK()
	second := stagesOf(more.Lookup("pipeline"))
	if !unpacks(first, stageMatch, stageUnset) || !unpacks(second, stageMatch) {
		return nil
	}
	return []bson.RawValue{first[len(first)-1].value, second[len(second)-1].value}
}

// showsSegments reports whether a view of ours is that of a time series with segments.
func (s *series) showsSegments(e existing) bool {
	stages := stagesOf(e.pipeline)
	return s.isView(e) && s.kindOf(e) != ViewForeign && len(stages) > 0 && stages[len(stages)-1].name == stageUnion
}

// isUnion reports whether these are a part and another.
func isUnion(stages []viewStage) bool {
	return len(stages) > 0 && stages[0].name == stageMatch && stages[len(stages)-1].name == stageUnion
}

// unpacks reports whether these are MongoDB's own stage for unpacking, behind stages of these names.
func unpacks(stages []viewStage, before ...string) bool {
	return slices.EqualFunc(stages, append(before, internalUnpack), func(s viewStage, name string) bool { return s.name == name })
}

// viewStage is a stage of a stored pipeline.
type viewStage struct {
	name  string
	value bson.RawValue
}

func stagesOf(pipeline bson.RawValue) (all []viewStage) {
	array, ok := pipeline.ArrayOK()
	if !ok {
		return nil
	}
	values, err := array.Values()
	if err != nil {
		return nil
	}
	for _, v := range values {
		stage, _ := v.DocumentOK()
		elements, err := stage.Elements()
		if err != nil || len(elements) != 1 {
			return nil
		}
		all = append(all, viewStage{elements[0].Key(), elements[0].Value()})
	}
	return all
}
