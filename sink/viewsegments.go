package sink

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// The view of a time series with segments reads the collection twice: the segments that are shown now, and the buckets that are.
// Both parts go by $$NOW, which is one moment for a whole query, on all servers of a cluster, in a view and in the pipeline of a
// $unionWith too: so a measurement that is being compacted is in exactly one of them. Segments come first, since MongoDB reads the parts one
// after the other: those that end after the query has begun are deleted some minutes later, and a query may take hours. What a
// query filters and projects first MongoDB applies to both parts; all else comes behind them.

// The stages that the parts of such a view begin and end with.
const (
	stageMatch = "$match"
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
		{Key: timeseries.PathOwner, Value: bson.D{{Key: "$exists", Value: false}}},
		{Key: "$expr", Value: apply("$lte", "$"+timeseries.PathVisibleFrom, "$$NOW")},
	}
}

// segmentsShownNow is timeseries.SegmentsShown at $$NOW, of all series.
func segmentsShownNow() bson.D {
	return bson.D{
		timeseries.IsSegment(),
		{Key: "$expr", Value: apply("$gt", apply("$ifNull", "$"+timeseries.PathVisibleUntil, never), "$$NOW")},
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
// columns, which is behind the time; the documented stages put it there.
func segmentStages(kind ViewKind, o timeseries.Options) bson.A {
	meta := o.MetaField
	o.MetaField = ""
	switch {
	case kind == ViewInternal:
		return internalPipeline(o)
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
	more, _ := stages[2].value.DocumentOK()
	second := stagesOf(more.Lookup("pipeline"))
	if len(second) != 2 || second[0].name != stageMatch || stages[1].name != internalUnpack || second[1].name != internalUnpack {
		return nil
	}
	return []bson.RawValue{stages[1].value, second[1].value}
}

// showsSegments reports whether a view of ours is that of a time series with segments.
func (s *series) showsSegments(e existing) bool {
	stages := stagesOf(e.pipeline)
	return s.isView(e) && s.kindOf(e) != ViewForeign && len(stages) > 0 && stages[len(stages)-1].name == stageUnion
}

// isUnion reports whether these are a part, of one stage for unpacking, and another.
func isUnion(stages []viewStage) bool {
	return len(stages) == 3 && stages[0].name == stageMatch && stages[2].name == stageUnion
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
