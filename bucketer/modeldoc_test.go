package bucketer

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// document returns the bucket as it must be stored, from its readings only.
func (b *modelBucket) document(o *Options) bson.D {
	stored := b.readings[:b.stored()]
	control := bson.D{
		{Key: "version", Value: int32(1)},
		{Key: "min", Value: b.bound(o, stored, lower)},
		{Key: "max", Value: b.bound(o, stored, upper)},
		{Key: "count", Value: int32(len(stored))},
		{Key: "size", Value: int32(b.written)},
	}
	first, last := offsetsOf(stored)
	var offsets bson.A
	for at, n := 0, 0; n < len(b.writes); n++ {
		var positions []timeseries.Position
		for _, r := range stored[at : at+b.writes[n]] {
			positions = append(positions, r.position)
		}
		at += b.writes[n]
		offsets = append(offsets, bson.Binary{Data: timeseries.AppendPositions(nil, positions)})
	}
	if b.isClosed {
		control = append(control, bson.E{Key: "closed", Value: true})
	}
	control = append(control, bson.E{Key: "source", Value: bson.D{
		{Key: "topic", Value: o.Source.Topic},
		{Key: "partition", Value: o.Source.Partition},
		{Key: "topicId", Value: bson.Binary{Subtype: 4, Data: o.Source.TopicID[:]}},
		{Key: "first", Value: first},
		{Key: "last", Value: last},
		{Key: "offsets", Value: offsets},
	}})
	d := bson.D{{Key: "_id", Value: b.id}, {Key: "control", Value: control}}
	if b.series != "" {
		meta, err := valueIn(bson.Type(b.series[0]), []byte(b.series[1:]))
		if err != nil {
			panic(err)
		}
		d = append(d, bson.E{Key: "meta", Value: meta})
	}
	return append(d, bson.E{Key: "data", Value: columnsOf(o, stored)})
}

// offsetsOf returns the smallest and the largest offset of readings.
func offsetsOf(readings []reading) (first, last int64) {
	first, last = readings[0].position.Offset, readings[0].position.Offset
	for _, r := range readings {
		first, last = min(first, r.position.Offset), max(last, r.position.Offset)
	}
	return first, last
}

func columnsOf(o *Options, stored []reading) bson.D {
	columns := bson.D{{Key: o.Collection.TimeField, Value: bson.D{}}}
	put := func(name, index string, v any) {
		for i := range columns {
			if columns[i].Key == name {
				columns[i].Value = append(columns[i].Value.(bson.D), bson.E{Key: index, Value: v})
				return
			}
		}
		columns = append(columns, bson.E{Key: name, Value: bson.D{{Key: index, Value: v}}})
	}
	for i, r := range stored {
		put(o.Collection.TimeField, strconv.Itoa(i), bson.DateTime(r.time))
		for _, e := range r.fields {
			put(e.Key, strconv.Itoa(i), e.Value)
		}
	}
	return columns
}

// bound returns control.min or control.max of readings.
func (b *modelBucket) bound(o *Options, stored []reading, d side) bson.D {
	time := b.minTime
	if d == upper {
		time = stored[0].time
		for _, r := range stored {
			time = max(time, r.time)
		}
	}
	bound := bson.D{}
	for _, r := range stored {
		bound = extreme(bound, r.fields, d).(bson.D)
	}
	return append(bson.D{{Key: o.Collection.TimeField, Value: bson.DateTime(time)}}, bound...)
}

// extreme merges a value into the kept one. Both have the same schema.
func extreme(kept, v any, d side) any {
	switch v := v.(type) {
	case bson.D:
		out := append(bson.D{}, kept.(bson.D)...)
		for _, e := range v {
			known := false
			for i := range out {
				if out[i].Key == e.Key {
					out[i].Value, known = extreme(out[i].Value, e.Value, d), true
				}
			}
			if !known {
				out = append(out, e)
			}
		}
		return out
	case bson.A:
		out := append(bson.A{}, kept.(bson.A)...)
		for i, e := range v {
			if i < len(out) {
				out[i] = extreme(out[i], e, d)
			} else {
				out = append(out, e)
			}
		}
		return out
	}
	if int(d)*timeseries.Compare(rawOf(v), rawOf(kept)) > 0 {
		return v
	}
	return kept
}
