package sink_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

func TestResolveJudgesEveryWrite(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	buckets := e.Raw.Collection("events.buckets")
	set := func(w *bucketer.Write, fields bson.D) {
		t.Helper()
		if _, err := buckets.UpdateByID(t.Context(), w.ID, bson.D{{Key: "$set", Value: fields}}); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(w *bucketer.Write) {
		t.Helper()
		if _, err := buckets.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: w.ID}}); err != nil {
			t.Fatal(err)
		}
	}
	closed, meta := bson.D{{Key: "control.closed", Value: true}}, bson.D{{Key: "meta", Value: "other"}}
	count := bson.D{{Key: "control.count", Value: int32(77)}}

	offset := int64(0)
	next := func() []timeseries.Position { offset += 10; return run(offset, 2) }
	stored := func() *bucketer.Write { w := insertOf("a", next()...); sendAll(t, p, bucketer.Applied, w); return w }
	applied := func() *bucketer.Write {
		w := updateOf(stored(), run(offset+5, 1)[0])
		sendAll(t, p, bucketer.Applied, w)
		return w
	}
	for _, c := range []struct {
		name string
		want bucketer.Result
		make func() *bucketer.Write
	}{
		{"insert applied", bucketer.Applied, stored},
		{"insert not applied", bucketer.NotApplied, func() *bucketer.Write { return insertOf("a", next()...) }},
		{"insert applied, closed since", bucketer.AppliedForget, func() *bucketer.Write { w := stored(); set(w, closed); return w }},
		{"insert applied, other meta since", bucketer.AppliedForget, func() *bucketer.Write { w := stored(); set(w, meta); return w }},
		{"another's insert", bucketer.Conflicted, func() *bucketer.Write {
			w := insertOf("a", next()...)
			theirs := insertOf("a", append([]timeseries.Position{{Offset: offset}}, run(offset+3, 1)...)...)
			sendAll(t, p, bucketer.Applied, theirs)
			return w
		}},
		{"update applied", bucketer.Applied, applied},
		{"update not applied", bucketer.NotApplied, func() *bucketer.Write { return updateOf(stored(), run(offset+5, 1)[0]) }},
		{"update applied, closed since", bucketer.AppliedForget, func() *bucketer.Write { w := applied(); set(w, closed); return w }},
		{"update, bucket closed", bucketer.Conflicted, func() *bucketer.Write {
			w := stored()
			set(w, closed)
			return updateOf(w, run(offset+5, 1)[0])
		}},
		{"update, bucket of other meta", bucketer.Conflicted, func() *bucketer.Write {
			w := stored()
			set(w, meta)
			return updateOf(w, run(offset+5, 1)[0])
		}},
		{"update, bucket deleted", bucketer.Conflicted, func() *bucketer.Write {
			w := stored()
			drop(w)
			return updateOf(w, run(offset+5, 1)[0])
		}},
		{"update, another count", bucketer.Conflicted, func() *bucketer.Write {
			w := stored()
			set(w, count)
			return updateOf(w, run(offset+5, 1)[0])
		}},
		{"close applied", bucketer.Applied, func() *bucketer.Write { w := stored(); set(w, closed); return closeOf(w) }},
		{"close not applied", bucketer.NotApplied, func() *bucketer.Write { return closeOf(stored()) }},
		{"close, bucket deleted", bucketer.AppliedForget, func() *bucketer.Write { w := stored(); drop(w); return closeOf(w) }},
		{"close, another count", bucketer.AppliedForget, func() *bucketer.Write { w := stored(); set(w, count); return closeOf(w) }},
	} {
		got, err := p.Resolve(t.Context(), []*bucketer.Write{c.make()})
		if err != nil || got[0] != c.want {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func TestResolveFindsAnotherOwner(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	w := insertOf("a", run(0, 1)...)
	sendAll(t, p, bucketer.Applied, w)
	e.claimed(t, s)
	if _, err := p.Resolve(t.Context(), []*bucketer.Write{w}); !errors.Is(err, claim.ErrOtherOwner) {
		t.Errorf("resolve: %v", err)
	}
	if _, err := p.Positions(t.Context(), w); !errors.Is(err, claim.ErrOtherOwner) {
		t.Errorf("positions: %v", err)
	}
}

func TestPositionsAreFoundInAnyBucket(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	sendAll(t, p, bucketer.Applied, insertOf("a", run(10, 3)...), insertOf("b", timeseries.Position{Offset: 14, Part: 2}, timeseries.Position{Offset: 30}))
	w := insertOf("c", timeseries.Position{Offset: 14, Part: 2}, timeseries.Position{Offset: 11}, timeseries.Position{Offset: 14, Part: 1},
		timeseries.Position{Offset: 20})
	got, err := p.Positions(t.Context(), w)
	want := []timeseries.Position{{Offset: 14, Part: 2}, {Offset: 11}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
