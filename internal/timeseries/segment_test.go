package timeseries

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestUnpackSegment checks that each measurement of a segment has the meta of its own series, and that the meta is not one of its
// fields.
func TestUnpackSegment(t *testing.T) {
	id := bson.NewObjectID()
	positions := []Position{{Offset: 7}, {Offset: 9, Part: 1}, {Offset: 8}}
	segment := func(metas bson.D) bson.Raw {
		raw, err := bson.Marshal(bson.D{
			{Key: "_id", Value: id},
			{Key: "meta", Value: SegmentMetaOf(id)},
			{Key: "control", Value: bson.D{
				{Key: "version", Value: Version},
				{Key: "count", Value: int32(3)},
				{Key: "segment", Value: bson.D{{Key: "owner", Value: "0/0"}}},
				{Key: "source", Value: bson.D{{Key: "offsets", Value: bson.A{AppendPositions(nil, positions)}}}},
			}},
			{Key: "data", Value: bson.D{
				{Key: "time", Value: bson.D{{Key: "0", Value: bson.DateTime(1)}, {Key: "1", Value: bson.DateTime(2)}, {Key: "2", Value: bson.DateTime(3)}}},
				{Key: "meta", Value: metas},
				{Key: "v", Value: bson.D{{Key: "0", Value: 10}, {Key: "2", Value: 30}}},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	u := NewUnpacker(Options{TimeField: "time", MetaField: "meta"})
	for range 2 { // it must be reusable
		if err := u.Reset(segment(bson.D{{Key: "0", Value: "a"}, {Key: "2", Value: "b"}})); err != nil {
			t.Fatal(err)
		}
		if !u.IsSegment() || u.Meta().Type != 0 {
			t.Errorf("segment: %v, meta %v", u.IsSegment(), u.Meta())
		}
		var m Unpacked
		for i, want := range []struct{ meta, fields string }{{`"a"`, `{"v": {"$numberInt":"10"}}`}, {"", `{}`}, {`"b"`, `{"v": {"$numberInt":"30"}}`}} {
			if !u.Next(&m) {
				t.Fatal(u.Err())
			}
			meta := ""
			if m.Meta.Type != 0 {
				meta = m.Meta.String()
			}
			if meta != want.meta || m.Fields.String() != want.fields || m.Position != positions[i] || m.Time != int64(i+1) {
				t.Errorf("measurement %d: %v %v %v %d", i, meta, m.Fields, m.Position, m.Time)
			}
		}
		if u.Next(&m) || u.Err() != nil || u.Mismatch() != nil {
			t.Error("it does not end as it should:", u.Err(), u.Mismatch())
		}
	}
	if err := u.Reset(segment(bson.D{{Key: "0", Value: "a"}, {Key: "5", Value: "b"}})); err != nil {
		t.Fatal(err)
	}
	var m Unpacked
	for u.Next(&m) {
	}
	if u.Mismatch() == nil {
		t.Error("a meta without a measurement is not noticed")
	}
}

// TestSegmentMeta checks that the meta follows from the _id, is within its bounds, and is never the meta of a series.
func TestSegmentMeta(t *testing.T) {
	least, most := SegmentMeta(0), SegmentMeta(SegmentRoutes-1)
	for _, end := range [][2]byte{{0, 0}, {0, 1}, {0x77, 0xff}, {0xff, 0xff}} {
		id := bson.NewObjectID()
		id[10], id[11] = end[0], end[1]
		meta := SegmentMetaOf(id)
		subtype, data := meta.Binary()
		if want := "segment" + string([]byte{end[0] & 0x0f, end[1]}); subtype != bson.TypeBinaryGeneric || string(data) != want || !IsSegmentMeta(meta) || meta.Validate() != nil {
			t.Errorf("of %v it is %v", id, meta)
		}
		if Compare(least, meta) > 0 || Compare(meta, most) > 0 {
			t.Errorf("%v is not from %v to %v", meta, least, most)
		}
	}
	other := SegmentMeta(5)
	other.Value[4] = bson.TypeBinaryUserDefined
	for _, meta := range []bson.RawValue{{}, other, {Type: bson.TypeString, Value: least.Value}, {Type: bson.TypeBinary, Value: least.Value[:len(least.Value)-1]}} {
		if IsSegmentMeta(meta) {
			t.Errorf("%v is taken for the meta of a segment", meta)
		}
	}
}
