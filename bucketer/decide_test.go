package bucketer

import (
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// opened returns the number of buckets opened so far.
func opened(c *Catalog) int64 { return c.Stats().BucketsOpened }

func TestSizeIsExact(t *testing.T) {
	o := testOptions(t)
	o.Limits.MinCount = 1
	text := func(offset int64, length int) reading {
		return simple(offset, 1, bson.E{Key: "s", Value: strings.Repeat("x", length)})
	}
	// bucket-catalog.md counts the column of the time, the column of a text of 10 bytes, and both values. Each further
	// measurement adds a value per column, whose index has one digit.
	const first = (12 + 4 + 2*(1+5+8)) + (12 + 1 + 2*(1+2+15)) + (1 + 8 + 1) + (1 + 15 + 1)
	const second = first + (1 + 8 + 2) + (1 + 15 + 2)
	for limit, want := range map[int32]int64{second: 1, second - 1: 2} {
		o.Limits.MaxBytes = limit
		c := New(o)
		mustInsert(t, c, text(0, 10), text(1, 10))
		if got := opened(c); got != want {
			t.Errorf("with a limit of %d bytes %d buckets are opened, want %d", limit, got, want)
		}
	}
	if effective, _ := (timeseries.Limits{MaxBytes: second}).Sizes(1); effective != second {
		t.Fatalf("the limit is %d", effective)
	}
}

func TestLateMeasurementsJoinBucketsNotWrittenYet(t *testing.T) {
	c := New(testOptions(t))
	at := func(offset, minute int64) reading {
		r := simple(offset, 1, number(1))
		r.time = minute * 60_000
		return r
	}
	mustInsert(t, c, at(0, 600), at(1, 700), at(2, 610), at(3, 500), at(4, 705), at(5, 615), at(6, 480), at(7, 499))
	// Buckets begin at 600 (0, 2, 5), 700 (1, 4), 500 (3) and 480 (6, 7). All are in memory until they are written.
	if got := opened(c); got != 4 {
		t.Errorf("%d buckets are opened, want 4", got)
	}
	stats := c.Stats()
	if stats.BucketsClosedDueToTimeForward != 1 || stats.BucketsArchivedDueToTimeBackward != 2 {
		t.Errorf("%d time forward, %d time backward; want 1 and 2",
			stats.BucketsClosedDueToTimeForward, stats.BucketsArchivedDueToTimeBackward)
	}
	finishAll(t, c, 0, Outcome{})
	mustInsert(t, c, at(8, 601))
	if got := opened(c); got != 5 {
		t.Errorf("after the flush %d buckets are opened, want a fifth", got)
	}
}

// TestLeftBucketTakesNothingMore leaves a bucket in flight because of the cost of its update. A measurement of its window that is
// too late for the new bucket must not go into the old one.
func TestLeftBucketTakesNothingMore(t *testing.T) {
	o := testOptions(t)
	o.DeltaMax = 1
	c := New(o)
	late := func(offset, seconds int64) reading {
		r := simple(offset, 1, number(1))
		r.time += seconds * 1000
		return r
	}
	mustInsert(t, c, late(0, 0))
	f := c.Prepare(0)
	mustInsert(t, c, late(1, 600), late(2, 601), late(3, 30))
	c.Finish(f, make([]Outcome, 1), 0)
	for _, w := range finishAll(t, c, 0, Outcome{}) {
		if w.Kind == Update {
			t.Errorf("an update is made: %s", w.Document)
		}
	}
	if left := c.Stats().BucketsLeftDueToDeltaCost; left != 1 {
		t.Errorf("%d buckets are left for their cost, want 1", left)
	}
}

// TestSharedShapesDoNotLearnFromEachOther lets two buckets with the same fields get the same new field, with members of different
// types in an object.
func TestSharedShapesDoNotLearnFromEachOther(t *testing.T) {
	c := New(testOptions(t))
	empty := bson.E{Key: "o", Value: bson.D{}}
	with := func(v any) bson.E { return bson.E{Key: "o", Value: bson.D{{Key: "p", Value: v}}} }
	mustInsert(t, c,
		simple(0, 1, empty), simple(1, 1, with(int32(1)), number(1)), simple(2, 1, with(2.5)),
		simple(3, 2, empty), simple(4, 2, with("s"), number(1)), simple(5, 2, with("t")))
	if got := opened(c); got != 2 {
		t.Errorf("%d buckets are opened, want one a series", got)
	}
	mustInsert(t, c, simple(6, 2, with(int32(1))))
	if got := opened(c); got != 3 {
		t.Errorf("%d buckets are opened, want another one for another type", got)
	}
}

func TestBoundsKeepTheFirstOfEquals(t *testing.T) {
	negativeZero := bson.RawValue{Type: bson.TypeDouble, Value: []byte{0, 0, 0, 0, 0, 0, 0, 0x80}}
	one, oneAgain := bson.NewDecimal128(0x3040000000000000, 1), bson.NewDecimal128(0x303e000000000000, 10)
	for _, pair := range [][2]any{{0.0, negativeZero}, {negativeZero, 0.0}, {one, oneAgain}, {oneAgain, one}, {int32(1), 1.0}} {
		c := New(testOptions(t))
		mustInsert(t, c, simple(0, 1, bson.E{Key: "v", Value: pair[0]}), simple(1, 1, bson.E{Key: "v", Value: pair[1]}))
		d := decode(t, finishAll(t, c, 0, Outcome{})[0].Document)
		for _, path := range []string{"control.min.v", "control.max.v"} {
			if got := at(d, path); !equal(t, got, pair[0]) {
				t.Errorf("%s of %v and %v is %v, want the first", path, text(pair[0]), text(pair[1]), text(got))
			}
		}
	}
}

func TestNotANumberIsBelowAllNumbers(t *testing.T) {
	for _, values := range [][]float64{{1, math.NaN(), 2}, {math.NaN(), 1, 2}, {2, 1, math.NaN()}} {
		c := New(testOptions(t))
		for i, v := range values {
			mustInsert(t, c, simple(int64(i), 1, bson.E{Key: "v", Value: v}))
		}
		d := decode(t, finishAll(t, c, 0, Outcome{})[0].Document)
		least, most := at(d, "control.min.v").(float64), at(d, "control.max.v").(float64)
		if !math.IsNaN(least) || most != 2 {
			t.Errorf("of %v the bounds are %v and %v", values, least, most)
		}
	}
}
