package sink

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// maxHoldings bounds the partitions that Holdings looks at.
const maxHoldings = 100_000

// Holding is what a time series holds of one source partition, or, with a zero TopicID, of none: buckets made by hand.
type Holding struct {
	Source       timeseries.Source `json:"-"`
	Buckets      int64             `json:"buckets"`
	Closed       int64             `json:"closed"` // those with control.closed
	Measurements int64             `json:"measurements"`
	Bytes        int64             `json:"bytes"` // of control.size: what the catalog accounts for them
	// First and Last are the smallest and largest offset, -1 without a source.
	First int64 `json:"firstOffset"`
	Last  int64 `json:"lastOffset"`
	// Oldest and Newest bound the times of the measurements, in milliseconds since 1970: Oldest is rounded down as buckets are.
	// Both are 0 without buckets.
	Oldest int64 `json:"-"`
	Newest int64 `json:"-"`
	// Counts is how many buckets have how many measurements.
	Counts map[int32]int64 `json:"-"`
	// Cut tells that there are more buckets: these are the ones with the largest offsets.
	Cut bool `json:"cut"`
}

// Holdings tells what is stored of each partition, in the order of topic ids and partitions, looking at no more than
// newest buckets of each (0: all). It jumps through the index of sources: besides those buckets it costs two or three
// queries a partition, however much is stored.
func (d *Database) Holdings(ctx context.Context, series string, newest int64) ([]Holding, error) {
	buckets, doing := d.series(series).ports.Buckets, "reading the buckets of "+series
	definition, err := readDefinition(ctx, d.series(series).ports.Options)
	if err != nil {
		return nil, err
	}
	timeField := definition.TimeField
	foreign, err := holdingOf(ctx, buckets, timeField, bson.D{{Key: timeseries.PathTopicID, Value: nil}}, newest)
	if err != nil {
		return nil, failure(doing, err)
	}
	var all []Holding
	if foreign.Buckets > 0 {
		all = append(all, foreign)
	}
	source, found, err := nextSource(ctx, buckets, timeseries.Source{Partition: -1})
	for ; err == nil && found && len(all) < maxHoldings; source, found, err = nextSource(ctx, buckets, source) {
		h, err := holdingOf(ctx, buckets, timeField, sourceFilter(source), newest)
		if err != nil {
			return nil, failure(doing, err)
		}
		h.Source = source
		all = append(all, h)
	}
	return all, failure(doing, err)
}

// nextSource is the source behind another one in the index: a later partition of the topic, or the first of the next.
func nextSource(ctx context.Context, buckets Collection, s timeseries.Source) (timeseries.Source, bool, error) {
	above := func(v any) bson.D { return bson.D{{Key: "$gt", Value: v}} }
	for _, filter := range []bson.D{
		{{Key: timeseries.PathTopicID, Value: uuid(s.TopicID)}, {Key: timeseries.PathPartition, Value: above(s.Partition)}},
		{{Key: timeseries.PathTopicID, Value: above(uuid(s.TopicID))}},
	} {
		bucket, err := first(ctx, buckets, Query{
			Filter: document(filter), Sort: document(sourceIndex()), Projection: document(bson.D{{Key: timeseries.PathSource, Value: 1}}),
		})
		if err != nil {
			return timeseries.Source{}, false, err
		}
		if bucket == nil {
			continue
		}
		from := bson.Raw(bucket.Lookup(timeseries.FieldControl, timeseries.FieldSource).Value)
		next := timeseries.Source{TopicID: uuidIn(from, timeseries.FieldTopicID)}
		next.Topic, _ = from.Lookup(timeseries.FieldTopic).StringValueOK()
		number, ok := from.Lookup(timeseries.FieldPartition).AsInt64OK()
		if next.Partition = int32(number); !ok || next.TopicID == s.TopicID && next.Partition <= s.Partition {
			return timeseries.Source{}, false, fmt.Errorf("the bucket %v has a control.source that no consumer writes", bucket.Lookup(timeseries.FieldID))
		}
		return next, true, nil
	}
	return timeseries.Source{}, false, nil
}

// holdingOf adds up the buckets that a filter finds, those with the largest offsets first.
func holdingOf(ctx context.Context, buckets Collection, timeField string, filter bson.D, newest int64) (Holding, error) {
	h := Holding{First: -1, Last: -1, Counts: map[int32]int64{}}
	query := Query{Filter: document(filter), Projection: document(bson.D{
		{Key: timeseries.FieldID, Value: 0},
		{Key: timeseries.PathCount, Value: 1},
		{Key: timeseries.PathSize, Value: 1},
		{Key: timeseries.PathClosed, Value: 1},
		{Key: timeseries.PathFirst, Value: 1},
		{Key: timeseries.PathLast, Value: 1},
		{Key: timeseries.MinPath(timeField), Value: 1},
		{Key: timeseries.MaxPath(timeField), Value: 1},
	})}
	if newest > 0 {
		query.Limit, query.Sort = newest+1, document(bson.D{{Key: timeseries.PathLast, Value: -1}})
	}
	err := buckets.Find(ctx, query, func(bucket bson.Raw) error {
		if h.Cut = newest > 0 && h.Buckets == newest; !h.Cut {
			h.add(bucket, timeField)
		}
		return nil
	})
	return h, err
}

// add takes one bucket in; a field that is missing or of another type counts as nothing.
func (h *Holding) add(bucket bson.Raw, timeField string) {
	number := func(path ...string) (int64, bool) {
		return bucket.Lookup(append([]string{timeseries.FieldControl}, path...)...).AsInt64OK()
	}
	h.Buckets++
	count, _ := number(timeseries.FieldCount)
	size, _ := number(timeseries.FieldSize)
	h.Measurements += count
	h.Counts[int32(count)]++
	if oldest, ok := bucket.Lookup(timeseries.FieldControl, timeseries.FieldMin, timeField).DateTimeOK(); ok && (h.Buckets == 1 || oldest < h.Oldest) {
		h.Oldest = oldest
	}
	if newest, ok := bucket.Lookup(timeseries.FieldControl, timeseries.FieldMax, timeField).DateTimeOK(); ok && (h.Buckets == 1 || newest > h.Newest) {
		h.Newest = newest
	}
	h.Bytes += size
	if closed, _ := bucket.Lookup(timeseries.FieldControl, timeseries.FieldClosed).BooleanOK(); closed {
		h.Closed++
	}
	if first, ok := number(timeseries.FieldSource, timeseries.FieldFirst); ok && (h.First < 0 || first < h.First) {
		h.First = first
	}
	if last, ok := number(timeseries.FieldSource, timeseries.FieldLast); ok {
		h.Last = max(h.Last, last)
	}
}

// Size is what the server tells of the buckets of a time series.
type Size struct {
	Buckets      int64 `json:"buckets"`
	Bytes        int64 `json:"bytes"`        // of all buckets, uncompressed
	StorageBytes int64 `json:"storageBytes"` // on disk
	IndexBytes   int64 `json:"indexBytes"`
	// Compressor is WiredTiger's of the buckets: "zstd", "snappy", "zlib", "none", on a sharded cluster perhaps several; empty: the
	// server does not tell.
	Compressor string `json:"compressor,omitempty"`
}

// Size asks the server how large the buckets of a time series are; it does not look at them.
func (d *Database) Size(ctx context.Context, series string) (Size, error) {
	raw, err := d.db.RunCommand(ctx, bson.D{{Key: "collStats", Value: series + timeseries.BucketsSuffix}}).Raw()
	if err != nil {
		return Size{}, failure("asking for the size of "+series, d.portError(err))
	}
	number := func(key string) int64 {
		n, _ := raw.Lookup(key).AsInt64OK()
		return n
	}
	return Size{
		Buckets: number("count"), Bytes: number("size"), StorageBytes: number("storageSize"), IndexBytes: number("totalIndexSize"),
		Compressor: compressorOf(raw),
	}, nil
}
