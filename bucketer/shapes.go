package bucketer

import (
	"maps"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// shapes are the shapes that buckets share. A shape without a bucket stays for a while, because the next bucket of a series
// probably has the same fields.
type shapes struct {
	empty  *shape
	known  map[string]*shape
	total  int64 // bytes of the known ones
	unused int64 // the part of total without a bucket
	key    []byte
}

func newShapes() shapes {
	return shapes{empty: &shape{shared: true}, known: map[string]*shape{}}
}

// grow returns the shape of a bucket with shape s after it takes a measurement that was surveyed and does not clash.
func (t *shapes) grow(s *shape, elements []byte, v survey) *shape {
	if s.next != nil && !v.nested && s.next.isPlainGrowth(s, elements) {
		return s.next
	}
	grown := s
	if s.shared {
		grown = &shape{schema: s.copied(int(v.fields))}
		grown.bytes = shapeBytes + grown.schema.bytes()
	}
	grown.bytes += grown.learn(bson.TypeEmbeddedDocument, elements)
	if !s.shared || grown.bytes > sharedBytes {
		return grown
	}
	grown = t.share(grown)
	if !v.nested {
		s.next = grown
	}
	return grown
}

// share returns the known shape that equals s, or makes s the known one.
func (t *shapes) share(s *shape) *shape {
	t.key = s.appendKey(t.key[:0])
	if known, ok := t.known[string(t.key)]; ok {
		return known
	}
	if used := t.total - t.unused; t.unused > used+minSwept {
		t.sweep()
	}
	s.shared = true
	s.bytes += classBytes(len(t.key)) + knownSlot*2
	t.known[string(t.key)] = s
	t.total += s.bytes
	t.unused += s.bytes
	return s
}

// hold notes that a bucket has a shape from now on.
func (t *shapes) hold(s *shape) {
	if !s.shared || s == t.empty {
		return
	}
	if s.users == 0 {
		t.unused -= s.bytes
	}
	s.users++
}

// release notes that a bucket no longer has a shape.
func (t *shapes) release(s *shape) {
	if !s.shared || s == t.empty {
		return
	}
	s.users--
	if s.users == 0 {
		t.unused += s.bytes
	}
}

// A sweep walks all known shapes, so it must be worth its while. When shapes are made, it must free more than half of them, and
// more than minSwept bytes. When memory is short, it must free more than one part in freedPart.
const (
	minSwept  = 1 << 20
	freedPart = 8
)

// garbage is the number of bytes that a sweep would free. Zero also means that they are not worth one.
func (t *shapes) garbage() int64 {
	if t.unused <= t.total/freedPart {
		return 0
	}
	return t.unused
}

// sweep drops the shapes without a bucket.
func (t *shapes) sweep() {
	t.empty.next = nil
	before := len(t.known)
	for key, s := range t.known {
		s.next = nil
		if s.users == 0 {
			delete(t.known, key)
		}
	}
	if len(t.known) < before/2 {
		t.known = maps.Collect(maps.All(t.known)) // a map never gives memory back by itself
	}
	t.total -= t.unused
	t.unused = 0
}
