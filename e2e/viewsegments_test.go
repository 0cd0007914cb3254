package e2e_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/events"
)

// The tests make the segments and their buckets by hand, following docs/segments.md.

// segmentMeta returns the meta of a segment.
func segmentMeta(id bson.ObjectID) bson.Binary {
	return bson.Binary{Subtype: bson.TypeBinaryGeneric, Data: append([]byte("segment"), id[10]&0x0f, id[11])}
}

// storedPart returns a bucket or a segment of readings. more are further fields of control.
func storedPart(readings []events.Reading, ofOne bool, more ...bson.E) bson.D {
	first := readings[0].Time
	for _, r := range readings {
		first = min(first, r.Time)
	}
	minute := time.UnixMilli(first).UTC().Truncate(time.Minute)
	names, columns, values := []string{"time"}, map[string]bson.D{}, map[string][]any{}
	for i, r := range readings {
		fields := viewedDocument(r)
		if ofOne {
			fields = slices.DeleteFunc(fields, func(e bson.E) bool { return e.Key == "meta" })
		}
		for _, f := range fields {
			if !slices.Contains(names, f.Key) {
				names = append(names, f.Key)
			}
			columns[f.Key] = append(columns[f.Key], bson.E{Key: fmt.Sprint(i), Value: f.Value})
			values[f.Key] = append(values[f.Key], f.Value)
		}
	}
	data, low, high := bson.D{}, bson.D{}, bson.D{}
	for _, name := range names {
		least, most := boundsOf(values[name])
		if name == "time" {
			least = minute
		}
		data, low, high = append(data, bson.E{Key: name, Value: columns[name]}), append(low, bson.E{Key: name, Value: least}), append(high, bson.E{Key: name, Value: most})
	}
	id := bson.NewObjectIDFromTimestamp(minute)
	part := bson.D{
		{Key: "_id", Value: id},
		{Key: "control", Value: append(bson.D{
			{Key: "version", Value: int32(1)},
			{Key: "min", Value: low},
			{Key: "max", Value: high},
			{Key: "count", Value: int32(len(readings))},
			{Key: "closed", Value: true},
		}, more...)},
	}
	var meta any = segmentMeta(id)
	if ofOne {
		meta = readings[0].Meta
	}
	part = append(part, bson.E{Key: "meta", Value: meta})
	return append(part, bson.E{Key: "data", Value: data})
}

// boundsOf returns the smallest and the largest value. For objects these are the bounds of each field. For values of several
// types they are any two that include all.
func boundsOf(values []any) (least, most any) {
	switch values[0].(type) {
	case bson.D:
		fields, names := map[string][]any{}, []string{}
		for _, v := range values {
			object, ok := v.(bson.D)
			if !ok {
				return nil, true
			}
			for _, f := range object {
				if fields[f.Key] == nil {
					names = append(names, f.Key)
				}
				fields[f.Key] = append(fields[f.Key], f.Value)
			}
		}
		low, high := bson.D{}, bson.D{}
		for _, name := range names {
			l, h := boundsOf(fields[name])
			low, high = append(low, bson.E{Key: name, Value: l}), append(high, bson.E{Key: name, Value: h})
		}
		return low, high
	case int32:
		return orderedBounds[int32](values)
	case float64:
		return orderedBounds[float64](values)
	case string:
		return orderedBounds[string](values)
	case bson.DateTime:
		return orderedBounds[bson.DateTime](values)
	}
	return nil, true
}

func orderedBounds[T cmp.Ordered](values []any) (least, most any) {
	var all []T
	for _, v := range values {
		one, ok := v.(T)
		if !ok {
			return nil, true
		}
		all = append(all, one)
	}
	return slices.Min(all), slices.Max(all)
}

// bySeries returns buckets of readings. more are further fields of control.
func bySeries(readings []events.Reading, more ...bson.E) (buckets []any) {
	series := map[string][]events.Reading{}
	for _, r := range readings {
		series[fmt.Sprint(r.Meta)] = append(series[fmt.Sprint(r.Meta)], r)
	}
	for _, one := range series {
		buckets = append(buckets, storedPart(one, true, more...))
	}
	return buckets
}

// inPortions returns readings as a collection with segments stores them at different times. Some are in segments, in segments
// during a compaction, in ended segments that are not yet deleted, and in buckets. segments is the number of segments.
func inPortions(readings []events.Reading, now time.Time) (stored []any, segments int) {
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	segment := func(until time.Time) bson.E {
		d := bson.D{{Key: "owner", Value: "c/t/0"}}
		if !until.IsZero() {
			d = append(d, bson.E{Key: "visibleUntil", Value: until})
		}
		segments++
		return bson.E{Key: "segment", Value: d}
	}
	compacted := func(from time.Time) bson.E {
		return bson.E{Key: "compaction", Value: bson.D{{Key: "visibleFrom", Value: from}}}
	}
	for i, portion := range portionsOf(readings) {
		switch i % 4 {
		case 0:
			stored = append(stored, storedPart(portion, false, segment(time.Time{})))
		case 1:
			stored = append(append(stored, storedPart(portion, false, segment(after))), bySeries(portion, compacted(after))...)
		case 2:
			stored = append(append(stored, storedPart(portion, false, segment(before))), bySeries(portion, compacted(before))...)
		case 3:
			stored = append(stored, bySeries(portion)...)
		}
	}
	return stored, segments
}

// portionsOf splits readings in the order of time into parts that fit into a bucket's span.
func portionsOf(readings []events.Reading) (all [][]events.Reading) {
	begin := 0
	for i := range readings {
		first := time.UnixMilli(readings[begin].Time).Truncate(time.Minute)
		if i-begin == 100 || time.UnixMilli(readings[i].Time).Sub(first) >= time.Hour {
			all, begin = append(all, readings[begin:i]), i
		}
	}
	return append(all, readings[begin:])
}

// TestViewShowsSegments checks that each kind of view of a collection with segments answers like one of the same measurements in
// buckets. It shows each measurement once, with time and meta first.
func TestViewShowsSegments(t *testing.T) {
	t.Parallel()
	s := newStream(t, 3)
	readings := viewedReadings()[:2078]
	slices.SortStableFunc(readings, func(a, b events.Reading) int { return cmp.Compare(a.Time, b.Time) })
	db := s.readable()
	plain, native := s.besides(db, readings)
	stored, segments := inPortions(readings, time.Now())
	for _, kind := range []string{"internal", "portable"} {
		t.Run(kind, func(t *testing.T) {
			code, _, errs := s.command([]string{"MONGODB_VIEW=" + kind, "SEGMENTS=auto", "LOG_LEVEL=info"}, "init")
			if code != 0 || strings.Contains(errs, "written directly into buckets") {
				t.Skip(strings.TrimSpace(errs))
			}
			if s.count(db, ".buckets") == 0 { // the first of both available kinds
				if _, err := s.collection(".buckets").InsertMany(within(t, 30*time.Second), stored); err != nil {
					t.Fatal(err)
				}
			}
			view := db.Collection(s.topic)
			s.compareAnswers(t, view, plain, native)
			var shown []bson.D
			cursor, err := view.Find(within(t, 20*time.Second), bson.D{})
			if err == nil {
				err = cursor.All(within(t, 20*time.Second), &shown)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range shown {
				if d[0].Key != "time" || d[1].Key != "meta" {
					t.Fatalf("%v does not begin with time and meta", d)
				}
			}
			if kind == "internal" {
				s.narrowed(t, db, segments)
			}
		})
	}
}

func (s *stream) count(db *mongo.Database, suffix string) int64 {
	s.t.Helper()
	n, err := db.Collection(s.topic+suffix).CountDocuments(within(s.t, 10*time.Second), bson.D{})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// narrowed checks that filters on meta and time narrow both parts, the segments at least to themselves.
func (s *stream) narrowed(t *testing.T, db *mongo.Database, segments int) {
	t.Helper()
	from, to := viewBegin.Add(6*time.Hour), viewBegin.Add(7*time.Hour)
	hour := bson.E{Key: "time", Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: to}}}
	inTime, err := s.collection(".buckets").CountDocuments(within(t, 10*time.Second), bson.D{
		{Key: "control.min.time", Value: bson.D{{Key: "$gte", Value: from.Add(-time.Hour)}, {Key: "$lt", Value: to}}},
	})
	all := s.count(db, ".buckets")
	if err != nil || inTime+int64(segments) >= all {
		t.Fatalf("%d of %d are of that time, %d are segments, %v", inTime, all, segments, err)
	}
	for _, filter := range []bson.D{
		{hour},
		{{Key: "meta", Value: bson.D{{Key: "sensor", Value: "s-1"}, {Key: "site", Value: "south"}}}, hour},
	} {
		n, known := s.examined(db, filter)
		t.Logf("%v: %d of %d examined (known: %v), %d are of that time, %d are segments", filter, n, all, known, inTime, segments)
		if n > max(inTime, int64(segments)) {
			t.Errorf("%v: %d of %d are examined, %d are of that time", filter, n, all, inTime)
		}
	}
}

// TestInitBeginsSegments checks the state after init, on any server, and that options still can be changed.
func TestInitBeginsSegments(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	ok := func(more []string, says string, args ...string) string {
		t.Helper()
		code, out, errs := s.command(more, args...)
		if code != 0 || !strings.Contains(out+errs, says) {
			t.Fatalf("%v, %v: code %d, want %q in\n%s%s", more, args, code, says, out, errs)
		}
		return out + errs
	}
	index := "waterwheel (segments)"
	if strings.Contains(ok([]string{"SEGMENTS=on"}, "are ready", "init"), "no partial indexes") {
		index = "waterwheel (source)"
	}
	ok(nil, index, "collection", "indexes")
	ok(nil, "minutes", "collection", "set-granularity", "minutes", "--yes")
	ok([]string{"SEGMENTS=off"}, "are ready", "init")
	ok(nil, "minutes", "collection", "show")
	var definition bson.D
	if err := s.collection(".options").FindOne(within(t, 10*time.Second), bson.D{{Key: "_id", Value: "options"}}).Decode(&definition); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(definition); !strings.Contains(text, `"granularity":"minutes"`) || !strings.Contains(text, `"segments":true`) {
		t.Errorf("the definition is %s", text)
	}
}
