package reader

import (
	"context"
	"slices"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// ability is something that not every server does. The server is tried until its answer is known.
type ability struct{ answer atomic.Pointer[bool] }

// tried reports whether the server has the ability. try tries it on the server, and need not know the answer. Nobody waits for
// another's try.
func (a *ability) tried(try func() (has, known bool)) bool {
	if has := a.answer.Load(); has != nil {
		return *has
	}
	has, known := try()
	if known {
		a.answer.Store(&has)
	}
	return has && known
}

// ordersMetas reports whether the server orders values as groups are ordered. It has the server sort some values. That also
// reveals a collation of the collection.
func (s *Series) ordersMetas(ctx context.Context) bool {
	return s.orders.tried(func() (has, known bool) {
		var sorted []bson.RawValue
		known = s.probe(ctx, ordering(), func(d bson.Raw) { sorted = append(sorted, cloned(metaOf(d))) })
		return len(sorted) == len(metasToOrder) && slices.IsSortedFunc(sorted, timeseries.Compare), known
	})
}

// comparesBits reports whether the server compares bits in the way that the conditions of a timeseries.Bloom need.
func (s *Series) comparesBits(ctx context.Context) bool {
	return s.bits.tried(func() (has, known bool) {
		var found []string
		known = s.probe(ctx, bitComparison(), func(d bson.Raw) {
			name, _ := d.Lookup(timeseries.FieldMeta, "name").StringValueOK()
			found = append(found, name)
		})
		return slices.Equal(found, []string{"set", "absent"}), known
	})
}

// probe runs a pipeline that has answers if there is a bucket. It reports whether these show what the server does. A refusal also
// shows it.
func (s *Series) probe(ctx context.Context, pipeline bson.A, use func(bson.Raw)) (known bool) {
	answers := 0
	answer, err := s.port.aggregate(ctx, pipeline)
	err = each(ctx, answer, err, func(d bson.Raw) error {
		answers++
		use(d)
		return nil
	})
	return err == nil && answers > 0 || refuses(err)
}

// metasToOrder are metas of several kinds, in no sorted order.
var metasToOrder = bson.A{
	bson.D{{Key: "a", Value: int32(10)}},
	bson.D{{Key: "a", Value: "b"}, {Key: "c", Value: int32(1)}},
	bson.D{{Key: "b", Value: int32(1)}},
	"b", "B", "a", "10", "9", int32(10), "\u00e9", "e\u0301",
	bson.D{{Key: "a", Value: 9.5}},
	int64(9), 9.5,
	bson.D{{Key: "a", Value: "b"}},
	bson.D{{Key: "a", Value: "B"}},
	true, false, bson.DateTime(1),
	bson.D{},
}

// ordering is the pipeline that sorts metasToOrder.
func ordering() bson.A {
	return append(unwinding(metasToOrder), bson.D{{Key: "$sort", Value: bson.D{{Key: timeseries.FieldMeta, Value: 1}}}})
}

// bitComparison is a pipeline with the condition of a timeseries.Bloom. It finds two of three values.
func bitComparison() bson.A {
	value := func(name string, bits ...byte) bson.D {
		return bson.D{{Key: "name", Value: name}, {Key: "bits", Value: bson.Binary{Data: bits}}}
	}
	path := timeseries.Path(timeseries.FieldMeta, "bits")
	return append(
		unwinding(bson.A{value("set", 0x81, 0x01), value("clear", 0x81, 0x02), bson.D{{Key: "name", Value: "absent"}}}),
		bson.D{{Key: "$match", Value: bson.D{{Key: path, Value: timeseries.HasBits([]int32{0, 7, 8})}}}},
	)
}

// unwinding is a pipeline with an answer for each value, as its meta, if there is a bucket.
func unwinding(values bson.A) bson.A {
	return bson.A{
		bson.D{{Key: "$limit", Value: 1}},
		bson.D{{Key: "$project", Value: bson.D{{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$literal", Value: values}}}}}},
		bson.D{{Key: "$unwind", Value: "$" + timeseries.FieldMeta}},
	}
}
