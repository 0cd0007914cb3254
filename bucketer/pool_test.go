package bucketer

import "testing"

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
