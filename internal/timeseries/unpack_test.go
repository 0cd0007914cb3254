package timeseries

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var unpackOptions = Options{TimeField: "t", MetaField: "m"}

// columnOf returns a column with values under the indexes "0", "1", and so on. A nil value leaves its index out.
func columnOf(values ...any) bson.D {
	c := bson.D{}
	for i, v := range values {
		if v != nil {
			c = append(c, bson.E{Key: strconv.Itoa(i), Value: v})
		}
	}
	return c
}

// storedBucket returns a well-formed bucket of three measurements, which tests can change.
func storedBucket() map[string]any {
	return map[string]any{
		"meta": bson.D{{Key: "host", Value: "a"}},
		"data": bson.D{
			{Key: "x", Value: columnOf(1, nil, 3)},
			{Key: "t", Value: columnOf(bson.DateTime(10), bson.DateTime(30), bson.DateTime(20))},
			{Key: "s", Value: columnOf(nil, "two", bson.A{3})},
		},
		"version": int32(1),
		"count":   int32(3),
		"offsets": bson.A{
			bson.Binary{Data: AppendPositions(nil, []Position{{Offset: 7}, {Offset: 9, Part: 1}})},
			bson.Binary{Data: AppendPositions(nil, []Position{{Offset: 8}})},
		},
	}
}

func marshalBucket(t testing.TB, parts map[string]any) bson.Raw {
	t.Helper()
	doc := bson.D{{Key: "_id", Value: bson.ObjectID{1}}}
	control := bson.D{}
	for _, name := range []string{"version", "count"} {
		if v, ok := parts[name]; ok {
			control = append(control, bson.E{Key: name, Value: v})
		}
	}
	if v, ok := parts["offsets"]; ok {
		control = append(control, bson.E{Key: "source", Value: bson.D{{Key: "topic", Value: "x"}, {Key: "offsets", Value: v}}})
	}
	if v, ok := parts["control"]; ok {
		doc = append(doc, bson.E{Key: "control", Value: v})
	} else {
		doc = append(doc, bson.E{Key: "control", Value: control})
	}
	for _, name := range []string{"meta", "data"} {
		if v, ok := parts[name]; ok {
			doc = append(doc, bson.E{Key: name, Value: v})
		}
	}
	raw, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// rows unpacks a bucket into readable measurements.
func rows(u *Unpacker, bucket bson.Raw) ([]string, error) {
	if err := u.Reset(bucket); err != nil {
		return nil, err
	}
	var got []string
	var m Unpacked
	for u.Next(&m) {
		row := strconv.FormatInt(m.Position.Offset, 10) + "." + strconv.Itoa(int(m.Position.Part)) +
			" @" + strconv.FormatInt(m.Time, 10)
		var fields cursor
		for fields.rest = m.Elements; fields.next(); {
			row += " " + string(fields.key) + "=" + fields.value().String()
		}
		got = append(got, row)
	}
	return got, u.Err()
}

func TestUnpackGivesMeasurementsInTheOrderOfTheTimeColumn(t *testing.T) {
	u := NewUnpacker(unpackOptions)
	bucket := marshalBucket(t, storedBucket())
	for range 2 { // an Unpacker must be reusable
		got, err := rows(u, bucket)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			`7.0 @10 x={"$numberInt":"1"}`,
			`9.1 @30 s="two"`,
			`8.0 @20 x={"$numberInt":"3"} s=[{"$numberInt":"3"}]`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if err := u.Mismatch(); err != nil {
			t.Error(err)
		}
	}
}

func TestUnpackGivesTheMetaOfTheBucket(t *testing.T) {
	u := NewUnpacker(unpackOptions)
	parts := storedBucket()
	for _, meta := range []any{bson.D{{Key: "a", Value: 1}}, "x", bson.Null{}, nil} {
		if parts["meta"] = meta; meta == nil {
			delete(parts, "meta")
		}
		if err := u.Reset(marshalBucket(t, parts)); err != nil {
			t.Fatal(err)
		}
		var m Unpacked
		if !u.Next(&m) {
			t.Fatal(u.Err())
		}
		want := bson.RawValue{}
		if meta != nil {
			want = value(t, meta)
		}
		if m.Meta.Type != want.Type || !slices.Equal(m.Meta.Value, want.Value) {
			t.Errorf("meta is %v, want %v", m.Meta, want)
		}
	}
}

func TestUnpackReadsColumnsThatAreArrays(t *testing.T) {
	parts := storedBucket()
	parts["data"] = bson.D{
		{Key: "t", Value: bson.A{bson.DateTime(1), bson.DateTime(2), bson.DateTime(3)}},
		{Key: "x", Value: bson.A{"a", "b"}},
	}
	got, err := rows(NewUnpacker(unpackOptions), marshalBucket(t, parts))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`7.0 @1 x="a"`, `9.1 @2 x="b"`, `8.0 @3`}, got); diff != "" {
		t.Error(diff)
	}
}

func TestUnpackIsInLockStep(t *testing.T) {
	parts := storedBucket()
	parts["data"] = bson.D{
		{Key: "t", Value: columnOf(bson.DateTime(1), bson.DateTime(2), bson.DateTime(3))},
		{Key: "x", Value: bson.D{{Key: "1", Value: "b"}, {Key: "0", Value: "a"}, {Key: "2", Value: "c"}}},
	}
	u := NewUnpacker(unpackOptions)
	got, err := rows(u, marshalBucket(t, parts))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`7.0 @1`, `9.1 @2 x="b"`, `8.0 @3`}, got); diff != "" {
		t.Error(diff)
	}
	var mismatch *Mismatch
	if !errors.As(u.Mismatch(), &mismatch) || mismatch.Lost != "data.x.0" {
		t.Errorf("mismatch is %v, want the lost value data.x.0", u.Mismatch())
	}
}

func TestUnpackTellsWhenABucketContradictsItself(t *testing.T) {
	good := bson.Binary{Data: AppendPositions(nil, []Position{{Offset: 7}})}
	for name, c := range map[string]struct {
		change func(parts map[string]any)
		want   Mismatch
		rows   []string // the first words of the rows
	}{
		"count": {
			func(p map[string]any) { p["count"] = int64(4) },
			Mismatch{Times: 3, Count: 4, Positions: 3},
			[]string{"7.0", "9.1", "8.0"},
		},
		"no count": {
			func(p map[string]any) { delete(p, "count") },
			Mismatch{Times: 3, Count: -1, Positions: 3},
			[]string{"7.0", "9.1", "8.0"},
		},
		"no source": {
			func(p map[string]any) { delete(p, "offsets") },
			Mismatch{Times: 3, Count: 3},
			[]string{"-1.0", "-1.0", "-1.0"},
		},
		"too few positions": {
			func(p map[string]any) { p["offsets"] = bson.A{good} },
			Mismatch{Times: 3, Count: 3, Positions: 1},
			[]string{"7.0", "-1.0", "-1.0"},
		},
		"too many positions": {
			func(p map[string]any) { p["offsets"] = bson.A{good, good, good, good} },
			Mismatch{Times: 3, Count: 3, Positions: 4},
			[]string{"7.0", "7.0", "7.0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			parts := storedBucket()
			c.change(parts)
			u := NewUnpacker(unpackOptions)
			got, err := rows(u, marshalBucket(t, parts))
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i], _, _ = strings.Cut(got[i], " ")
			}
			if diff := cmp.Diff(c.rows, got); diff != "" {
				t.Error(diff)
			}
			var mismatch *Mismatch
			if !errors.As(u.Mismatch(), &mismatch) {
				t.Fatal("no mismatch was told")
			}
			if diff := cmp.Diff(c.want, *mismatch); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnpackReadsMeasurementsWhosePositionsAreBroken(t *testing.T) {
	for name, element := range map[string]any{
		"cut off":        bson.Binary{Data: []byte{0x80}},
		"not binary":     "7",
		"other subtype":  bson.Binary{Subtype: 4, Data: []byte{2}},
		"old subtype":    bson.Binary{Subtype: 2, Data: []byte{2}},
		"negative first": bson.Binary{Data: []byte{2}},
	} {
		t.Run(name, func(t *testing.T) {
			parts := storedBucket()
			parts["offsets"] = bson.A{bson.Binary{Data: AppendPositions(nil, []Position{{Offset: 7}})}, element}
			u := NewUnpacker(unpackOptions)
			got, err := rows(u, marshalBucket(t, parts))
			if err != nil || len(got) != 3 {
				t.Fatalf("got %v, %v; want three measurements", got, err)
			}
			var mismatch *Mismatch
			if !errors.As(u.Mismatch(), &mismatch) || !errors.Is(mismatch.Malformed, ErrPositions) {
				t.Fatalf("mismatch is %v, want malformed positions", u.Mismatch())
			}
			if !strings.Contains(mismatch.Error(), "control.source.offsets.1") {
				t.Errorf("%q does not name the element", mismatch)
			}
		})
	}
}

func TestUnpackRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(parts map[string]any)
		want   int32
	}{
		"no data":          {func(p map[string]any) { delete(p, "data") }, 5346700},
		"data no object":   {func(p map[string]any) { p["data"] = 1 }, 5346700},
		"data empty":       {func(p map[string]any) { p["data"] = bson.D{} }, 5346509},
		"no time column":   {func(p map[string]any) { p["data"] = bson.D{{Key: "x", Value: bson.D{}}} }, 5346700},
		"column no object": {func(p map[string]any) { p["data"] = bson.D{{Key: "t", Value: 1}} }, 0},
		"time no date":     {func(p map[string]any) { p["data"] = bson.D{{Key: "t", Value: columnOf(1)}} }, 0},
		"meta undefined":   {func(p map[string]any) { p["meta"] = bson.Undefined{} }, 5369600},
		"control missing":  {func(p map[string]any) { p["control"] = 1 }, 5857902},
		"version missing":  {func(p map[string]any) { delete(p, "version") }, 5857903},
		"version 2":        {func(p map[string]any) { p["version"] = 2 }, 5857900},
		"version text":     {func(p map[string]any) { p["version"] = "1" }, 5857900},
	} {
		t.Run(name, func(t *testing.T) {
			parts := storedBucket()
			c.change(parts)
			_, err := rows(NewUnpacker(unpackOptions), marshalBucket(t, parts))
			var refused *Error
			if !errors.As(err, &refused) || refused.Code != c.want {
				t.Errorf("got %v, want code %d", err, c.want)
			}
		})
	}
	t.Run("empty bucket", func(t *testing.T) {
		err := NewUnpacker(unpackOptions).Reset(bson.Raw{5, 0, 0, 0, 0})
		if codeOf(t, err) != "Location5346510" {
			t.Error(err)
		}
	})
	t.Run("meta without metaField", func(t *testing.T) {
		err := NewUnpacker(Options{TimeField: "t"}).Reset(marshalBucket(t, storedBucket()))
		if codeOf(t, err) != "Location5369601" {
			t.Error(err)
		}
	})
	t.Run("cut off", func(t *testing.T) {
		bucket := marshalBucket(t, storedBucket())
		for end := range bucket {
			if err := NewUnpacker(unpackOptions).Reset(bucket[:end]); err == nil {
				t.Fatalf("a bucket cut at byte %d was accepted", end)
			}
		}
	})
}

// FuzzUnpack checks that no bytes make the unpacker panic, and that its output consists of readable elements.
func FuzzUnpack(f *testing.F) {
	bucket := marshalBucket(f, storedBucket())
	f.Add([]byte(bucket))
	f.Add([]byte(bucket[:len(bucket)-9]))
	u := NewUnpacker(unpackOptions)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := u.Reset(b); err != nil {
			return
		}
		var m Unpacked
		for u.Next(&m) {
			var fields cursor
			for fields.rest = m.Elements; fields.next(); {
			}
			if fields.err != nil {
				t.Fatalf("measurement %x cannot be read", m.Elements)
			}
		}
		if err := u.Mismatch(); err != nil && err.Error() == "" {
			t.Fatal("a mismatch says nothing")
		}
	})
}

func BenchmarkUnpack(b *testing.B) {
	const measurements, fields = 1000, 5
	parts, times, values := storedBucket(), make([]any, measurements), make([]any, measurements)
	for i := range measurements {
		times[i], values[i] = bson.DateTime(i), float64(i)
	}
	data := bson.D{{Key: "t", Value: columnOf(times...)}}
	for i := range fields {
		data = append(data, bson.E{Key: "field" + strconv.Itoa(i), Value: columnOf(values...)})
	}
	parts["data"] = data
	bucket, u := marshalBucket(b, parts), NewUnpacker(unpackOptions)
	var m Unpacked
	b.ReportAllocs()
	for b.Loop() {
		if err := u.Reset(bucket); err != nil {
			b.Fatal(err)
		}
		for u.Next(&m) {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/measurements, "ns/measurement")
}
