package measurement

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protowire"

	"waterwheel/internal/timeseries/rawbson"
)

// value appends a single value, and returns its BSON type. An object or array has the given depth.
func (r *protoReader) value(m *protoMember, s protoSlot, depth int) (bson.Type, *DecodeError) {
	switch m.kind {
	case protoEnum:
		if symbol := m.enum.of(int32(s.value)); symbol != nil {
			r.out = append(r.out, symbol...)
			return bson.TypeString, nil
		}
		r.out = binary.LittleEndian.AppendUint32(r.out, uint32(s.value))
		return bson.TypeInt32, nil
	case protoNull:
		return bson.TypeNull, nil
	case protoString:
		text := r.at(s.value)
		if !isShortASCII(text) && !utf8.Valid(text) {
			return 0, badText("", text)
		}
		r.out = rawbson.AppendString(r.out, text)
		return bson.TypeString, nil
	case protoBytes:
		r.out = appendBinary(r.out, bson.TypeBinaryGeneric, r.at(s.value))
		return bson.TypeBinary, nil
	case protoObject:
		return bson.TypeEmbeddedDocument, r.object(m.message, s.first, depth)
	case protoOnly:
		return r.only(m.message, s.first, depth)
	case protoTimestamp:
		millis, err := r.timestamp(m.message, s.first, depth)
		r.out = binary.LittleEndian.AppendUint64(r.out, uint64(millis))
		return bson.TypeDateTime, err
	case protoDuration:
		seconds, nanos, err := r.time(m.message, s.first, depth)
		r.out = appendDouble(r.out, float64(seconds)+float64(nanos)/1e9)
		return bson.TypeDouble, err
	case protoDecimal:
		return r.decimal(m.message, s.first, depth)
	}
	kind, bits, size := m.kind.number(s.value)
	r.out = binary.LittleEndian.AppendUint64(r.out, bits)
	r.out = r.out[:len(r.out)-8+size]
	return kind, nil
}

// number returns the BSON type, the bits, and the size in bytes of a number.
func (k protoKind) number(value uint64) (kind bson.Type, bits uint64, size int) {
	switch k {
	case protoInt32:
		return bson.TypeInt32, value, 4
	case protoSint32:
		return bson.TypeInt32, uint64(protowire.DecodeZigZag(value & math.MaxUint32)), 4
	case protoSint64:
		return bson.TypeInt64, uint64(protowire.DecodeZigZag(value)), 8
	case protoUint32:
		return bson.TypeInt64, value & math.MaxUint32, 8
	case protoUint64:
		if value > math.MaxInt64 {
			return bson.TypeDouble, math.Float64bits(float64(value)), 8
		}
	case protoFloat:
		return bson.TypeDouble, math.Float64bits(float64(math.Float32frombits(uint32(value)))), 8
	case protoDouble:
		return bson.TypeDouble, value, 8
	case protoBool:
		if value != 0 {
			return bson.TypeBoolean, 1, 1
		}
		return bson.TypeBoolean, 0, 1
	}
	return bson.TypeInt64, value, 8
}

// time reads a message of seconds and nanoseconds.
func (r *protoReader) time(t *protoMessage, first int32, depth int) (seconds int64, nanos int32, err *DecodeError) {
	if first != 0 && r.spans[first-1].next == 0 {
		if seconds, nanos, ok := usualTime(r.at(r.spans[first-1].value)); ok {
			return seconds, nanos, nil
		}
	}
	spans := len(r.spans)
	base, err := r.open(t, first, depth)
	if err != nil {
		return 0, 0, err
	}
	seconds, nanos = int64(r.slots[base].value), int32(r.slots[base+1].value)
	r.slots, r.spans = r.slots[:base], r.spans[:spans]
	return seconds, nanos, nil
}

// usualTime reads seconds and nanoseconds that stand in this order, each at most once.
func usualTime(text []byte) (seconds int64, nanos int32, ok bool) {
	const first, second = 1 << 3, 2 << 3 // tags of varints
	if len(text) == 0 || text[0] != first {
		return 0, 0, false
	}
	whole, n := binary.Uvarint(text[1:])
	if n <= 0 {
		return 0, 0, false
	}
	if text = text[1+n:]; len(text) == 0 {
		return int64(whole), 0, true
	}
	below, n := binary.Uvarint(text[1:])
	return int64(whole), int32(below), text[0] == second && n > 0 && 1+n == len(text)
}

// firstTimestamp and lastTimestamp bound a Timestamp in seconds since 1970. They cover the years 1 to 9999.
const (
	firstTimestamp = -62_135_596_800
	lastTimestamp  = 253_402_300_799
)

// timestamp reads a Timestamp in milliseconds, rounded down.
func (r *protoReader) timestamp(t *protoMessage, first int32, depth int) (millis int64, err *DecodeError) {
	seconds, nanos, err := r.time(t, first, depth)
	if err != nil {
		return 0, err
	}
	if seconds < firstTimestamp || seconds > lastTimestamp || nanos < 0 || nanos >= 1e9 {
		return 0, newError(BadTime, "", "%d seconds and %d nanoseconds are not a valid Timestamp: it must be in the years 1 to 9999 and have less than a second of nanoseconds", seconds, nanos)
	}
	return seconds*1000 + int64(nanos)/1e6, nil
}

// decimal appends the value of a message with a number and its scale.
func (r *protoReader) decimal(t *protoMessage, first int32, depth int) (kind bson.Type, err *DecodeError) {
	spans := len(r.spans)
	base, err := r.open(t, first, depth)
	if err != nil {
		return 0, err
	}
	number, scale := r.at(r.slots[base+decimalNumber].value), int32(r.slots[base+decimalScale].value)
	r.slots, r.spans = r.slots[:base], r.spans[:spans]
	r.out, kind, err = r.decimals.append(r.out, number, int(scale))
	return kind, err
}

// list appends a list as an array. Its numbers may stand alone or packed.
func (r *protoReader) list(m *protoMember, first int32, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	start, i := len(r.out), 0
	r.out = append(r.out, 0, 0, 0, 0)
	for next := first; next != 0; {
		span := r.spans[next-1]
		next = span.next
		if span.isPacked {
			if err := r.packed(m, span.value, &i, depth); err != nil {
				return err
			}
			continue
		}
		s := protoSlot{value: span.value}
		if m.kind.isMessage() {
			s.first = r.alone(span.value)
		}
		if err := r.item(m, s, &i, depth); err != nil {
			return err
		}
	}
	r.out = rawbson.EndDocument(r.out, start)
	return nil
}

// alone adds a span of a whole message, and returns its index plus one.
func (r *protoReader) alone(place uint64) int32 {
	r.spans = append(r.spans, protoSpan{value: place})
	return int32(len(r.spans))
}

// item appends the next item of an array.
func (r *protoReader) item(m *protoMember, s protoSlot, i *int, depth int) *DecodeError {
	at, spans := len(r.out), len(r.spans)
	r.out = rawbson.AppendIndexHeader(r.out, 0, *i)
	kind, err := r.value(m, s, depth+1)
	if err == nil {
		err = r.grown()
	}
	if err != nil {
		return err.within(strconv.Itoa(*i))
	}
	r.out[at] = byte(kind)
	if *i++; m.kind.isMessage() {
		r.spans = r.spans[:spans-1] // the message alone
	}
	return nil
}

// packed appends the numbers of a packed list.
func (r *protoReader) packed(m *protoMember, place uint64, i *int, depth int) *DecodeError {
	for text := r.at(place); len(text) > 0; {
		var value uint64
		var n int
		switch m.wire {
		case protowire.Fixed64Type:
			value, n = protowire.ConsumeFixed64(text)
		case protowire.Fixed32Type:
			var short uint32
			short, n = protowire.ConsumeFixed32(text)
			value = uint64(short)
		default:
			value, n = binary.Uvarint(text)
		}
		if n <= 0 {
			return damaged(len(text)).within(strconv.Itoa(*i))
		}
		text = text[n:]
		if err := r.item(m, protoSlot{value: value}, i, depth); err != nil {
			return err
		}
	}
	return nil
}

// protoEntry is an entry of a map, with its name, the start of its element in out, and its place in the map.
type protoEntry struct {
	key          []byte
	start, index int
}

// entriesOf appends a map as an object. If several entries have one name, the last counts.
func (r *protoReader) entriesOf(t *protoMessage, first int32, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	start, opened := len(r.out), len(r.entries)
	r.out = append(r.out, 0, 0, 0, 0)
	for next := first; next != 0; {
		span := r.spans[next-1]
		next = span.next
		if err := r.entry(t, span.value, depth); err != nil {
			return err
		}
		if err := r.grown(); err != nil {
			return err
		}
	}
	if len(r.entries)-opened > 1 {
		r.leaveLast(opened)
	}
	r.entries = r.entries[:opened]
	r.out = rawbson.EndDocument(r.out, start)
	return nil
}

// entry appends an entry of a map.
func (r *protoReader) entry(t *protoMessage, place uint64, depth int) *DecodeError {
	spans := len(r.spans)
	base, err := r.open(t, r.alone(place), depth)
	if err != nil {
		return err
	}
	key, err := r.key(&t.members[0], r.slots[base].value)
	if err != nil {
		return err
	}
	r.entries = append(r.entries, protoEntry{key, len(r.out), len(r.entries)})
	at := len(r.out)
	r.out = rawbson.AppendHeader(r.out, 0, key)
	kind, err := r.value(&t.members[1], r.slots[base+1], depth+1)
	if err != nil {
		return err.within(string(key))
	}
	if r.out[at] = byte(kind); kind == bson.TypeNull && r.dropNulls {
		r.out = r.out[:at]
	}
	r.slots, r.spans = r.slots[:base], r.spans[:spans]
	return nil
}

// key returns the name of an entry.
func (r *protoReader) key(m *protoMember, value uint64) ([]byte, *DecodeError) {
	if m.kind != protoString {
		at := len(r.digits)
		switch kind, bits, _ := m.kind.number(value); kind {
		case bson.TypeBoolean:
			r.digits = strconv.AppendBool(r.digits, bits != 0)
		case bson.TypeInt32:
			r.digits = strconv.AppendInt(r.digits, int64(int32(bits)), 10)
		case bson.TypeDouble:
			r.digits = strconv.AppendUint(r.digits, value, 10)
		default:
			r.digits = strconv.AppendInt(r.digits, int64(bits), 10)
		}
		return r.digits[at:len(r.digits):len(r.digits)], nil
	}
	key := r.at(value)
	return key, r.noteName(key)
}

// leaveLast removes entries whose name comes again in a later entry. The map's entries begin at the index opened.
func (r *protoReader) leaveLast(opened int) {
	r.byKey = append(r.byKey[:0], r.entries[opened:]...)
	slices.SortFunc(r.byKey, func(a, b protoEntry) int {
		return cmp.Or(bytes.Compare(a.key, b.key), a.index-b.index)
	})
	again := false
	for i, e := range r.byKey[1:] {
		if before := r.byKey[i]; bytes.Equal(before.key, e.key) {
			r.entries[before.index].key, again = nil, true
		}
	}
	if !again {
		return
	}
	out := r.entries[opened].start
	for i, e := range r.entries[opened:] {
		end := len(r.out)
		if next := opened + i + 1; next < len(r.entries) {
			end = r.entries[next].start
		}
		if e.key != nil {
			out += copy(r.out[out:], r.out[e.start:end])
		}
	}
	r.out = r.out[:out]
}
