package timeseries

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// SegmentMetaOf returns the meta of a segment, which is BinData with a word and the last bits of the _id. No series has such a
// meta (measurement.BadMeta). A sharded cluster places a document by its meta. This meta spreads segments over the shards, and
// makes the shard key of a segment follow from its _id. The subtype is the generic one, because not all servers keep others.
func SegmentMetaOf(id bson.ObjectID) bson.RawValue {
	return SegmentMeta(int(binary.BigEndian.Uint16(id[len(id)-routeBytes:])) % SegmentRoutes)
}

const (
	segmentPrefix    = "segment"
	routeBytes       = 2
	segmentMetaBytes = len(segmentPrefix) + routeBytes
	// SegmentRoutes is the number of different metas of segments.
	SegmentRoutes = 1 << 12
)

// SegmentMeta returns one of the metas of segments. route is 0 to SegmentRoutes - 1, in the order of the metas.
func SegmentMeta(route int) bson.RawValue {
	value := append([]byte{byte(segmentMetaBytes), 0, 0, 0, bson.TypeBinaryGeneric}, segmentPrefix...)
	return bson.RawValue{Type: bson.TypeBinary, Value: binary.BigEndian.AppendUint16(value, uint16(route))}
}

// IsSegmentMeta reports whether a value is the meta of a segment.
func IsSegmentMeta(v bson.RawValue) bool {
	subtype, data, ok := v.BinaryOK()
	return ok && subtype == bson.TypeBinaryGeneric && len(data) == segmentMetaBytes && bytes.HasPrefix(data, []byte(segmentPrefix))
}

// IsSegment returns the condition that a document is a segment. It uses the first field of the index of segments.
func IsSegment() bson.E { return bson.E{Key: PathOwner, Value: bson.D{{Key: "$gte", Value: ""}}} }

// BucketsShown returns the conditions that a document is a bucket of one series and is shown at a moment. A bucket that was made
// of segments is not shown before these end.
func BucketsShown(now time.Time) bson.D {
	return bson.D{
		IsAbsent(PathOwner),
		{Key: PathVisibleFrom, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gt", Value: bson.NewDateTimeFromTime(now)}}}}},
	}
}

// SegmentsShown returns the conditions that a document is a segment and is shown at a moment.
func SegmentsShown(now time.Time) bson.D {
	return bson.D{
		IsSegment(),
		{Key: PathVisibleUntil, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$lte", Value: bson.NewDateTimeFromTime(now)}}}}},
	}
}

// Sizes of the Bloom filter of a segment.
const (
	entryBits   = 4 // bits that an entry sets
	bitsAnEntry = 8 // least number of bits for each entry, except in the largest filter
)

// bloomSizes are the possible numbers of bits. They are powers of two, because an entry takes its bits from one hash.
var bloomSizes = [...]int{1 << 8, 1 << 10, 1 << 12}

// bloomField is the name of a filter of some number of bits in control.segment.
func bloomField(bits int) string { return FieldBloom + strconv.Itoa(bits) }

// Bloom collects the entries of a Bloom filter of metas. The entries of a meta are its values, each with its path, and the whole
// meta unless it has just one value. A segment has such a filter of its metas. If the filter lacks an entry of the searched meta,
// the segment has no measurement of it. If the filter has all of them, the segment may have some.
//
// Values that MongoDB considers equal have the same entry. The zero value has no entries.
type Bloom struct {
	entries []uint64 // hashes
	unknown bool     // A value was added whose entry is not known.
	buffer  []byte
}

// Add adds the entries of a value at a path within the meta. An empty path is the whole meta. Type 0 means that there is no meta,
// which has no entries. v is valid BSON.
func (b *Bloom) Add(path []string, v bson.RawValue) {
	if v.Type == 0 {
		return
	}
	b.buffer = b.buffer[:0]
	for _, name := range path {
		b.buffer = append(append(b.buffer, name...), 0)
	}
	if values := b.addValues(v); len(path) == 0 && values != 1 {
		b.addEntry(v)
	}
}

// addValues adds the values in v, and returns their number. The buffer has their path.
func (b *Bloom) addValues(v bson.RawValue) (n int) {
	if v.Type != bson.TypeEmbeddedDocument {
		b.addEntry(v)
		return 1
	}
	end := len(b.buffer)
	for e := range rawbson.All(rawbson.Content(v.Value)) {
		b.buffer = append(append(b.buffer, e.Name...), 0)
		n += b.addValues(bson.RawValue{Type: e.Kind, Value: e.Value})
		b.buffer = b.buffer[:end]
	}
	return n
}

// addEntry adds v at the path in the buffer.
func (b *Bloom) addEntry(v bson.RawValue) {
	end := len(b.buffer)
	var known bool
	if b.buffer, known = appendEqual(b.buffer, v); known {
		b.entries = append(b.entries, xxhash.Sum64(b.buffer))
	}
	b.unknown = b.unknown || !known
	b.buffer = b.buffer[:end]
}

// appendEqual appends the same bytes for values that MongoDB considers equal. False means that this is not known for v.
func appendEqual(dst []byte, v bson.RawValue) (_ []byte, known bool) {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return appendInteger(dst, readInteger(v.Value)), true
	case bson.TypeDouble:
		n := math.Float64frombits(word(v.Value))
		if n >= math.MinInt64 && n < -math.MinInt64 && n == math.Trunc(n) {
			return appendInteger(dst, int64(n)), true
		}
		bits := math.Float64bits(n)
		if math.IsNaN(n) {
			bits = equalNaN
		}
		return binary.LittleEndian.AppendUint64(append(dst, byte(v.Type)), bits), true
	case bson.TypeString, bson.TypeBoolean, bson.TypeDateTime, bson.TypeObjectID, bson.TypeNull, bson.TypeBinary, bson.TypeTimestamp:
		return append(append(dst, byte(v.Type)), v.Value...), true
	case bson.TypeEmbeddedDocument:
		dst = append(dst, byte(v.Type))
		for e := range rawbson.All(rawbson.Content(v.Value)) {
			dst = append(append(dst, e.Name...), 0)
			if dst, known = appendEqual(dst, bson.RawValue{Type: e.Kind, Value: e.Value}); !known {
				return dst, false
			}
		}
		return append(dst, 0), true
	}
	return dst, false // decimals may equal other numbers and symbols texts, and arrays match by their elements
}

// equalNaN are the bits that stand for every NaN.
const equalNaN = 0x7ff8 << 48

func appendInteger(dst []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, byte(bson.TypeInt64)), uint64(n))
}

// places calls use for each bit of the entries in a filter of some number of bits.
func (b *Bloom) places(bits int, use func(bit int)) {
	for _, entry := range b.entries {
		for range entryBits {
			use(int(entry) & (bits - 1))
			entry >>= 64 / entryBits
		}
	}
}

// Append appends the filter as a field of control.segment. It appends nothing if no filter can tell which metas it lacks.
func (b *Bloom) Append(dst []byte) []byte {
	if b.unknown {
		return dst
	}
	slices.Sort(b.entries)
	b.entries = slices.Compact(b.entries)
	bits := bloomSizes[len(bloomSizes)-1]
	for _, size := range bloomSizes {
		if len(b.entries)*bitsAnEntry <= size {
			bits = size
			break
		}
	}
	dst = rawbson.AppendHeader(dst, bson.TypeBinary, bloomField(bits))
	dst = append(binary.LittleEndian.AppendUint32(dst, uint32(bits/8)), bson.TypeBinaryGeneric)
	begin := len(dst)
	dst = append(dst, make([]byte, bits/8)...)
	b.places(bits, func(bit int) { dst[begin+bit/8] |= 1 << (bit % 8) })
	return dst
}

// Conditions returns the conditions that a segment meets if it may have measurements with all entries. There are none if an entry
// is not known. A segment without a filter meets them.
func (b *Bloom) Conditions() (all bson.D) {
	if b.unknown || len(b.entries) == 0 {
		return nil
	}
	for _, bits := range bloomSizes {
		all = append(all, bson.E{Key: Path(PathSegment, bloomField(bits)), Value: HasBits(b.bitsOf(bits))})
	}
	return all
}

// HasBits is the condition that a filter has all these bits, or that there is no filter.
func HasBits(bits []int32) bson.D {
	return bson.D{{Key: "$not", Value: bson.D{{Key: "$bitsAnyClear", Value: bits}}}}
}

// bitsOf returns the numbers of the bits of all entries in a filter of some number of bits, in order.
func (b *Bloom) bitsOf(bits int) (all []int32) {
	b.places(bits, func(bit int) { all = append(all, int32(bit)) })
	slices.Sort(all)
	return slices.Compact(all)
}

// Lacks returns the path of a filter in control.segment that may make queries skip the segment although it has the entries. Such a
// filter lacks an entry, or has another form than a filter of its name. An empty path means that there is none.
func (b *Bloom) Lacks(segment bson.Raw) (path string) {
	elements, _ := segment.Elements()
	for _, e := range elements {
		if strings.HasPrefix(e.Key(), FieldBloom) && !b.fits(e.Key(), e.Value()) {
			return Path(PathSegment, e.Key())
		}
	}
	return ""
}

// fits reports whether the value of a field is a filter with all entries.
func (b *Bloom) fits(field string, v bson.RawValue) bool {
	at := slices.IndexFunc(bloomSizes[:], func(bits int) bool { return bloomField(bits) == field })
	subtype, filter, ok := v.BinaryOK()
	if at < 0 || !ok || subtype != bson.TypeBinaryGeneric || len(filter) != bloomSizes[at]/8 {
		return false
	}
	fits := true
	b.places(bloomSizes[at], func(bit int) { fits = fits && filter[bit/8]&(1<<(bit%8)) != 0 })
	return fits
}
