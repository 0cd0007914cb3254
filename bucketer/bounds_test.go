package bucketer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestMergeAsTheModel merges random objects, which are narrow or wide, sparse, nested, and have their fields in any order.
func TestMergeAsTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var object func(width, depth int) bson.D
	object = func(width, depth int) bson.D {
		d := bson.D{}
		for i := range width {
			var v any = random.Int32N(5)
			switch {
			case random.IntN(3) == 0:
				continue
			case i == 0 && depth > 0:
				v = object(width, depth-1)
			case i == 1:
				v = bson.A(make([]any, 0))
				for range random.IntN(4) {
					v = append(v.(bson.A), random.Int32N(5))
				}
			}
			d = append(d, bson.E{Key: fmt.Sprint("field", i), Value: v})
		}
		if random.IntN(2) == 0 {
			random.Shuffle(len(d), func(i, j int) { d[i], d[j] = d[j], d[i] })
		}
		return d
	}
	for range 3000 {
		width := 1 + random.IntN(60)
		first := object(width, 2)
		var x extremes
		scratch := x.include(valueOf(t, first), nil)
		var least, most any = first, first
		for range 1 + random.IntN(5) {
			next := object(1+random.IntN(width), 2)
			scratch = x.include(valueOf(t, next), scratch)
			least, most = extreme(least, next, lower), extreme(most, next, upper)
		}
		if !x.lower.equals(valueOf(t, least)) || !x.upper.equals(valueOf(t, most)) {
			t.Fatalf("extremes are\n%v\n%v, want\n%v\n%v", bson.Raw(x.lower.data), bson.Raw(x.upper.data), least, most)
		}
	}
}

// TestMergeWalksOnce checks that the time of a merge does not depend on how deeply the values are nested.
func TestMergeWalksOnce(t *testing.T) {
	took := func(depth int) time.Duration {
		nested := func(n int32) value {
			leaf := bson.D{}
			for i := range 2000 {
				leaf = append(leaf, bson.E{Key: fmt.Sprint("f", i), Value: int32(1)})
			}
			leaf[len(leaf)-1].Value = n
			for range depth {
				leaf = bson.D{{Key: "o", Value: leaf}}
			}
			return valueOf(t, leaf)
		}
		kept, beyond := nested(1), nested(2)
		var all []time.Duration
		for range 7 {
			start := time.Now()
			merged, _ := upper.merge(kept, beyond, nil)
			all = append(all, time.Since(start))
			if !merged.equals(beyond) {
				t.Fatal("the merge is wrong")
			}
		}
		return slices.Min(all)
	}
	if flat, deep := took(1), took(maxDepth-10); deep > 10*flat {
		t.Errorf("a merge takes %v, %v when the same is deep within objects", flat, deep)
	}
}

// TestMergeOfAFewIntoManyAllocatesNothing checks that the merge of one name, known or new, does not build an index of all kept
// names.
func TestMergeOfAFewIntoManyAllocatesNothing(t *testing.T) {
	many := bson.D{}
	for i := range 5000 {
		many = append(many, bson.E{Key: fmt.Sprint("f", i), Value: int32(1)})
	}
	kept, scratch := valueOf(t, many), make([]byte, 0, 1<<20)
	for name, v := range map[string]value{
		"new":          valueOf(t, bson.D{{Key: "new", Value: int32(1)}}),
		"beyond":       valueOf(t, bson.D{{Key: "f2500", Value: int32(2)}}),
		"not beyond":   valueOf(t, bson.D{{Key: "f2500", Value: int32(1)}}),
		"two in order": valueOf(t, bson.D{{Key: "f1", Value: int32(2)}, {Key: "f2", Value: int32(2)}}),
	} {
		if n := testing.AllocsPerRun(10, func() { upper.merge(kept, v, scratch) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkMerge merges an object of five or fifty numbers into the maximum of similar objects.
func BenchmarkMerge(b *testing.B) {
	for _, width := range []int{5, 50} {
		var all, reverse bson.D
		for i := range width {
			all = append(all, bson.E{Key: fmt.Sprint("field", i), Value: float64(i)})
			reverse = append(bson.D{{Key: fmt.Sprint("field", i), Value: float64(i)}}, reverse...)
		}
		beyond := append(slices.Clone(all[:width-1]), bson.E{Key: all[width-1].Key, Value: 1000.0})
		for _, one := range []struct {
			name string
			v    bson.D
		}{
			{"same", all},
			{"beyond", beyond},
			{"sparse", bson.D{all[1], all[width-1]}},
			{"reversed", reverse},
			{"new", bson.D{all[1], {Key: "new", Value: true}}},
		} {
			b.Run(fmt.Sprintf("%d/%s", width, one.name), func(b *testing.B) {
				kept, v, scratch := valueOf(b, all), valueOf(b, one.v), make([]byte, 0, 1<<20)
				b.ReportAllocs()
				for b.Loop() {
					upper.merge(kept, v, scratch)
				}
			})
		}
	}
}

// TestBoundsPool allocates memory of all sizes. Returned memory is reused for the same size, and for no other.
func TestBoundsPool(t *testing.T) {
	var p boundsPool
	classes := map[int]int{} // sizes by class
	for n := 1; n <= maxPooledBounds+100; n++ {
		b := p.take(n)
		if len(b) != 0 || cap(b) < n || cap(b) > n+max(15, n/8) {
			t.Fatalf("for %d bytes: %d of %d", n, len(b), cap(b))
		}
		if cap(b) <= maxPooledBounds {
			class := boundsClass(cap(b))
			if size, ok := classes[class]; ok && size != cap(b) {
				t.Fatalf("class %d is of %d and %d bytes", class, size, cap(b))
			}
			classes[class] = cap(b)
		}
		p.release(b)
		if pooled := p.idle != 0; pooled != (cap(b) <= maxPooledBounds) {
			t.Fatalf("%d bytes: %d wait to be used again", cap(b), p.idle)
		}
		if again := p.take(n); cap(b) <= maxPooledBounds && &again[:1][0] != &b[:1][0] || p.idle != 0 {
			t.Fatalf("%d bytes are not used again, %d wait for it", n, p.idle)
		}
	}
	if len(classes) != boundsClasses {
		t.Errorf("%d classes, want %d", len(classes), boundsClasses)
	}
	for range 2 * maxIdleBounds / maxPooledBounds {
		p.release(make([]byte, maxPooledBounds))
	}
	if p.idle > maxIdleBounds+2*maxPooledBounds {
		t.Errorf("%d bytes wait to be used again", p.idle)
	}
	p.trim()
	if p.idle != 0 || cap(p.take(maxPooledBounds)) != maxPooledBounds {
		t.Errorf("%d bytes are left", p.idle)
	}
}

// TestBoundsAreUsedAgain opens, updates and rolls over buckets. A warmed-up catalog allocates no bounds for them.
func TestBoundsAreUsedAgain(t *testing.T) {
	c := New(testOptions(t))
	n := newNumeric(100)
	for range 3 {
		n.window += c.span
		for range 2 {
			n.insert(t, c, 100)
			flushAll(c)
		}
	}
	// The buckets that rolled over have returned their bounds, and the open ones have returned their first, single bounds.
	if got, want := c.bounds.idle, int64(100*(96+idleBytes)); got < want {
		t.Errorf("%d bytes of bounds wait to be used again, want %d at least", got, want)
	}
	made := testing.AllocsPerRun(20, func() {
		n.window += c.span
		for range 2 {
			n.insert(t, c, 100)
			flushAll(c)
		}
	})
	if made > 200 { // one bucket each
		t.Errorf("%g allocations for 100 buckets", made)
	}
}
