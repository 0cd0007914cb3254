package sink

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// maxHoldings bounds the partitions that Holdings looks at.
const maxHoldings = 100_000

// Holding tells what a time series holds of one source partition. A zero TopicID means buckets without a source, which were
// made by hand.
type Holding struct {
	Source  timeseries.Source `json:"-"`
	Buckets int64             `json:"buckets"`
	Closed  int64             `json:"closed"` // buckets with control.closed
	// Measurements counts the measurements in buckets. Staged counts those in segments that are not in buckets yet. Each
	// measurement counts once.
	Measurements int64 `json:"measurements"`
	Segments     int64 `json:"segments"`
	Staged       int64 `json:"stagedMeasurements"`
	// Ended counts segments whose measurements are in buckets. Unfinished counts buckets of a compaction that may be rolled back,
	// whose measurements are in segments. Neither counts above.
	Ended      int64 `json:"endedSegments"`
	Unfinished int64 `json:"unfinishedBuckets"`
	Bytes      int64 `json:"bytes"` // sum of control.size, the catalog's accounted size
	// First and Last are the smallest and the largest offset. They are -1 without a source.
	First int64 `json:"firstOffset"`
	Last  int64 `json:"lastOffset"`
	// Oldest and Newest bound the times of the measurements, in milliseconds since 1970. Oldest is rounded down as buckets are.
	// Both are zero without measurements.
	Oldest int64 `json:"-"`
	Newest int64 `json:"-"`
	// Counts is the number of buckets by their number of measurements.
	Counts map[int32]int64 `json:"-"`
	// Covered is the sum over all buckets of the time from a bucket's rounded beginning to its last measurement, in milliseconds.
	// Compacted counts the buckets that were made of segments.
	Covered   int64 `json:"-"`
	Compacted int64 `json:"-"`
	// Cut means that there are more buckets and segments, and that the holding counts those with the largest offsets.
	Cut bool `json:"cut"`
}

// looked is the number of documents that were counted.
func (h *Holding) looked() int64 { return h.Buckets + h.Segments + h.Ended + h.Unfinished }

// tally adds holdings up.
type tally struct {
	buckets   mongodb.Collection
	timeField string
	newest    int64
	// unfinished are the compactions that may be rolled back. Their measurements count in their segments and not in their buckets.
	unfinished map[claim.Token]bool
}

// Holdings tells what is stored of each partition, in the order of topic ids and partitions. It reads at most newest buckets
// and segments of each. Zero means all. It jumps through the index of sources, which costs two or three more queries a
// partition, however much is stored. Measurements that are being compacted meanwhile may count twice or not at all.
func (c Contents) Holdings(ctx context.Context, newest int64) ([]Holding, error) {
	buckets, doing := c.ports.Buckets, "reading the buckets of "+c.name
	definition, err := collection.ReadDefinition(ctx, c.ports.Options)
	if err != nil {
		return nil, err
	}
	begun, err := unfinished(ctx, buckets)
	if err != nil {
		return nil, err
	}
	of := tally{buckets, definition.TimeField, newest, begun}
	foreign, err := of.add(ctx, bson.D{{Key: timeseries.PathTopicID, Value: nil}})
	if err != nil {
		return nil, mongodb.Failure(doing, err)
	}
	var all []Holding
	if foreign.looked() > 0 {
		all = append(all, foreign)
	}
	source, found, err := nextSource(ctx, buckets, timeseries.Source{Partition: -1})
	for ; err == nil && found && len(all) < maxHoldings; source, found, err = nextSource(ctx, buckets, source) {
		h, err := of.add(ctx, timeseries.OfSource(source))
		if err != nil {
			return nil, mongodb.Failure(doing, err)
		}
		h.Source = source
		all = append(all, h)
	}
	return all, mongodb.Failure(doing, err)
}

// nextSource returns the source behind another one in the index: a later partition of the topic, or the first partition of the
// next topic.
func nextSource(ctx context.Context, buckets mongodb.Collection, s timeseries.Source) (timeseries.Source, bool, error) {
	above := func(v any) bson.D { return bson.D{{Key: "$gt", Value: v}} }
	for _, filter := range []bson.D{
		{{Key: timeseries.PathTopicID, Value: timeseries.UUID(s.TopicID)}, {Key: timeseries.PathPartition, Value: above(s.Partition)}},
		{{Key: timeseries.PathTopicID, Value: above(timeseries.UUID(s.TopicID))}},
	} {
		bucket, err := mongodb.First(ctx, buckets, mongodb.Query{
			Filter: mongodb.Document(filter), Sort: mongodb.Document(timeseries.SourceIndex()), Projection: mongodb.Document(bson.D{{Key: timeseries.PathSource, Value: 1}}),
		})
		if err != nil {
			return timeseries.Source{}, false, err
		}
		if bucket == nil {
			continue
		}
		from := bson.Raw(bucket.Lookup(timeseries.FieldControl, timeseries.FieldSource).Value)
		next := timeseries.Source{TopicID: timeseries.UUIDIn(from, timeseries.FieldTopicID)}
		next.Topic, _ = from.Lookup(timeseries.FieldTopic).StringValueOK()
		number, ok := from.Lookup(timeseries.FieldPartition).AsInt64OK()
		if next.Partition = int32(number); !ok || next.TopicID == s.TopicID && next.Partition <= s.Partition {
			return timeseries.Source{}, false, fmt.Errorf("the bucket %v has an invalid control.source, which no consumer writes: correct control.source, or delete the bucket", bucket.Lookup(timeseries.FieldID))
		}
		return next, true, nil
	}
	return timeseries.Source{}, false, nil
}

// add adds up the buckets and segments that a filter finds. If they are too many, it takes those with the largest offsets.
func (of *tally) add(ctx context.Context, filter bson.D) (Holding, error) {
	h := Holding{First: -1, Last: -1, Counts: map[int32]int64{}}
	query := mongodb.Query{Filter: mongodb.Document(filter), Projection: mongodb.Document(bson.D{
		{Key: timeseries.FieldID, Value: 0},
		{Key: timeseries.PathCount, Value: 1},
		{Key: timeseries.PathSize, Value: 1},
		{Key: timeseries.PathClosed, Value: 1},
		{Key: timeseries.PathFirst, Value: 1},
		{Key: timeseries.PathLast, Value: 1},
		{Key: timeseries.PathSegment, Value: 1},
		{Key: timeseries.PathCompaction, Value: 1},
		{Key: timeseries.MinPath(of.timeField), Value: 1},
		{Key: timeseries.MaxPath(of.timeField), Value: 1},
	})}
	if of.newest > 0 {
		query.Limit, query.Sort = of.newest+1, mongodb.Document(bson.D{{Key: timeseries.PathLast, Value: -1}})
	}
	err := of.buckets.Find(ctx, query, func(d bson.Raw) error {
		if h.Cut = of.newest > 0 && h.looked() == of.newest; !h.Cut {
			h.add(d, of.timeField, of.unfinished)
		}
		return nil
	})
	return h, err
}

// add adds one document. A field that is missing or of another type counts as nothing.
func (h *Holding) add(d bson.Raw, timeField string, unfinished map[claim.Token]bool) {
	control, _ := d.Lookup(timeseries.FieldControl).DocumentOK()
	count, _ := control.Lookup(timeseries.FieldCount).AsInt64OK()
	size, _ := control.Lookup(timeseries.FieldSize).AsInt64OK()
	h.Bytes += size
	if segment, ok := control.Lookup(timeseries.FieldSegment).DocumentOK(); ok {
		if by := timeseries.UUIDIn(segment, timeseries.FieldCompaction); by != (claim.Token{}) && !unfinished[by] {
			h.Ended++
			return
		}
		h.Segments++
		h.Staged += count
	} else {
		compaction, made := control.Lookup(timeseries.FieldCompaction).DocumentOK()
		if unfinished[timeseries.UUIDIn(compaction, timeseries.FieldCompactionID)] {
			h.Unfinished++
			return
		}
		h.Buckets++
		h.Measurements += count
		h.Counts[int32(count)]++
		h.Covered += covered(control, timeField)
		if made {
			h.Compacted++
		}
		if closed, _ := control.Lookup(timeseries.FieldClosed).BooleanOK(); closed {
			h.Closed++
		}
	}
	h.widen(control, timeField, h.Buckets+h.Segments == 1)
}

// covered is the time from a bucket's rounded beginning to its last measurement, in milliseconds.
func covered(control bson.Raw, timeField string) int64 {
	first, begins := control.Lookup(timeseries.FieldMin, timeField).DateTimeOK()
	last, ends := control.Lookup(timeseries.FieldMax, timeField).DateTimeOK()
	if !begins || !ends {
		return 0
	}
	return max(0, last-first)
}

// widen widens the times and offsets by those of a document. The argument initial means that it is the first document.
func (h *Holding) widen(control bson.Raw, timeField string, initial bool) {
	if oldest, ok := control.Lookup(timeseries.FieldMin, timeField).DateTimeOK(); ok && (initial || oldest < h.Oldest) {
		h.Oldest = oldest
	}
	if newest, ok := control.Lookup(timeseries.FieldMax, timeField).DateTimeOK(); ok && (initial || newest > h.Newest) {
		h.Newest = newest
	}
	if first, ok := control.Lookup(timeseries.FieldSource, timeseries.FieldFirst).AsInt64OK(); ok && (h.First < 0 || first < h.First) {
		h.First = first
	}
	if last, ok := control.Lookup(timeseries.FieldSource, timeseries.FieldLast).AsInt64OK(); ok {
		h.Last = max(h.Last, last)
	}
}
