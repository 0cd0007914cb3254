package bucketer

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

const (
	// maxOrder is how many bytes of a series' place are compared. Series that agree in them lie together.
	maxOrder = 128
	// segmentsOfFlush is about the number of segments of a flush. But segments have at least leastRows and at most
	// Options.SegmentRows measurements. A query of one series reads one segment of each flush, and each segment costs the database
	// much besides its measurements.
	segmentsOfFlush = 75
	leastRows       = 32
	// idleFlushes is the number of flushes after which an unused border is forgotten.
	idleFlushes = 32
)

// Classes of values in the order of series. Their order is MongoDB's order of types.
const (
	orderAbsent = iota
	orderNumber
	orderText
	orderOther
)

// appendOrder appends the place of a series in the order of series. It appends the values at the paths of Options.SegmentOrder,
// and then all values of the meta. The bytes compare as MongoDB compares numbers and strings.
func (c *Catalog) appendOrder(dst []byte, key string) []byte {
	start := len(dst)
	if key != "" {
		c.key = append(c.key[:0], key...)
		meta := value{bson.Type(c.key[0]), c.key[1:]}
		for _, path := range c.options.SegmentOrder {
			dst = appendOrdered(dst, valueAt(meta, path))
		}
		dst = appendOrdered(dst, meta)
	}
	return dst[:min(len(dst), start+maxOrder)]
}

// hasArray reports whether a meta is an array, or whether a path of Options.SegmentOrder leads to or through an array in it. A
// segment could hold such a meta. But a shard key takes no array, so the collection could not be sharded, or the segment could
// not be compacted. Nor can MongoDB index the bounds of values at a path if both are arrays.
func (c *Catalog) hasArray(key string) bool {
	if key == "" {
		return false
	}
	if bson.Type(key[0]) == bson.TypeArray || len(c.options.SegmentOrder) == 0 {
		return bson.Type(key[0]) == bson.TypeArray
	}
	c.key = append(c.key[:0], key...)
	return slices.ContainsFunc(c.options.SegmentOrder, func(path string) bool {
		for v := (value{bson.Type(c.key[0]), c.key[1:]}); ; {
			if v.kind == bson.TypeArray || path == "" {
				return v.kind == bson.TypeArray
			}
			var name string
			name, path, _ = strings.Cut(path, ".")
			v = valueAt(v, name)
		}
	})
}

// valueAt returns the value at a dotted path of a value. An empty path is the value itself. Kind 0 means that there is no
// value.
func valueAt(v value, path string) value {
	for path != "" && v.kind == bson.TypeEmbeddedDocument {
		var name string
		name, path, _ = strings.Cut(path, ".")
		found := value{}
		for e := range rawbson.All(rawbson.Content(v.data)) {
			if string(e.Name) == name {
				found = value{e.Kind, e.Value}
				break
			}
		}
		v = found
	}
	if path != "" {
		return value{}
	}
	return v
}

// appendOrdered appends a value so that the bytes compare as values do. Of objects and arrays it appends the members.
func appendOrdered(dst []byte, v value) []byte {
	switch {
	case v.kind == 0:
		return append(dst, orderAbsent)
	case rawbson.IsNested(v.kind):
		for e := range rawbson.All(rawbson.Content(v.data)) {
			dst = appendOrdered(dst, value{e.Kind, e.Value})
		}
		return dst
	case v.kind == bson.TypeString:
		return append(append(append(dst, orderText), rawbson.Text(v.data)...), 0)
	case v.kind == bson.TypeDateTime:
		return binary.BigEndian.AppendUint64(append(dst, orderOther, byte(v.kind)), uint64(v.raw().DateTime())^1<<63)
	}
	if n, ok := v.raw().AsFloat64OK(); ok {
		bits := math.Float64bits(n)
		if bits>>63 != 0 {
			bits = ^bits
		} else {
			bits |= 1 << 63
		}
		return binary.BigEndian.AppendUint64(append(dst, orderNumber), bits)
	}
	return append(append(dst, orderOther, byte(v.kind)), v.data...)
}

// border is a place where one segment may end and the next may begin. It lies before the first series at or behind this place.
type border struct {
	at   string
	used bool // by the flush being cut
	idle int  // consecutive flushes that did not use it
}

// borders are the places at which a partition's flushes are divided into segments. They stay from flush to flush while the
// parts between them have about the right size. So the segments of consecutive flushes cover the same series. Then a query of
// one series reads few of them, and few have to be compacted together.
type borders struct {
	all   []border
	added []border // by the flush being cut
	usual int32    // recent number of measurements in a flush
}

// most returns the largest number of measurements in a segment of the next flush, which has total measurements. It follows
// larger flushes at once, because otherwise they would add too many borders. It follows smaller flushes slowly.
func (b *borders) most(total, limit int32) int32 {
	b.usual = max(total, b.usual+(total-b.usual)/8)
	return min(limit, max(leastRows, b.usual/segmentsOfFlush))
}

// divide divides staged series, which are sorted, into parts with no more measurements than most, and returns the parts' ends.
// Neighbours with at most half of that together stay in one part.
func (b *borders) divide(list []sparse, most int32) (ends []int) {
	rows, next := int32(0), 0
	for at, end := 0, 0; at < len(list); at = end {
		for next < len(b.all) && b.all[next].at <= string(list[at].order) {
			next++
		}
		n := int32(0) // measurements up to the next border
		for ; end < len(list) && (next == len(b.all) || string(list[end].order) < b.all[next].at); end++ {
			n += list[end].rows.n
		}
		if rows > 0 && rows+n > most/2 {
			ends = append(ends, at)
			b.all[next-1].used, rows = true, 0
		}
		if rows += n; rows > most {
			ends, rows = b.split(list[:end], at, rows, most, ends)
		}
	}
	return append(ends, len(list))
}

// split divides the series of a list, from a place on, into parts of about the same size. That size is at most three fourths of
// most. It notes new borders between them. The last part may go on, so it returns the number of its measurements.
func (b *borders) split(list []sparse, from int, rows, most int32, ends []int) (_ []int, last int32) {
	target := max(1, most*3/4)
	target = (rows + (rows-1)/target) / ((rows-1)/target + 1)
	for i := from; i < len(list); i++ {
		n := list[i].rows.n
		if last > 0 && (last >= target || last+n > most) {
			ends, last = append(ends, i), 0
			b.added = append(b.added, border{at: string(list[i].order)})
		}
		last += n
	}
	return ends, last
}

// flushed adds the borders that a flush has made, and forgets borders that no flush has used for a while.
func (b *borders) flushed() {
	for i := range b.all {
		one := &b.all[i]
		if one.idle++; one.used {
			one.idle, one.used = 0, false
		}
	}
	b.all = slices.DeleteFunc(append(b.all, b.added...), func(one border) bool { return one.idle > idleFlushes })
	slices.SortFunc(b.all, func(x, y border) int { return cmp.Compare(x.at, y.at) })
	b.all = slices.CompactFunc(b.all, func(x, y border) bool { return x.at == y.at })
	clear(b.added)
	b.added = b.added[:0]
}
