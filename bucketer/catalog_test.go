package bucketer

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/measurement"
)

func TestLargestMeasurementFitsItsBucket(t *testing.T) {
	c := New(testOptions(t))
	size := func(length int) reading {
		return simple(0, 1, bson.E{Key: "s", Value: strings.Repeat("x", length)}, number(1))
	}
	const most = 5_591_000
	err := c.Insert(size(most + 10_000).measurement(t))
	var tooLarge *TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Max != maxDocument || tooLarge.Size <= maxDocument {
		t.Fatalf("the error is %v, want one that it is too large", err)
	}
	if c.Stats().Series != 0 {
		t.Error("what is refused leaves a series behind")
	}
	mustInsert(t, c, size(most))
	if n := len(finishAll(t, c, 0, Outcome{})[0].Document); n > maxDocument {
		t.Errorf("the document has %d bytes", n)
	}
	fields := make([]bson.E, 0, 100_000)
	for i := range 100_000 {
		fields = append(fields, bson.E{Key: fmt.Sprintf("%x", i), Value: nil})
	}
	mustInsert(t, c, simple(1, 2, fields...))
	if n := len(finishAll(t, c, 0, Outcome{})[0].Document); n > maxDocument {
		t.Errorf("the document of many fields has %d bytes", n)
	}
}

func TestMalformedMeasurementsChangeNothing(t *testing.T) {
	deep := appendInt32Named(nil, "x", 1)
	for range maxDepth + 1 {
		dst, start := startDocument(nil, bson.TypeEmbeddedDocument, "x")
		deep = endDocument(append(dst, deep...), start)
	}
	one := appendInt32Named(nil, "n", 1)
	for name, elements := range map[string][]byte{
		"cut":                     one[:len(one)-1],
		"no name":                 {byte(bson.TypeInt32)},
		"unknown type":            {99, 'a', 0},
		"name twice":              append(append([]byte{}, one...), one...),
		"the time's name":         appendInt32Named(nil, "time", 1),
		"dotted name":             appendInt32Named(nil, "a.b", 1),
		"operator":                appendInt32Named(nil, "$a", 1),
		"empty name":              appendInt32Named(nil, "", 1),
		"too deep":                deep,
		"object longer than told": append(appendHeader(nil, bson.TypeEmbeddedDocument, "o"), 9, 0, 0, 0, 0),
		"object of rubbish":       append(appendHeader(nil, bson.TypeEmbeddedDocument, "o"), 6, 0, 0, 0, 7, 0),
		"string without end":      append(appendHeader(nil, bson.TypeString, "s"), 2, 0, 0, 0, 'a', 'b'),
	} {
		c := New(testOptions(t))
		for range 2 { // for a new bucket, then for an open one
			before := c.Stats()
			m := simple(9, 1).measurement(t)
			m.Elements = elements
			if err := c.Insert(m); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: the error is %v", name, err)
			}
			if after := c.Stats(); after != before {
				t.Errorf("%s: the catalog has changed: %+v, was %+v", name, after, before)
			}
			mustInsert(t, c, simple(0, 1, number(1)))
		}
	}
}

func TestInsertDoesNotAllocate(t *testing.T) {
	c := New(testOptions(t))
	n := newNumeric(50)
	n.insert(t, c, 50*1000)
	flushAll(c)
	n.insert(t, c, 50*500)
	if allocs := testing.AllocsPerRun(10_000, func() { n.insert(t, c, 1) }); allocs != 0 {
		t.Errorf("an insert makes %v allocations", allocs)
	}
}

// TestShapesAreSwept sends measurements of ever new fields: what is known of fields must not grow with them.
func TestShapesAreSwept(t *testing.T) {
	c := New(testOptions(t))
	kept := simple(0, 1, number(1))
	mustInsert(t, c, kept)
	peak := int64(0)
	for i := range 60_000 {
		r := simple(int64(i+1), 2, bson.E{Key: fmt.Sprint("field", i), Value: bson.D{{Key: "x", Value: true}}})
		r.time += int64(i) * 10_000_000 // a bucket of its own
		mustInsert(t, c, r)
		if i%100 == 0 {
			finishAll(t, c, 0, Outcome{})
		}
		peak = max(peak, c.shapes.total)
	}
	if limit := int64(4 << 20); peak > limit {
		t.Errorf("shapes take up to %d bytes, want at most %d", peak, limit)
	}
	kept.position.Offset = 1_000_000
	mustInsert(t, c, kept)
	for _, w := range finishAll(t, c, 0, Outcome{}) {
		if err := w.Document.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestTimesAtTheEnds(t *testing.T) {
	c := New(testOptions(t))
	for i, time := range []int64{math.MinInt64, math.MaxInt64, 0, -1, math.MinInt64 + 1, math.MaxInt64} {
		m := measurement.Measurement{Time: time}
		m.Position.Offset = int64(i)
		if err := c.Insert(&m); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range finishAll(t, c, 0, Outcome{}) {
		d := decode(t, w.Document)
		least, most := at(d, "control.min.time").(bson.DateTime), at(d, "control.max.time").(bson.DateTime)
		if least > most || uint64(most)-uint64(least) >= 3_600_000 {
			t.Errorf("a bucket spans %d to %d", least, most)
		}
	}
	if got := c.Stats().MeasurementsCommitted; got != 6 {
		t.Errorf("%d measurements are committed, want 6", got)
	}
}

func TestStatisticsHaveTheirOwnNames(t *testing.T) {
	c := New(testOptions(t))
	mustInsert(t, c, simple(0, 1, number(1)), simple(1, 1, number(2)))
	finishAll(t, c, 0, Outcome{})
	seen := map[string]int64{}
	for name, value := range c.Stats().All() {
		if _, twice := seen[name]; twice {
			t.Errorf("%s stands twice", name)
		}
		seen[name] = value
	}
	for name, want := range map[string]int64{
		"numBucketInserts": 1, "numCommits": 1, "numMeasurementsCommitted": 2, "avgNumMeasurementsPerCommit": 2,
		"numActiveBuckets": 1, "numWaits": 0, "keptBytes": c.Bytes(),
	} {
		if got, ok := seen[name]; !ok || got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for range c.Stats().All() {
		break // an early end is no panic
	}
}
