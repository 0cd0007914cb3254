package bucketer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// simple returns a reading of one of a few series, at second 0 of a bucket.
func simple(offset int64, series byte, fields ...bson.E) reading {
	return reading{
		position: timeseries.Position{Offset: offset},
		time:     1_700_000_000_000,
		series:   string([]byte{byte(bson.TypeInt32), series, 0, 0, 0}),
		fields:   fields,
	}
}

func number(n int) bson.E { return bson.E{Key: "n", Value: int32(n)} }

func mustInsert(t *testing.T, c *Catalog, readings ...reading) {
	t.Helper()
	for _, r := range readings {
		if err := c.Insert(r.measurement(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// finishAll finishes all writes of the next flush with the same outcome, and returns the writes.
func finishAll(t *testing.T, c *Catalog, now time.Duration, o Outcome) []*Write {
	t.Helper()
	f := c.Prepare(int64(now))
	if f == nil {
		return nil
	}
	if rejected := c.Finish(f, slices.Repeat([]Outcome{o}, len(f.Writes)), int64(now)); len(rejected) > 0 {
		t.Fatalf("rejected: %+v", rejected)
	}
	return f.Writes
}

func TestRepeatedConflictsBackOffAlone(t *testing.T) {
	c := New(testOptions(t))
	now, offset := time.Duration(0), int64(0)
	tried := map[bson.ObjectID]bool{}
	conflict := func() {
		t.Helper()
		writes := finishAll(t, c, now, Outcome{Result: Conflicted})
		if len(writes) != 1 || tried[writes[0].ID] {
			t.Fatalf("writes %v, want one under a new _id", writes)
		}
		tried[writes[0].ID] = true
	}
	mustInsert(t, c, simple(offset, 1, number(1)))
	conflict()
	conflict() // the first may be chance, so it is tried again at once
	for _, seconds := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		offset++
		mustInsert(t, c, simple(offset, 2, number(1)))
		writes := finishAll(t, c, now+seconds*time.Second-1, Outcome{})
		if measurements, _ := c.Pending(); len(writes) != 1 || measurements != 1 {
			t.Fatalf("before %d s %d writes are made and %d measurements left out, want 1 and 1", seconds, len(writes), measurements)
		}
		if oldest, ok := c.Oldest(); !ok || oldest != 0 {
			t.Fatalf("while it waits the oldest is %d (%v), want 0", oldest, ok)
		}
		now += seconds * time.Second
		conflict()
	}
	now += time.Minute
	finishAll(t, c, now, Outcome{Result: Applied})
	mustInsert(t, c, simple(offset+1, 1, number(1)))
	clear(tried)
	conflict()
	conflict() // after a success the series does not back off any more
}

func TestRefusedMeasurementIsFoundAlone(t *testing.T) {
	const blamed = 37
	c := New(testOptions(t))
	for i := range int64(100) {
		mustInsert(t, c, simple(i, 1, number(int(i))))
	}
	var rejected []Rejected
	stored, flushes := map[int64]bool{}, 0
	for f := c.Prepare(0); f != nil; f = c.Prepare(0) {
		flushes++
		var outcomes []Outcome
		for _, w := range f.Writes {
			positions := decodePositions(t, w.Offsets)
			if slices.Contains(positions, timeseries.Position{Offset: blamed}) {
				outcomes = append(outcomes, Outcome{Result: Refused, Code: 2, Message: "no"})
				continue
			}
			outcomes = append(outcomes, Outcome{})
			for _, p := range positions {
				stored[p.Offset] = true
			}
		}
		rejected = append(rejected, c.Finish(f, outcomes, 0)...)
	}
	want := Rejected{Position: timeseries.Position{Offset: blamed}, Code: 2, Message: "no"}
	if len(rejected) != 1 || rejected[0] != want {
		t.Errorf("rejected are %+v, want %+v", rejected, want)
	}
	if len(stored) != 99 || stored[blamed] {
		t.Errorf("%d measurements are stored, want the 99 others", len(stored))
	}
	if flushes > 8 {
		t.Errorf("%d flushes are needed, want at most 8: the first, and log2 of 100", flushes)
	}
}

func TestUpdateTooLargeClosesTheBucket(t *testing.T) {
	c := New(testOptions(t))
	mustInsert(t, c, simple(0, 1, number(1)))
	first := finishAll(t, c, 0, Outcome{})[0]
	mustInsert(t, c, simple(1, 1, number(2)))
	finishAll(t, c, 0, Outcome{Result: Refused, TooLarge: true})
	mustInsert(t, c, simple(2, 1, number(3)))
	writes := finishAll(t, c, 0, Outcome{})
	if len(writes) != 3 {
		t.Fatalf("%d writes, want a close, what was refused, what is new", len(writes))
	}
	for _, w := range writes {
		switch {
		case w.ID == first.ID:
			if w.Added != 0 || !w.Closes || w.Count != 1 {
				t.Errorf("the bucket gets %s, want a close", w.Document)
			}
		case w.Kind != Insert || w.Added != 1:
			t.Errorf("a measurement gets %s, want a bucket", w.Document)
		}
	}
}

// TestOversizeDocumentIsSplit fills a bucket whose bounds are as large as its measurements.
func TestOversizeDocumentIsSplit(t *testing.T) {
	c := New(testOptions(t))
	large := func(letter string) bson.E {
		return bson.E{Key: "s", Value: strings.Repeat(letter, 4_100_000)}
	}
	mustInsert(t, c, simple(0, 1, bson.E{Key: "s", Value: "m"}), simple(1, 1, large("a")), simple(2, 1, large("z")),
		simple(3, 1, large("b")))
	if len(c.buckets) != 1 {
		t.Fatalf("%d buckets are open, want all in one", len(c.buckets))
	}
	var added int32
	for _, w := range finishAll(t, c, 0, Outcome{}) {
		if len(w.Document) > maxDocument {
			t.Errorf("a document has %d bytes", len(w.Document))
		}
		added += w.Added
	}
	if added != 4 {
		t.Errorf("%d measurements are written, want 4", added)
	}
}

func TestWritesStayAsTheyAre(t *testing.T) {
	c := New(testOptions(t))
	mustInsert(t, c, simple(0, 1, number(1)), simple(1, 2, number(1)))
	f := c.Prepare(0)
	var before []string
	for _, w := range f.Writes {
		before = append(before, fmt.Sprint(*w))
	}
	mustInsert(t, c, simple(2, 1, number(-5)), simple(3, 3, number(1)))
	c.Clear(nil)
	c.Finish(f, make([]Outcome, 2), 0)
	for range 3 {
		mustInsert(t, c, simple(4, 1, number(7)), simple(5, 2, number(7)))
		finishAll(t, c, 0, Outcome{})
	}
	for i, w := range f.Writes {
		if got := fmt.Sprint(*w); got != before[i] {
			t.Errorf("write %d has become\n%s, was\n%s", i, got, before[i])
		}
	}
}

func TestBrokenPromisesPanic(t *testing.T) {
	c := New(testOptions(t))
	mustInsert(t, c, simple(0, 1, number(1)))
	f := c.Prepare(0)
	for name, call := range map[string]func(){
		"a second Prepare":         func() { c.Prepare(0) },
		"Finish of another flush":  func() { c.Finish(&Flush{}, nil, 0) },
		"Finish without a verdict": func() { c.Finish(f, nil, 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			call()
		}()
	}
}

func TestEditedBucketIsForgotten(t *testing.T) {
	c := New(testOptions(t))
	mustInsert(t, c, simple(0, 1, number(1)))
	first := finishAll(t, c, 0, Outcome{Result: AppliedForget})[0]
	mustInsert(t, c, simple(1, 1, number(1)))
	if second := finishAll(t, c, 0, Outcome{})[0]; second.Kind != Insert || second.ID == first.ID {
		t.Errorf("the next measurement goes into the bucket that was to be forgotten: %s", second.Document)
	}
}

func TestClearedBucketIsNotClosedWhenItsUpdateIsTooLarge(t *testing.T) {
	c := New(testOptions(t))
	mustInsert(t, c, simple(0, 1, number(1)))
	stored := finishAll(t, c, 0, Outcome{})[0].ID
	mustInsert(t, c, simple(1, 1, number(2)))
	f := c.Prepare(0)
	c.Clear(nil)
	c.Finish(f, []Outcome{{Result: Refused, TooLarge: true}}, 0)
	for _, w := range finishAll(t, c, 0, Outcome{}) {
		if w.ID == stored {
			t.Errorf("a bucket that was cleared is written to: %s", w.Document)
		}
	}
	if measurements, _ := c.Pending(); measurements != 0 || c.Stats().OpenBuckets != 0 {
		t.Errorf("left are %d measurements, %+v", measurements, c.Stats())
	}
}
