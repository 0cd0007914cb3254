package collection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
)

// series stores buckets in the time series events. Each meta gets the given numbers of open and closed ones, with ten
// measurements each.
func (e *env) series(t *testing.T, metas []any, open, closed int) {
	t.Helper()
	var all []any
	for _, meta := range metas {
		for i := range open + closed {
			control := bson.D{{Key: "version", Value: 1}, {Key: "count", Value: 10}}
			if i >= open {
				control = append(control, bson.E{Key: "closed", Value: true})
			}
			bucket := bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "control", Value: control}}
			if meta != nil {
				bucket = append(bucket, bson.E{Key: "meta", Value: meta})
			}
			all = append(all, append(bucket, bson.E{Key: "data", Value: bson.D{}}))
		}
	}
	if _, err := e.Raw.Collection("events.buckets").InsertMany(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// metas returns the numbers of open and closed buckets of each meta.
func (e *env) metas(t *testing.T) map[string][2]int {
	t.Helper()
	cursor, err := e.Raw.Collection("events.buckets").Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.Raw
	if err := cursor.All(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	counts := map[string][2]int{}
	for _, d := range all {
		key := "none"
		if meta := d.Lookup("meta"); meta.Type != 0 {
			key = meta.String()
		}
		n := counts[key]
		if closed, _ := d.Lookup("control", "closed").BooleanOK(); closed {
			n[1]++
		} else {
			n[0]++
		}
		counts[key] = n
	}
	return counts
}

func raw(t *testing.T, d any) bson.Raw {
	t.Helper()
	document, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func silent(collection.Edited) {}

// everything returns options that select all buckets.
func everything(t *testing.T) collection.SelectionOptions {
	return collection.SelectionOptions{Query: raw(t, bson.D{}), TimeField: "time", Closed: true, Timeout: time.Hour}
}

func (e *env) selects(t *testing.T, query bson.Raw, closed bool) *collection.Selection {
	t.Helper()
	return collection.Of(e.Database, "events").Select("time", query, closed)
}

// changed runs a change to its end.
func changed(t *testing.T, s *collection.Selection, changes []collection.MetaChange) collection.Edited {
	t.Helper()
	c := s.Change(seriesIn(t, s), changes, silent)
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.Edited()
}

func seriesIn(t *testing.T, s *collection.Selection) []collection.SelectedSeries {
	t.Helper()
	all, err := s.Series(t.Context(), func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSelectionTellsSeriesApart(t *testing.T) {
	e := connect(t)
	object := bson.D{{Key: "a", Value: "x"}}
	e.series(t, []any{int32(1), int64(1), 1.0, bson.Null{}, nil, object, "x"}, 2, 1)
	s := e.selects(t, raw(t, bson.D{}), false)
	all := seriesIn(t, s)
	if len(all) != 7 {
		t.Fatalf("%d series: %+v", len(all), all)
	}
	for _, one := range all {
		if one.Open != (collection.Amount{Buckets: 2, Measurements: 20}) || one.Closed != (collection.Amount{Buckets: 1, Measurements: 10}) {
			t.Errorf("%v: %+v", one.Meta, one)
		}
	}
	for want, meta := range map[bool]any{true: int64(1), false: int64(2)} {
		if holds, err := s.Holds(t.Context(), raw(t, bson.D{{Key: "m", Value: meta}}).Lookup("m")); err != nil || holds != want {
			t.Errorf("holds %v: %v, %v", meta, holds, err)
		}
	}
	some := e.selects(t, raw(t, bson.D{{Key: "meta.a", Value: "x"}}), false)
	if all := seriesIn(t, some); len(all) != 1 || all[0].Meta.Type != bson.TypeEmbeddedDocument {
		t.Errorf("selected: %+v", all)
	}
}

func TestTryIsTheServersUpdate(t *testing.T) {
	e := connect(t)
	var metas []bson.RawValue
	for i := range 520 {
		metas = append(metas, raw(t, bson.D{{Key: "m", Value: bson.D{{Key: "n", Value: i}}}}).Lookup("m"))
	}
	metas = append(metas, bson.RawValue{}, raw(t, bson.D{{Key: "m", Value: bson.D{{Key: "n", Value: "text"}}}}).Lookup("m"))
	s := e.selects(t, raw(t, bson.D{}), false)
	tried, err := s.Try(t.Context(), raw(t, bson.D{{Key: "$inc", Value: bson.D{{Key: "meta.n", Value: 1}}}}), metas, func(int) {})
	if err != nil || len(tried) != len(metas) {
		t.Fatal(len(tried), err)
	}
	refused := 0 // FerretDB does not say which write of a command failed
	for i, one := range tried {
		if one.Err != nil {
			refused++
		}
		if n, _ := one.Meta.Document().Lookup("n").AsInt64OK(); i < 520 && n != int64(i+1) {
			t.Fatalf("%d became %v", i, one.Meta)
		}
	}
	if refused != 1 {
		t.Errorf("%d metas are refused, not only the text: %v", refused, tried[521])
	}
	if n, _ := tried[520].Meta.Document().Lookup("n").AsInt64OK(); n != 1 {
		t.Errorf("none became %v", tried[520].Meta)
	}
	gone, err := s.Try(t.Context(), raw(t, bson.D{{Key: "$unset", Value: bson.D{{Key: "meta", Value: ""}}}}), metas[:1], func(int) {})
	if err != nil || gone[0].Meta.Type != 0 {
		t.Errorf("without meta: %v, %v", gone, err)
	}
	if n, err := e.Raw.Collection("events.options").CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Errorf("%d scratch documents stay, %v", n, err)
	}
}

func TestChangeMovesEachBucketOnce(t *testing.T) {
	value := func(m any) bson.RawValue {
		if m == nil {
			return bson.RawValue{}
		}
		return raw(t, bson.D{{Key: "m", Value: m}}).Lookup("m")
	}
	for name, c := range map[string]struct {
		closed  bool
		changes [][2]any
		want    map[string][2]int
		done    int64
	}{
		"one":        {false, [][2]any{{"a", "z"}}, map[string][2]int{`"z"`: {40, 0}, `"a"`: {0, 2}, `"b"`: {40, 2}, `"c"`: {40, 2}, "none": {40, 2}}, 40},
		"closed too": {true, [][2]any{{"a", "z"}}, map[string][2]int{`"z"`: {40, 2}, `"b"`: {40, 2}, `"c"`: {40, 2}, "none": {40, 2}}, 42},
		"a ring":     {true, [][2]any{{"a", "b"}, {"b", "c"}, {"c", nil}, {nil, "a"}}, map[string][2]int{`"a"`: {40, 2}, `"b"`: {40, 2}, `"c"`: {40, 2}, "none": {40, 2}}, 168},
		"into one":   {true, [][2]any{{"a", "b"}, {nil, "b"}, {"c", "b"}}, map[string][2]int{`"b"`: {160, 8}}, 126},
		"a chain":    {true, [][2]any{{"a", "b"}, {"b", "c"}, {"c", "d"}}, map[string][2]int{`"b"`: {40, 2}, `"c"`: {40, 2}, `"d"`: {40, 2}, "none": {40, 2}}, 126},
	} {
		t.Run(name, func(t *testing.T) {
			e := connect(t)
			e.series(t, []any{"a", "b", "c", nil}, 40, 2)
			var changes []collection.MetaChange
			for _, one := range c.changes {
				changes = append(changes, collection.MetaChange{Before: value(one[0]), After: value(one[1])})
			}
			edited := changed(t, e.selects(t, raw(t, bson.D{}), c.closed), changes)
			if edited != (collection.Edited{Done: collection.Amount{Buckets: c.done, Measurements: 10 * c.done}}) {
				t.Errorf("edited %+v, want %d", edited, c.done)
			}
			if diff := cmp.Diff(c.want, e.metas(t)); diff != "" {
				t.Errorf("the series, want - and have +:\n%s", diff)
			}
		})
	}
}

func TestDeleteLeavesOthers(t *testing.T) {
	e := connect(t)
	e.series(t, []any{"a", "b", nil}, 60, 2)
	query := raw(t, bson.D{{Key: "meta", Value: "a"}})
	for _, c := range []struct {
		closed bool
		done   int64
		want   map[string][2]int
	}{
		{false, 60, map[string][2]int{`"a"`: {0, 2}, `"b"`: {60, 2}, "none": {60, 2}}},
		{true, 2, map[string][2]int{`"b"`: {60, 2}, "none": {60, 2}}},
	} {
		d := e.selects(t, query, c.closed).Delete(silent)
		if err := d.Run(t.Context()); err != nil || d.Edited().Done.Buckets != c.done || d.Edited().Missed != 0 {
			t.Errorf("%+v, %v", d.Edited(), err)
		}
		if diff := cmp.Diff(c.want, e.metas(t)); diff != "" {
			t.Errorf("the series, want - and have +:\n%s", diff)
		}
	}
}

// memory is a collection of buckets whose answers a test controls. It supports the queries of edits.
type memory struct {
	buckets []bson.D
	before  func(command int) // called before the command is executed
	lost    func(command int) bool
	n       int
}

var errLost = errors.New("no answer")

func (m *memory) Insert(context.Context, []bson.Raw) (mongodb.Reply, error) { panic("not used") }

func (m *memory) Find(_ context.Context, q mongodb.Query, each func(bson.Raw) error) error {
	for _, b := range slices.Clone(m.buckets) {
		document, err := bson.Marshal(b)
		if err != nil {
			return err
		}
		if among := q.Filter.Lookup("_id", "$in"); among.Type != 0 {
			values, _ := among.Array().Values()
			if !slices.ContainsFunc(values, func(v bson.RawValue) bool { return v.Equal(bson.Raw(document).Lookup("_id")) }) {
				continue
			}
		}
		if err := each(document); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Update(_ context.Context, updates []mongodb.Update) (reply mongodb.Reply, err error) {
	m.n++
	if m.before != nil {
		m.before(m.n)
	}
	for _, u := range updates {
		i := slices.IndexFunc(m.buckets, func(b bson.D) bool { return b[0].Value == u.Filter.Lookup("_id").Int32() })
		if m.buckets[i][1].Value.(bson.RawValue).Equal(u.Filter.Lookup("meta")) {
			m.buckets[i][1].Value = u.Update.Lookup("$set", "meta")
			reply.N++
		}
	}
	if m.lost != nil && m.lost(m.n) {
		return mongodb.Reply{}, errLost
	}
	return reply, nil
}

func (m *memory) Delete(context.Context, []bson.Raw) (mongodb.Reply, error) { panic("not used") }

// TestChangeGoesOnAfterLostAnswers moves series in a ring, while some answers are lost. Each bucket moves once all the same.
func TestChangeGoesOnAfterLostAnswers(t *testing.T) {
	m := &memory{lost: func(n int) bool { return n == 1 || n == 4 }}
	var all []collection.SelectedSeries
	var changes []collection.MetaChange
	meta := func(s int) bson.RawValue { return raw(t, bson.D{{Key: "m", Value: fmt.Sprint("s", s%3)}}).Lookup("m") }
	for s := range 3 {
		all = append(all, collection.SelectedSeries{Meta: meta(s)})
		changes = append(changes, collection.MetaChange{Before: meta(s), After: meta(s + 1)})
		for i := range 700 {
			m.buckets = append(m.buckets, bson.D{{Key: "_id", Value: int32(1000*s + i)}, {Key: "meta", Value: meta(s)}})
		}
	}
	c := collection.NewSelection(m, m, everything(t)).Change(all, changes, silent)
	runs := 0
	for err := errLost; err != nil && runs < 10; runs++ {
		err = c.Run(t.Context())
	}
	if e := c.Edited(); e.Done.Buckets != 2100 || e.Missed != 0 || e.Unsure != 0 || runs != 3 {
		t.Errorf("%+v after %d runs", e, runs)
	}
	for _, b := range m.buckets {
		id, now := b[0].Value.(int32), b[1].Value.(bson.RawValue)
		if !now.Equal(meta(int(id)/1000 + 1)) {
			t.Fatalf("bucket %d is of %v", id, now)
		}
	}
}

// TestChangeWaitsForInserts checks that an edit waits after it has read buckets and before it writes them, once for all of them. If
// the wait ends with an error, nothing is written.
func TestChangeWaitsForInserts(t *testing.T) {
	meta := func(s string) bson.RawValue { return raw(t, bson.D{{Key: "m", Value: s}}).Lookup("m") }
	for _, failing := range []error{nil, context.DeadlineExceeded} {
		m := &memory{}
		for i := range 300 {
			m.buckets = append(m.buckets, bson.D{{Key: "_id", Value: int32(i)}, {Key: "meta", Value: meta("a")}})
		}
		o, waits := everything(t), 0
		o.AwaitInserts = func(context.Context) error {
			if waits++; m.n > 0 {
				t.Error("the wait comes after a write")
			}
			return failing
		}
		c := collection.NewSelection(m, m, o).Change(
			[]collection.SelectedSeries{{Meta: meta("a")}}, []collection.MetaChange{{Before: meta("a"), After: meta("b")}}, silent)
		err := c.Run(t.Context())
		done := int64(300)
		if failing != nil {
			done = 0
		}
		if !errors.Is(err, failing) || c.Edited().Done.Buckets != done || waits != 1 || (m.n > 0) != (failing == nil) {
			t.Errorf("%v: %v, %+v after %d waits and %d writes", failing, err, c.Edited(), waits, m.n)
		}
	}
}

// TestChangeTellsWhatItMissed covers buckets that others edit between a read and a write, and series that appear.
func TestChangeTellsWhatItMissed(t *testing.T) {
	meta := func(s string) bson.RawValue { return raw(t, bson.D{{Key: "m", Value: s}}).Lookup("m") }
	m := &memory{}
	for i := range 10 {
		m.buckets = append(m.buckets, bson.D{{Key: "_id", Value: int32(i)}, {Key: "meta", Value: meta("a")}})
	}
	m.buckets = append(m.buckets, bson.D{{Key: "_id", Value: int32(99)}, {Key: "meta", Value: meta("new")}})
	m.before = func(int) { m.buckets[3][1].Value = meta("other") }
	s := collection.NewSelection(m, m, everything(t))
	c := s.Change([]collection.SelectedSeries{{Meta: meta("a")}}, []collection.MetaChange{{Before: meta("a"), After: meta("b")}}, silent)
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := c.Edited(); e.Done.Buckets != 9 || e.Missed != 1 || e.Appeared != 1 {
		t.Errorf("%+v", e)
	}
}

// TestBucketsMadeOfSegmentsAreSelected checks this although they are closed. Segments are left unchanged.
func TestBucketsMadeOfSegmentsAreSelected(t *testing.T) {
	e := connect(t)
	e.series(t, []any{"a"}, 1, 1)
	shown := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	made := bson.D{
		{Key: "_id", Value: bson.NewObjectID()},
		{Key: "meta", Value: "a"},
		{Key: "control", Value: bson.D{
			{Key: "version", Value: 1},
			{Key: "count", Value: 5},
			{Key: "closed", Value: true},
			{Key: "compaction", Value: bson.D{{Key: "visibleFrom", Value: bson.DateTime(shown.UnixMilli())}, {Key: "id", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}}},
		}},
	}
	segment := bson.D{
		{Key: "_id", Value: bson.NewObjectID()}, {Key: "meta", Value: "a"}, // as an imitation of a query that would match it
		{Key: "control", Value: bson.D{{Key: "count", Value: 7}, {Key: "closed", Value: true}, {Key: "segment", Value: bson.D{{Key: "owner", Value: "x"}}}}},
	}
	if _, err := e.Raw.Collection("events.buckets").InsertMany(t.Context(), []any{made, segment}); err != nil {
		t.Fatal(err)
	}
	s := e.selects(t, raw(t, bson.D{{Key: "meta", Value: "a"}}), false)
	all := seriesIn(t, s)
	if len(all) != 1 || all[0].Open != (collection.Amount{Buckets: 2, Measurements: 15}) || all[0].Closed != (collection.Amount{Buckets: 1, Measurements: 10}) {
		t.Fatalf("%+v", all)
	}
	meta := func(m string) bson.RawValue { return raw(t, bson.D{{Key: "m", Value: m}}).Lookup("m") }
	if done := changed(t, s, []collection.MetaChange{{Before: meta("a"), After: meta("b")}}); done.Done.Buckets != 2 || done.Missed != 0 || !done.Shown.Equal(shown) {
		t.Errorf("changed: %+v, want a bucket that is shown from %s on", done, shown)
	}
	d := e.selects(t, raw(t, bson.D{{Key: "meta", Value: "b"}}), false).Delete(silent)
	if err := d.Run(t.Context()); err != nil || d.Edited().Done.Buckets != 2 || d.Edited().Missed != 0 {
		t.Errorf("deleted: %+v, %v", d.Edited(), err)
	}
	if diff := cmp.Diff(map[string][2]int{`"a"`: {0, 2}}, e.metas(t)); diff != "" { // a closed bucket and the segment
		t.Error(diff)
	}
}
