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
	// maxOrder is how many bytes of a series' place among others are compared. Series that agree in them lie together.
	maxOrder = 128
	// A flush has about so many segments, as long as that makes segments of leastRows measurements at least, and of Options.SegmentRows at
	// most: a query of one series reads one segment of each flush, and each costs the database much beside its measurements.
	segmentsOfFlush = 50
	leastRows       = 50
	// idleFlushes is after how many flushes a border is forgotten that none of their segments ended at.
	idleFlushes = 32
)

// Classes of values in the order of series, as MongoDB orders types.
const (
	orderAbsent = iota
	orderNumber
	orderText
	orderOther
)

// appendOrder appends where a series lies among the others in segments: its values at the paths of Options.SegmentOrder, and then
// all values of its meta. The bytes compare as MongoDB compares numbers and strings.
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

// hasArray reports whether a meta is an array, or a path of Options.SegmentOrder leads to an array in it or through one. A segment would
// take such a meta. But a shard key takes no array, so the collection could not be sharded, or the segment not be compacted. And
// MongoDB cannot index the bounds of values at a path, since both would be arrays.
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

// valueAt is what stands at a dotted path of a value. An empty path is the value itself; kind 0 means that nothing stands there.
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

// appendOrdered appends a value so that the bytes compare as values do; of objects and arrays their members.
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

// border is where one segment may end and the next begin: before the first series that lies there or behind it.
type border struct {
	at   string
	used bool // by the flush that is being cut
	idle int  // flushes in a row that did not use it
}

// borders are the places at which a partition's flushes are divided into segments. They stay from flush to flush as long as the
// parts between them have about the right size. So the segments of one flush cover the same series as those of the next: few of them
// have to be read for a series, and few have to be compacted together.
type borders struct {
	all   []border
	added []border // by the flush that is being cut
	usual int32    // measurements of a flush, lately
}

// most is how many measurements a segment of the next flush has at most, which has so many together. It follows larger flushes at
// once, before they add borders that would be too many, and smaller ones slowly.
func (b *borders) most(total, limit int32) int32 {
	b.usual = max(total, b.usual+(total-b.usual)/8)
	return min(limit, max(leastRows, b.usual/segmentsOfFlush))
}

// divide divides staged series, which are in their order, into parts of at most so many measurements each, and returns where the
// parts end. Neighbours that have half of that together stay in one part.
func (b *borders) divide(list []staged, most int32) (ends []int) {
	rows, next := int32(0), 0
	for at, end := 0, 0; at < len(list); at = end {
		for next < len(b.all) && b.all[next].at <= string(list[at].order) {
			next++
		}
		n := int32(0) // up to the next border
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

// split divides what stands in a list from a place on into parts of about the same size, three fourths of the most or less, and
// notes new borders between them. The last part may go on: its measurements are counted.
func (b *borders) split(list []staged, from int, rows, most int32, ends []int) (_ []int, last int32) {
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

// flushed takes in the borders that a flush has added, and forgets those that none has used for a while.
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
