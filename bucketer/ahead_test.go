package bucketer

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// scalesWell fails if ten times the work takes much longer than ten times the time. The machine may be busy, so it fails only if
// this happens in every try.
func scalesWell(t *testing.T, what string, n int, took func(n int) time.Duration) {
	t.Helper()
	var short, long time.Duration
	for range 10 {
		short, long = min(took(n), took(n), took(n)), took(10*n)
		if long < 30*short {
			return
		}
	}
	t.Errorf("%s: %d take %v, %d %v", what, n, short, 10*n, long)
}

// answering answers look-ups, up to max at a time, until none is left. It returns the number of rounds.
func answering(c *Catalog, max int, answer func(Lookup) Answer) (rounds int) {
	for lookups := c.Lookups(max); len(lookups) > 0; lookups = c.Lookups(max) {
		rounds++
		answers := make([]Answer, len(lookups))
		for i := range lookups {
			answers[i] = answer(lookups[i])
		}
		c.Load(answers)
	}
	return rounds
}

func nothing(l Lookup) Answer { return Answer{Lookup: l} }

// insertBackwards inserts measurements of one series, each a minute before the last one. Each opens a bucket after a look-up.
func insertBackwards(t testing.TB, c *Catalog, count int) {
	n := newNumeric(1)
	for range count {
		n.advance()
		n.Time = 1_700_000_000_000 - int64(n.next)*60_000
		if err := c.Insert(&n.Measurement); err != nil {
			t.Fatal(err)
		}
	}
}

func reopening(t testing.TB) Options {
	o := testOptions(t)
	o.Reopen = true
	return o
}

func TestBackfillAsksForManyAtATime(t *testing.T) {
	c := New(reopening(t))
	insertBackwards(t, c, 5000)
	if rounds := answering(c, 1000, nothing); rounds != 5 {
		t.Errorf("5000 measurements that each ask were answered in %d rounds, want 5", rounds)
	}
	if f := c.Prepare(0); len(f.Writes) != 5000 {
		t.Errorf("%d buckets, want 5000", len(f.Writes))
	}
}

func TestBackfillTakesLinearTime(t *testing.T) {
	scalesWell(t, "measurements newest first", 1000, func(n int) time.Duration {
		start := time.Now()
		c := New(reopening(t))
		insertBackwards(t, c, n)
		answering(c, 1000, nothing)
		flushAll(c)
		return time.Since(start)
	})
	scalesWell(t, "each asking alone", 1000, func(n int) time.Duration {
		start := time.Now()
		c := New(reopening(t))
		insertBackwards(t, c, n)
		answering(c, 1, nothing)
		return time.Since(start)
	})
}

// TestLookingAheadChangesOnlyTheAsking checks that late measurements of many windows go into the same buckets, whether their
// look-ups are made one at a time or together.
func TestLookingAheadChangesOnlyTheAsking(t *testing.T) {
	for seed := range uint64(40) {
		stored := newStore(t, testOptions(t).Collection)
		before := New(testOptions(t))
		mustInsert(t, before, lateReadings(seed, 0, 50)...)
		for _, w := range finishAll(t, before, 0, Outcome{}) {
			stored.apply(w)
		}
		var want []*Write
		for _, max := range []int{1, 7, 1000} {
			c := New(reopening(t))
			mustInsert(t, c, lateReadings(seed+1000, 1000, 200)...)
			answering(c, max, stored.answer)
			var got []*Write
			if f := c.Prepare(0); f != nil {
				got = f.Writes // the writes of one series are in the same order, no matter what the other series do
				slices.SortFunc(got, func(a, b *Write) int { return bytes.Compare(a.ID[:], b.ID[:]) })
			}
			if max == 1 {
				want = got
			}
			same := slices.EqualFunc(got, want, func(a, b *Write) bool {
				return a.ID == b.ID && bytes.Equal(a.Document, b.Document) && bytes.Equal(a.Filter, b.Filter)
			})
			if !same {
				t.Fatalf("seed %d: with %d look-ups at a time %d writes, other than the %d with one", seed, max, len(got), len(want))
			}
		}
	}
}

// lateReadings returns readings of three series within two days.
func lateReadings(seed uint64, offset int64, n int) []reading {
	random := rand.New(rand.NewPCG(seed, 0))
	var out []reading
	for i := range n {
		r := simple(offset+int64(i), byte(1+random.IntN(3)), number(i))
		r.time = 1_700_000_000_000 - random.Int64N(48*3_600_000)
		out = append(out, r)
	}
	return out
}

// TestAnswersAheadAreNotKept checks that an answer to a look-up ahead is dropped when the look-up before it is stale. It is as
// old as that one, and the bucket may have changed.
func TestAnswersAheadAreNotKept(t *testing.T) {
	c := New(reopening(t))
	insertBackwards(t, c, 3)
	lookups := c.Lookups(10)
	if len(lookups) != 3 || lookups[0].Ahead || !lookups[1].Ahead || !lookups[2].Ahead {
		t.Fatalf("look-ups %+v, want one and two ahead", lookups)
	}
	c.Load([]Answer{{Lookup: lookups[1]}, {Lookup: lookups[2]}}) // the look-up before them has no answer yet
	if n, _ := c.Pending(); n != 0 {
		t.Fatalf("%d measurements go on without the answer they wait for", n)
	}
	c.Clear(nil)
	answers := make([]Answer, len(lookups))
	for i := range lookups {
		answers[i].Lookup = lookups[i]
	}
	c.Load(answers)
	if again := c.Lookups(10); len(again) != 3 || again[0].ID != (bson.ObjectID{}) {
		t.Errorf("after a change by others %d look-ups are made, want all 3 again", len(again))
	}
}
