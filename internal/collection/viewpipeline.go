package collection

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// internalUnpack is the name of MongoDB's own stage. The stage is not documented, so the program always tries whether a server
// knows it.
const internalUnpack = "$_internalUnpackBucket"

// internalPipeline turns buckets into measurements by MongoDB's own stage. The server narrows filters on time and meta to buckets
// by the span. So the span must never be smaller than that of a stored bucket.
func internalPipeline(o timeseries.Options) bson.A {
	stage := bson.D{{Key: "timeField", Value: o.TimeField}}
	if o.MetaField != "" {
		stage = append(stage, bson.E{Key: "metaField", Value: o.MetaField})
	}
	// The stage wants an int32.
	stage = append(stage, bson.E{Key: "bucketMaxSpanSeconds", Value: o.MaxSpanSeconds})
	return bson.A{bson.D{{Key: internalUnpack, Value: stage}}}
}

// portablePipeline makes the same measurements by documented stages only, for MongoDB 5.0 and later. It must compute the names of
// columns, and before 7.2 no expression reads a field with a computed name. So each column becomes an array with one cell for
// each measurement: {k: the column's name, v: the value}, or null where the measurement lacks the field. The cells of a sparse
// column get their places by merging them into a template of all indexes. That takes time in proportion to the cells. Searching
// the column for each index would take the square of that. A measurement is then the cells at its place.
//
// No stage keeps more than a bucket, and a $limit behind them ends early. The server moves no filter from behind $replaceWith to
// before it, because it cannot know which fields that stage makes.
func portablePipeline(o timeseries.Options) bson.A {
	return portableStages(o, filtered(columnPairs(), "column", apply("$ne", "$$column.k", literal(o.TimeField))))
}

// columnPairs returns the columns of a bucket as {k: name, v: values}.
func columnPairs() bson.D { return pairsOf("$" + timeseries.FieldData) }

// portableStages returns the stages of portablePipeline for some of the columns, in this order.
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

// cells returns the cells of $$column in the places of $$template.
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

// The view of a time series with segments reads the collection twice: for the segments that are shown now, and for the buckets
// that are shown now. Both parts compare with $$NOW. That is one moment for a whole query, on all servers of a cluster, in a view
// and also in the pipeline of a $unionWith. So a measurement that is being compacted is in exactly one part. MongoDB reads the
// parts one after the other. Segments come first, because segments that end during the query are deleted some minutes later, and
// a query may take hours. MongoDB applies the first filters and projections of a query to both parts. All other stages come
// behind them.

// The first and last stages of the parts of such a view.
const (
	stageMatch = "$match"
	stageUnset = "$unset" // removes a segment's own meta
	stageUnion = "$unionWith"
)

// viewPipeline returns the pipeline of a view on a collection, with or without segments.
func viewPipeline(kind ViewKind, o timeseries.Options, segments bool, on string) bson.A {
	if !segments {
		return unpackingStages(kind, o)
	}
	return unionPipeline(kind, o, on, nil)
}

// unionPipeline returns the pipeline for a time series with segments. in are stages that select the documents of both parts.
// Without any, both parts read the whole collection.
func unionPipeline(kind ViewKind, o timeseries.Options, on string, in bson.A) bson.A {
	part := func(shown bson.D, stages bson.A) bson.A {
		return slices.Concat(in, bson.A{bson.D{{Key: stageMatch, Value: shown}}}, stages)
	}
	return append(part(segmentsShownNow(), segmentStages(kind, o)), bson.D{{Key: stageUnion, Value: bson.D{
		{Key: "coll", Value: on},
		{Key: "pipeline", Value: part(bucketsShownNow(), unpackingStages(kind, o))},
	}}})
}

// bucketsShownNow is timeseries.BucketsShown at $$NOW. In an expression an absent field is less than any date.
func bucketsShownNow() bson.D {
	return bson.D{
		timeseries.IsAbsent(timeseries.PathOwner),
		{Key: "$expr", Value: apply("$lte", "$"+timeseries.PathVisibleFrom, "$$NOW")},
	}
}

// segmentsShownNow is timeseries.SegmentsShown at $$NOW, for all series.
func segmentsShownNow() bson.D {
	return bson.D{
		timeseries.IsSegment(),
		{Key: "$expr", Value: apply("$gt", apply("$ifNull", "$"+timeseries.PathVisibleUntil, timeseries.Never), "$$NOW")},
	}
}

// unpackingStages returns the stages that turn buckets into measurements.
func unpackingStages(kind ViewKind, o timeseries.Options) bson.A {
	if kind == ViewInternal {
		return internalPipeline(o)
	}
	return portablePipeline(o)
}

// segmentStages returns the stages that turn segments into measurements. The meta is a column there. MongoDB's own stage returns
// it in the order of the columns, which is behind the time. The documented stages put it there too. MongoDB's own stage refuses a
// document with a meta of its own, unless the stage has a name for it. So the meta is removed before. MongoDB moves a filter on
// bounds before the stage that removes it.
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

// ownStages returns the parameters of MongoDB's own stages in a view. There is one stage, or two for a time series with segments.
// None means that the view is not made of them.
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

// showsSegments reports whether e is a view of ours for a time series with segments.
func (s *series) showsSegments(e existing) bool {
	stages := stagesOf(e.pipeline)
	return s.isView(e) && s.kindOf(e) != ViewForeign && len(stages) > 0 && stages[len(stages)-1].name == stageUnion
}

// isUnion reports whether the stages are one part followed by a $unionWith.
func isUnion(stages []viewStage) bool {
	return len(stages) > 0 && stages[0].name == stageMatch && stages[len(stages)-1].name == stageUnion
}

// unpacks reports whether the stages are MongoDB's own stage behind stages of these names.
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
