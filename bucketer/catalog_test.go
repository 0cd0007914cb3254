package bucketer

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries/rawbson"
)

// TestLargestMeasurementFitsItsBucket checks that every measurement that a Decoder accepts fits a bucket of its own, for any
// distribution of its bytes over fields and meta.
func TestLargestMeasurementFitsItsBucket(t *testing.T) {
	meta := `"sensor":"` + strings.Repeat("m", 8<<10-5) + `"`
	for name, c := range map[string]struct {
		most  int
		event func(n int) string
	}{
		"one field": {5_570_549, func(n int) string { return fmt.Sprintf(`{"time":0,%s,"s":"%s"}`, meta, strings.Repeat("x", n)) }},
		"many fields": {583_496, func(n int) string {
			text := fmt.Appendf(nil, `{"time":0,%s`, meta)
			for i := range n {
				text = fmt.Appendf(text, `,"%x":null`, i)
			}
			return string(append(text, '}'))
		}},
	} {
		d, err := measurement.New(measurement.Options{
			TimeField: "time", TimeMin: measurement.At(0), TimeMax: measurement.At(1), MetaField: "sensor", MaxBytes: 64 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Decode(record.Record{Value: []byte(c.event(c.most + 1))}); err == nil {
			t.Errorf("%s: a larger one passes", name)
		}
		results, err := d.Decode(record.Record{Value: []byte(c.event(c.most))})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		catalog := New(testOptions(t))
		if err := catalog.Insert(&results[0].Measurement); err != nil {
			t.Fatal(err)
		}
		if n := len(finishAll(t, catalog, 0, Outcome{})[0].Document); n > maxDocument || n < maxDocument-65<<10 {
			t.Errorf("%s: the document has %d bytes", name, n)
		}
	}
}

func TestMalformedMeasurementsChangeNothing(t *testing.T) {
	deep := appendInt32Named(nil, "x", 1)
	for range maxDepth + 1 {
		dst, start := startDocument(nil, bson.TypeEmbeddedDocument, "x")
		deep = rawbson.EndDocument(append(dst, deep...), start)
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
		"object longer than told": append(rawbson.AppendHeader(nil, bson.TypeEmbeddedDocument, "o"), 9, 0, 0, 0, 0),
		"object of rubbish":       append(rawbson.AppendHeader(nil, bson.TypeEmbeddedDocument, "o"), 6, 0, 0, 0, 7, 0),
		"string without end":      append(rawbson.AppendHeader(nil, bson.TypeString, "s"), 2, 0, 0, 0, 'a', 'b'),
	} {
		c := New(testOptions(t))
		for range 2 { // first for a new bucket, then for an open one
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

// TestShapesAreSwept sends measurements with ever new fields. The memory for fields must not grow with them.
func TestShapesAreSwept(t *testing.T) {
	c := New(testOptions(t))
	kept := simple(0, 1, number(1))
	mustInsert(t, c, kept)
	peak := int64(0)
	for i := range 60_000 {
		r := simple(int64(i+1), 2, bson.E{Key: fmt.Sprint("field", i), Value: bson.D{{Key: "x", Value: true}}})
		r.time += int64(i) * 10_000_000 // it gets a bucket of its own
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
