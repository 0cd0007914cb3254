package bucketer

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// side selects the kept extreme. It is the sign of the comparison of a newcomer with the kept value if the newcomer is to
// replace it.
type side int

const (
	lower side = -1
	upper side = +1
)

// maxMerged is how many bytes of merged values share one scratch buffer.
const maxMerged = 256 << 10

// value is a BSON value that points into other memory.
type value struct {
	kind bson.Type
	data []byte
}

// equals reports whether two values have the same type and bytes. Values that compare as equal may differ in these.
func (v value) equals(w value) bool { return v.kind == w.kind && bytes.Equal(v.data, w.data) }

func (v value) raw() bson.RawValue { return bson.RawValue{Type: v.kind, Value: v.data} }

// extremes are the minimum and the maximum of one field.
type extremes struct {
	lower, upper value
	// knownLower and knownUpper are the extremes that the bucket has, in place. Kind 0 means a new field.
	knownLower, knownUpper value
	lowered, raised        bool // lower or upper may differ from the known one
}

// include widens the extremes by a value. It builds merged values at the end of scratch, and returns the grown scratch.
func (x *extremes) include(v value, scratch []byte) []byte {
	if x.lower.kind == 0 {
		x.lower, x.upper, x.lowered, x.raised = v, v, true, true
		return scratch
	}
	if !rawbson.IsNested(v.kind) && x.lower.kind == v.kind && x.upper.kind == v.kind {
		if compareSame(v, x.lower) < 0 {
			x.lower, x.lowered = v, true
		} else if compareSame(v, x.upper) > 0 {
			x.upper, x.raised = v, true
		}
		return scratch
	}
	x.lower, scratch = lower.merge(x.lower, v, scratch)
	x.upper, scratch = upper.merge(x.upper, v, scratch)
	x.lowered, x.raised = true, true
	return scratch
}

// compareSame compares two values of the same plain type. Doubles need no call.
func compareSame(v, w value) int {
	if v.kind == bson.TypeDouble {
		a := math.Float64frombits(binary.LittleEndian.Uint64(v.data))
		b := math.Float64frombits(binary.LittleEndian.Uint64(w.data))
		switch {
		case a < b:
			return -1
		case a > b:
			return 1
		case a == b:
			return 0
		}
		// NaN is below all.
	}
	return timeseries.Compare(v.raw(), w.raw())
}

// merge returns the extreme of a kept value and a newcomer. Objects are merged field by field, and arrays position by position.
// Any other newcomer must be strictly beyond the kept value. If neither value is the extreme as a whole, merge builds the
// result at the end of scratch.
func (d side) merge(kept, v value, scratch []byte) (value, []byte) {
	if kept.kind != v.kind || !rawbson.IsNested(v.kind) {
		if d.isBeyond(v, kept) {
			return v, scratch
		}
		return kept, scratch
	}
	if len(scratch) > maxMerged {
		scratch = nil // most of these values were merged again since
	}
	start := len(scratch)
	scratch, improved := d.build(scratch, kept, v)
	if !improved {
		return kept, scratch[:start]
	}
	return value{kind: v.kind, data: scratch[start:len(scratch):len(scratch)]}, scratch
}

// isBeyond reports whether a newcomer replaces a kept value.
func (d side) isBeyond(v, kept value) bool {
	if v.kind == kept.kind {
		return int(d)*compareSame(v, kept) > 0
	}
	return int(d)*timeseries.Compare(v.raw(), kept.raw()) > 0
}

// build appends the merge of two values of the same nested kind: the members of the kept one, then the new members. It reports
// afterwards whether that improved the kept value. To find that out first would take another walk at each depth.
func (d side) build(dst []byte, kept, v value) (_ []byte, improved bool) {
	start, dst := bsoncore.AppendDocumentStart(dst)
	newcomers := finder{kind: v.kind, rest: rawbson.Content(v.data)}
	for rest := rawbson.Content(kept.data); len(rest) > 0; {
		if newcomers.isEmpty() {
			dst = append(dst, rest...)
			break
		}
		old, after, _ := rawbson.Read(rest)
		whole := rest[:len(rest)-len(after)]
		rest = after
		e, ok := newcomers.next(old.Name)
		was, now := value{old.Kind, old.Value}, value{e.Kind, e.Value}
		switch {
		case !ok:
			dst = append(dst, whole...)
		case was.kind == now.kind && rawbson.IsNested(now.kind):
			var within bool
			dst = append(append(append(dst, byte(now.kind)), old.Name...), 0)
			dst, within = d.build(dst, was, now)
			improved = improved || within
		case d.isBeyond(now, was):
			dst = rawbson.AppendElement(dst, now.kind, old.Name, now.data)
			improved = true
		default:
			dst = append(dst, whole...)
		}
	}
	improved = improved || !newcomers.isEmpty()
	dst, _ = bsoncore.AppendDocumentEnd(newcomers.appendRest(dst), start)
	return dst, improved
}

// Memory of bounds of at most maxPooledBounds bytes is used again. At most about maxIdleBounds bytes wait for that.
const (
	maxPooledBounds = 1 << 10
	maxIdleBounds   = 4 << 20
)

// boundsPool hands out the memory of buckets' bounds and takes it back, in the heap's own size classes. A bucket's bounds are
// mostly made once for one measurement, made again for several, and freed with the bucket.
type boundsPool struct {
	free [boundsClasses][][]byte
	idle int64 // bytes in free, including the lists
}

const (
	boundsClasses = 8 + 3*8 // to 128 bytes in steps of 16, then 8 steps to each next power of two
	idleBytes     = 24      // per entry in free
)

// boundsClass is the index in free of memory with a size that classBytes returns.
func boundsClass(size int) int {
	if size <= 128 {
		return max(0, size/16-1)
	}
	power := bits.Len(uint(size-1)) - 1 // size is above 1<<power
	return 8*(power-6) + (size-1<<power)>>(power-3) - 1
}

// take hands out empty memory for n bytes.
func (p *boundsPool) take(n int) []byte {
	size := int(classBytes(n))
	if size > maxPooledBounds {
		return make([]byte, 0, n)
	}
	list := &p.free[boundsClass(size)]
	last := len(*list) - 1
	if last < 0 {
		return make([]byte, 0, size)
	}
	b := (*list)[last]
	(*list)[last] = nil
	*list = (*list)[:last]
	p.idle -= int64(size) + idleBytes
	return b
}

// release takes back memory that take has handed out. Its content must not be used any more.
func (p *boundsPool) release(b []byte) {
	size := cap(b)
	if size == 0 || size > maxPooledBounds || p.idle > maxIdleBounds {
		return
	}
	list := &p.free[boundsClass(size)]
	*list = append(*list, b[:0])
	p.idle += int64(size) + idleBytes
}

// trim leaves all unused memory to the garbage collector.
func (p *boundsPool) trim() { *p = boundsPool{} }
