package measurement

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protowire"

	"waterwheel/internal/timeseries/rawbson"
)

// maxEmptyItems bounds the items of arrays in an event that take no bytes. Without it a few bytes could announce any number of
// items.
const maxEmptyItems = 65_536

// avroReader reads Avro by the schema that wrote it, and appends BSON.
type avroReader struct {
	schemaReader
	at         int
	emptyItems int // how many items without bytes may still come
	clock      *timeParser
	keys       [][]byte // the names of the open maps, to find duplicates
}

func newAvroReader(o *Options) avroReader { return avroReader{schemaReader: newSchemaReader(o)} }

// begin begins a record's value. clock reads times without a zone. Nil means that they count as UTC.
func (r *avroReader) begin(text []byte, clock *timeParser) {
	r.schemaReader.begin(text)
	r.at, r.emptyItems, r.clock = 0, maxEmptyItems, clock
	clear(r.keys) // after an error they are left, and point into the record
	r.keys = r.keys[:0]
}

// event appends the value as a document. Null is a tombstone, and appends nothing.
func (r *avroReader) event(root *avroType) (isNull bool, err *DecodeError) {
	kind, err := r.value(root, 1)
	if err != nil {
		return false, err
	}
	if left := len(r.text) - r.at; left > 0 {
		return false, newError(NotAvro, "", "%d of the value's %d bytes remain after the event that the schema describes: was the value written with another schema?", left, len(r.text))
	}
	return kind == bson.TypeNull, nil
}

// value appends the next value and returns its BSON type. An object or array has the given depth.
func (r *avroReader) value(t *avroType, depth int) (bson.Type, *DecodeError) {
	switch t.kind {
	case avroNull:
	case avroInt, avroDays:
		value, ok := r.int()
		if !ok {
			return 0, r.wrong("an integer of 32 bits")
		}
		if t.kind == avroInt {
			r.out = binary.LittleEndian.AppendUint32(r.out, uint32(value))
		} else {
			r.out = binary.LittleEndian.AppendUint64(r.out, uint64(int64(value)*dayMillis))
		}
	case avroLong, avroMillis, avroMicros, avroNanos, avroLocalMillis, avroLocalMicros, avroLocalNanos:
		value, ok := r.long()
		if !ok {
			return 0, r.wrong("an integer of 64 bits")
		}
		value = t.date(value)
		if r.clock != nil && t.isLocal() {
			value = r.clock.local(value)
		}
		r.out = binary.LittleEndian.AppendUint64(r.out, uint64(value))
	case avroFloat:
		if len(r.text)-r.at < 4 {
			return 0, r.wrong("a number of 4 bytes")
		}
		single := math.Float32frombits(binary.LittleEndian.Uint32(r.text[r.at:]))
		r.out = appendDouble(r.out, float64(single))
		r.at += 4
	case avroDouble:
		if len(r.text)-r.at < 8 {
			return 0, r.wrong("a number of 8 bytes")
		}
		r.out = append(r.out, r.text[r.at:r.at+8]...)
		r.at += 8
	case avroBoolean:
		if r.at == len(r.text) || r.text[r.at] > 1 {
			return 0, r.wrong("a boolean")
		}
		r.out = append(r.out, r.text[r.at])
		r.at++
	case avroString:
		return bson.TypeString, r.string()
	case avroUnion:
		branch, ok := r.long()
		if !ok || branch < 0 || branch >= int64(len(t.branches)) {
			return 0, r.wrong("the branch of a union of " + strconv.Itoa(len(t.branches)) + " types")
		}
		return r.value(t.branches[branch], depth)
	default:
		return r.large(t, depth)
	}
	return avroTypes[t.kind], nil
}

// large appends a value of the less frequent kinds, or of a kind that holds other values.
func (r *avroReader) large(t *avroType, depth int) (bson.Type, *DecodeError) {
	switch t.kind {
	case avroRecord:
		return bson.TypeEmbeddedDocument, r.record(t, depth)
	case avroArray:
		return bson.TypeArray, r.array(t, depth)
	case avroMap:
		return bson.TypeEmbeddedDocument, r.object(t, depth)
	case avroEnum:
		symbol, ok := r.int()
		if !ok || symbol < 0 || int(symbol) >= len(t.symbols) {
			return 0, r.wrong("a symbol of the enum " + t.name)
		}
		r.out = append(r.out, t.symbols[symbol]...)
		return bson.TypeString, nil
	}
	value, ok := r.bytes(t)
	switch {
	case !ok:
		return 0, r.wrong("a byte string")
	case t.kind == avroDecimal || t.kind == avroFixedDecimal:
		out, kind, err := r.decimals.append(r.out, value, t.scale)
		r.out = out
		return kind, err
	}
	subtype := bson.TypeBinaryGeneric
	if t.kind == avroUUID {
		subtype = bson.TypeBinaryUUID
	}
	r.out = appendBinary(r.out, subtype, value)
	return bson.TypeBinary, nil
}

// date returns an integer as it is. It converts a time of a logical type to milliseconds, rounded down.
func (t *avroType) date(value int64) int64 {
	switch t.kind {
	case avroMicros, avroLocalMicros:
		value, _ = microseconds.millis(value)
	case avroNanos, avroLocalNanos:
		value, _ = nanoseconds.millis(value)
	}
	return value
}

// isLocal reports whether the values are times without a zone.
func (t *avroType) isLocal() bool {
	return t.kind == avroLocalMillis || t.kind == avroLocalMicros || t.kind == avroLocalNanos
}

// withoutZone returns a type for times without a zone that reads them as UTC, which is faster. Other types are returned as they are.
func (t *avroType) withoutZone() *avroType {
	kinds := map[avroKind]avroKind{avroLocalMillis: avroMillis, avroLocalMicros: avroMicros, avroLocalNanos: avroNanos}
	if kind, ok := kinds[t.kind]; ok {
		utc := *t
		utc.kind = kind
		return &utc
	}
	return t
}

// dayMillis is the number of milliseconds in a day.
const dayMillis = 24 * 60 * 60 * 1000

// long reads a zigzag integer of 64 bits, with seven bits per byte and at most ten bytes.
func (r *avroReader) long() (int64, bool) {
	if r.at < len(r.text) && r.text[r.at] < 0x80 {
		bits := uint64(r.text[r.at])
		r.at++
		return protowire.DecodeZigZag(bits), true
	}
	value, n := binary.Varint(r.text[r.at:])
	if n <= 0 {
		return 0, false
	}
	r.at += n
	return value, true
}

// int reads a zigzag integer of 32 bits, with at most five bytes.
func (r *avroReader) int() (int32, bool) {
	bits, n := binary.Uvarint(r.text[r.at:])
	if n <= 0 || n > binary.MaxVarintLen32 || bits > math.MaxUint32 {
		return 0, false
	}
	r.at += n
	return int32(protowire.DecodeZigZag(bits)), true
}

// bytes reads the bytes of a value of a bytes or fixed kind, without copying them.
func (r *avroReader) bytes(t *avroType) ([]byte, bool) {
	size := int64(t.size)
	if t.kind == avroBytes || t.kind == avroDecimal {
		var ok bool
		if size, ok = r.long(); !ok {
			return nil, false
		}
	}
	return r.cut(size)
}

// cut reads size bytes without copying them. False means that fewer bytes are left.
func (r *avroReader) cut(size int64) ([]byte, bool) {
	if size < 0 || size > int64(len(r.text)-r.at) {
		return nil, false
	}
	start := r.at
	r.at += int(size)
	return r.text[start:r.at:r.at], true
}

// string appends a text.
func (r *avroReader) string() *DecodeError {
	size, ok := r.long()
	text, there := r.cut(size)
	switch {
	case !ok || !there:
		return r.wrong("a string")
	case !utf8.Valid(text):
		return badText("", text)
	}
	r.out = rawbson.AppendString(r.out, text)
	return nil
}

// record appends a record as an object.
func (r *avroReader) record(t *avroType, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	start := len(r.out)
	r.out = append(r.out, 0, 0, 0, 0)
	for i := range t.fields {
		f := &t.fields[i]
		at := len(r.out)
		r.out = append(r.out, f.header...)
		kind, err := r.value(f.avroType, depth+1)
		if err != nil {
			return err.within(string(f.name()))
		}
		if r.out[at] = byte(kind); kind == bson.TypeNull && r.dropNulls {
			r.out = r.out[:at]
		}
	}
	r.out = rawbson.EndDocument(r.out, start)
	return r.grown()
}

// array appends an array.
func (r *avroReader) array(t *avroType, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	start := len(r.out)
	r.out = append(r.out, 0, 0, 0, 0)
	for i := 0; ; {
		n, err := r.block(t.items.isEmpty)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		for range n {
			at := len(r.out)
			r.out = rawbson.AppendIndexHeader(r.out, 0, i)
			kind, err := r.value(t.items, depth+1)
			if err == nil {
				err = r.grown()
			}
			if err != nil {
				return err.within(strconv.Itoa(i))
			}
			r.out[at] = byte(kind)
			i++
		}
	}
	r.out = rawbson.EndDocument(r.out, start)
	return nil
}

// object appends a map.
func (r *avroReader) object(t *avroType, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	start, first := len(r.out), len(r.keys)
	r.out = append(r.out, 0, 0, 0, 0)
	for {
		n, err := r.block(false)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		for range n {
			key, err := r.key()
			if err != nil {
				return err
			}
			r.keys = append(r.keys, key)
			at := len(r.out)
			r.out = rawbson.AppendHeader(r.out, 0, key)
			kind, err := r.value(t.items, depth+1)
			if err == nil {
				err = r.grown()
			}
			if err != nil {
				return err.within(string(key))
			}
			if r.out[at] = byte(kind); kind == bson.TypeNull && r.dropNulls {
				r.out = r.out[:at]
			}
		}
	}
	if !r.isOdd {
		_, r.isOdd = findDuplicate(r.keys[first:])
	}
	r.keys = r.keys[:first]
	r.out = rawbson.EndDocument(r.out, start)
	return nil
}

// key reads a name in a map.
func (r *avroReader) key() ([]byte, *DecodeError) {
	size, ok := r.long()
	key, there := r.cut(size)
	if !ok || !there {
		return nil, r.wrong("a key of a map")
	}
	return key, r.noteName(key)
}

// block reads how many items the next block of an array or map has. Zero means that there is no further block.
func (r *avroReader) block(isEmpty bool) (int64, *DecodeError) {
	n, ok := r.long()
	if !ok || n == math.MinInt64 {
		return 0, r.wrong("the number of items in an array or map")
	}
	// A negative count is followed by the block's size in bytes, which lets a reader skip the block.
	if n < 0 {
		if size, ok := r.long(); !ok || size < 0 || size > int64(len(r.text)-r.at) {
			return 0, r.wrong("the size of a block in an array or map")
		}
		n = -n
	}
	if !isEmpty {
		if left := len(r.text) - r.at; n > int64(left) {
			return 0, newError(NotAvro, "", "an array or map announces %d items, but only %d bytes remain: was the value written with another schema?", n, left)
		}
		return n, nil
	}
	if n > int64(r.emptyItems) {
		return 0, newError(TooLarge, "", "arrays of the event have more than %d items that take no bytes: leave them out", maxEmptyItems)
	}
	r.emptyItems -= int(n)
	return n, nil
}

// wrong is the error of a value that does not match the schema. what names the expected value.
func (r *avroReader) wrong(what string) *DecodeError {
	return newError(NotAvro, "", "%s is expected at byte %d of %d, but other bytes were found: is the value truncated, or was it written with another schema?",
		what, r.at, len(r.text))
}
