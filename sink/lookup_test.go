package sink_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/timeseries"
)

func TestFindPicksBucketsThatMayTakeMore(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	const hour = 3_600_000
	fits, older, full, closed := insertOf("a", run(0, 2)...), insertAt("a", minute-hour, run(10, 1)...), insertOf("b", run(20, 1)...), insertOf("c", run(30, 1)...)
	sendAll(t, p, bucketer.Applied, fits, older, full, closed, insertOf("d", run(40, 1)...))
	buckets := e.Raw.Collection("events.buckets")
	for w, fields := range map[*bucketer.Write]bson.D{
		full: {{Key: "control.count", Value: int32(1000)}}, closed: {{Key: "control.closed", Value: true}},
	} {
		if _, err := buckets.UpdateByID(t.Context(), w.ID, bson.D{{Key: "$set", Value: fields}}); err != nil {
			t.Fatal(err)
		}
	}
	q := s.Partition(timeseries.Source{Topic: "events", TopicID: source.TopicID, Partition: 9}, "cluster", "group", "host")
	defer q.Close()

	lookups := []bucketer.Lookup{
		lookupOf("a", minute+1), lookupOf("a", minute-1), lookupOf("b", minute+1), lookupOf("c", minute+1), lookupOf("d", minute+hour),
		lookupOf("d", minute+hour-1), lookupOf("none", minute),
		{Series: lookupOf("a", 0).Series, Meta: metaOf("a"), ID: older.ID},
		{Series: lookupOf("b", 0).Series, Meta: metaOf("b"), ID: full.ID},
	}
	answers, err := p.Find(t.Context(), lookups)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, a := range answers {
		if diff := cmp.Diff(lookups[i], a.Lookup); diff != "" {
			t.Error(diff)
		}
		line := ""
		for _, c := range a.Candidates {
			line += c.Document.Lookup("_id").ObjectID().Hex()
			if _, err := c.Document.LookupErr("data"); err == nil {
				t.Error("the columns were read")
			}
			if stored := storedSize(t, e, c.Document.Lookup("_id").ObjectID()); c.Size != 0 && c.Size != stored {
				t.Errorf("size %d, stored are %d", c.Size, stored)
			}
		}
		got = append(got, line)
	}
	want := []string{fits.ID.Hex(), older.ID.Hex(), "", "", "", answers[5].Candidates[0].Document.Lookup("_id").ObjectID().Hex(), "", older.ID.Hex(), ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if answers, err := q.Find(t.Context(), lookups[:1]); err != nil || answers[0].Candidates != nil {
		t.Errorf("another partition's buckets were found: %v, %v", answers, err)
	}
}

func TestFindFollowsARaisedGranularity(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	sendAll(t, p, bucketer.Applied, insertOf("a", run(0, 2)...))
	const hour = 3_600_000
	found := func(time int64) int {
		t.Helper()
		answers, err := p.Find(t.Context(), []bucketer.Lookup{lookupOf("a", time)})
		if err != nil {
			t.Fatal(err)
		}
		return len(answers[0].Candidates)
	}
	if n := found(minute + 5*hour); n != 0 {
		t.Errorf("%d buckets were found five hours later, with a span of one", n)
	}
	s.SetCollection(timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Minutes})
	if n, after := found(minute+5*hour), found(minute+24*hour); n != 1 || after != 0 {
		t.Errorf("%d buckets were found five hours later, with a span of 24, and %d after them", n, after)
	}
}

func storedSize(t *testing.T, e *env, id bson.ObjectID) int32 {
	t.Helper()
	raw, err := e.Raw.Collection("events.buckets").FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Raw()
	if err != nil {
		t.Fatal(err)
	}
	return int32(len(raw))
}

func TestFindGroupsByBinarySeries(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	metas := []any{int32(1), int64(1), 1.0, bson.Null{}, bson.A{1, 2}, bson.D{{Key: "a", Value: 1}}}
	var writes []*bucketer.Write
	var lookups []bucketer.Lookup
	for i, meta := range metas {
		w := insertOf("", run(int64(i), 1)...)
		w.Meta = metaOf(meta)
		w.Document = replaced(w.Document, "meta", w.Meta)
		writes = append(writes, w)
		lookups = append(lookups, bucketer.Lookup{Series: string(byte(w.Meta.Type)) + string(w.Meta.Value), Meta: w.Meta, Time: minute})
	}
	absent := insertOf("", run(100, 1)...)
	absent.Meta, absent.Document = bson.RawValue{}, replaced(absent.Document, "meta", bson.RawValue{})
	writes, lookups = append(writes, absent), append(lookups, bucketer.Lookup{Time: minute})
	sendAll(t, p, bucketer.Applied, writes...)

	answers, err := p.Find(t.Context(), lookups)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if len(a.Candidates) != 1 || a.Candidates[0].Document.Lookup("_id").ObjectID() != writes[i].ID {
			t.Errorf("meta %v: %d candidates", writes[i].Meta, len(a.Candidates))
		}
	}
}

// replaced returns a document with another value of a field. The zero value removes the field.
func replaced(d bson.Raw, key string, value bson.RawValue) bson.Raw {
	var fields bson.D
	elements, err := d.Elements()
	if err != nil {
		panic(err)
	}
	for _, e := range elements {
		if e.Key() != key {
			fields = append(fields, bson.E{Key: e.Key(), Value: e.Value()})
		} else if value.Type != 0 {
			fields = append(fields, bson.E{Key: key, Value: value})
		}
	}
	return marshal(fields)
}

func TestFindSurvivesAMissingIndex(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	sendAll(t, p, bucketer.Applied, insertOf("a", run(0, 1)...))
	if err := e.Raw.Collection("events.buckets").Indexes().DropOne(t.Context(), "meta_1_control.min.time_1"); err != nil {
		t.Fatal(err)
	}
	answers, err := p.Find(t.Context(), lookups("a"))
	if err != nil || len(answers[0].Candidates) != 1 {
		t.Errorf("%v, %v", answers, err)
	}
}
