package measurement

import (
	"encoding/binary"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protowire"

	"waterwheel/internal/timeseries/rawbson"
)

// protoReader reads Protobuf by a compiled message, and appends BSON. Fields come in any order and more than once. It therefore
// scans a message first to find the values of each member, and then writes the members in the order of the schema.
type protoReader struct {
	schemaReader
	slots   []protoSlot  // slots of the members of the open messages
	spans   []protoSpan  // the linked values of the open messages
	entries []protoEntry // entries of the open maps
	byKey   []protoEntry // a buffer to sort a map's entries by name
	digits  []byte       // names in maps that are written from numbers
	sorted  bool         // members are written in the order of their names, for meta
}

// protoSlot holds what a scan has found of a member.
type protoSlot struct {
	value       uint64 // value of a scalar, or place of a text or bytes, as in protoSpan
	first, last int32  // indexes plus one of the first and the last linked value in spans
	isSet       bool
}

// protoSpan is a value of a list, or a piece of a message. The value of bytes is their place, with the start in the upper half
// and the end in the lower half.
type protoSpan struct {
	value    uint64
	next     int32 // index plus one of the next linked value
	isPacked bool  // the place holds many values
}

func spanOf(start, end int) uint64 { return uint64(start)<<32 | uint64(end) }

// at returns the bytes of a place.
func (r *protoReader) at(place uint64) []byte {
	start, end := place>>32, uint64(uint32(place))
	return r.text[start:end:end]
}

func newProtoReader(o *Options) protoReader { return protoReader{schemaReader: newSchemaReader(o)} }

// begin begins a record's value.
func (r *protoReader) begin(text []byte) {
	r.schemaReader.begin(text)
	r.slots, r.entries, r.digits = r.slots[:0], r.entries[:0], r.digits[:0]
	r.spans = append(r.spans[:0], protoSpan{value: spanOf(0, len(text))})
	r.sorted = false
}

// event appends the value as a document.
func (r *protoReader) event(root *protoMember) *DecodeError {
	_, err := r.value(root, protoSlot{first: 1}, 1)
	return err
}

// reads reports whether a value is an event.
func (r *protoReader) reads(root *protoMember, text []byte) bool {
	r.begin(text)
	return r.event(root) == nil
}

// bufferBytes estimates the size of the buffers that a large record enlarges.
func (r *protoReader) bufferBytes() int {
	const slotBytes, spanBytes, entryBytes = 24, 16, 40
	return cap(r.out) + cap(r.digits) + slotBytes*cap(r.slots) + spanBytes*cap(r.spans) + entryBytes*(cap(r.entries)+cap(r.byKey))
}

// damaged is the error of a message that is cut or is not a message. left is the number of bytes that are left.
func damaged(left int) *DecodeError {
	return newError(NotProtobuf, "", "the Protobuf message cannot be decoded: its last %d bytes are damaged or incomplete. Check that the producer writes this message type, and that no other bytes precede the message", left)
}

// open scans a message, which may come in pieces, and returns the index of its first slot. first is the index plus one of the
// first piece.
func (r *protoReader) open(t *protoMessage, first int32, depth int) (base int, err *DecodeError) {
	base = len(r.slots)
	r.slots = append(r.slots, make([]protoSlot, len(t.members))...)
	for i := first; i != 0; {
		piece := r.spans[i-1]
		if err := r.scan(t, base, int(piece.value>>32), int(uint32(piece.value)), depth); err != nil {
			return base, err
		}
		i = piece.next
	}
	return base, nil
}

// scan finds the values of members in a piece of a message.
func (r *protoReader) scan(t *protoMessage, base, at, end int, depth int) *DecodeError {
	text := r.text[:end]
	slots := r.slots[base : base+len(t.members)]
	next := 0 // index of the expected member: producers usually write the fields in the order of the schema
	for at < len(text) {
		if next < len(t.tags) && text[at] == t.tags[next] {
			value, end := shortScalar(text, at)
			if end > 0 {
				slots[next].value, slots[next].isSet = value, true
				at, next = end, next+1
				continue
			}
		}
		start := at
		tag := uint64(text[at])
		if at++; tag >= 0x80 {
			var n int
			if tag, n = binary.Uvarint(text[start:]); n <= 0 {
				return damaged(end - start)
			}
			at = start + n
		}
		number, wire := tag>>3, protowire.Type(tag&7)
		if number == 0 || number > uint64(protowire.MaxValidNumber) {
			return damaged(end - start)
		}
		index := t.member(number)
		if index < 0 {
			n := protowire.ConsumeFieldValue(protowire.Number(number), wire, text[at:])
			if n < 0 {
				return damaged(end - start)
			}
			at += n
			continue
		}
		var value uint64
		n := 1
		switch wire {
		case protowire.VarintType:
			if at < len(text) && text[at] < 0x80 {
				value = uint64(text[at])
			} else {
				value, n = binary.Uvarint(text[at:])
			}
		case protowire.Fixed64Type:
			if n = 8; len(text)-at >= 8 {
				value = binary.LittleEndian.Uint64(text[at:])
			}
		case protowire.Fixed32Type:
			if n = 4; len(text)-at >= 4 {
				value = uint64(binary.LittleEndian.Uint32(text[at:]))
			}
		case protowire.BytesType:
			var size uint64
			if at < len(text) && text[at] < 0x80 {
				size = uint64(text[at])
			} else {
				size, n = binary.Uvarint(text[at:])
			}
			if n <= 0 || at+n > len(text) || size > uint64(len(text)-at-n) {
				return damaged(end - start)
			}
			value = spanOf(at+n, at+n+int(size))
			n += int(size)
		case protowire.StartGroupType:
			var group []byte
			group, n = protowire.ConsumeGroup(protowire.Number(number), text[at:])
			value = spanOf(at, at+len(group))
		default:
			n = -1
		}
		if n <= 0 || at+n > len(text) {
			return damaged(end - start)
		}
		at += n
		next = index + 1
		m, s := &t.members[index], &slots[index]
		isPacked := false
		if wire != m.wire {
			if isPacked = m.isPackable && wire == protowire.BytesType; !isPacked {
				continue // the field counts as unknown
			}
		}
		if m.siblings != nil {
			if err := r.replace(t, m, base, depth); err != nil {
				return err
			}
			slots = r.slots[base : base+len(t.members)]
			s = &slots[index]
		}
		if s.isSet = true; !m.isLinked {
			s.value = value
			continue
		}
		r.spans = append(r.spans, protoSpan{value: value, isPacked: isPacked})
		if n := int32(len(r.spans)); s.first == 0 {
			s.first, s.last = n, n
		} else {
			r.spans[s.last-1].next, s.last = n, n
		}
	}
	return nil
}

// shortScalar reads the scalar whose tag of one byte stands at a place, and returns where it ends. Zero means that the scalar is
// incomplete, or that its varint takes more than two bytes.
func shortScalar(text []byte, at int) (value uint64, end int) {
	rest := text[at+1:]
	switch protowire.Type(text[at] & 7) {
	case protowire.Fixed64Type:
		if len(rest) >= 8 {
			return binary.LittleEndian.Uint64(rest), at + 9
		}
	case protowire.VarintType:
		if len(rest) > 0 && rest[0] < 0x80 {
			return uint64(rest[0]), at + 2
		}
		if len(rest) > 1 && rest[1] < 0x80 {
			return uint64(rest[0]&0x7f) | uint64(rest[1])<<7, at + 3
		}
	case protowire.BytesType:
		if len(rest) > 0 && rest[0] < 0x80 && len(rest) > int(rest[0]) {
			end = at + 2 + int(rest[0])
			return spanOf(at+2, end), end
		}
	}
	return 0, 0
}

// replace drops the other members of a oneof. It first checks that their values are valid.
func (r *protoReader) replace(t *protoMessage, m *protoMember, base, depth int) *DecodeError {
	for _, i := range m.siblings {
		s := r.slots[base+i]
		if !s.isSet {
			continue
		}
		start := len(r.out)
		if _, err := r.value(&t.members[i], s, depth+1); err != nil {
			return err.within(string(t.members[i].name()))
		}
		r.out = r.out[:start]
		r.slots[base+i] = protoSlot{}
	}
	return nil
}

// object appends a message as an object.
func (r *protoReader) object(t *protoMessage, first int32, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	spans := len(r.spans)
	base, err := r.open(t, first, depth)
	if err != nil {
		return err
	}
	start := len(r.out)
	r.out = append(r.out, 0, 0, 0, 0)
	for i := range t.members {
		if r.sorted {
			i = t.sorted[i]
		}
		if err := r.member(&t.members[i], base+i, depth); err != nil {
			return err
		}
	}
	r.out = rawbson.EndDocument(r.out, start)
	r.slots, r.spans = r.slots[:base], r.spans[:spans]
	return r.grown()
}

// member appends a member of an object from its slot. depth is the object's depth.
func (r *protoReader) member(m *protoMember, slot, depth int) *DecodeError {
	s := r.slots[slot]
	if !s.isSet && m.hasPresence {
		return nil
	}
	if m.isNumber {
		kind, bits, size := m.kind.number(s.value)
		r.out = appendBits(r.out, m.header, kind, bits, size)
		return nil
	}
	if m.kind == protoString && !m.isLinked {
		text := r.at(s.value)
		if !isShortASCII(text) && !utf8.Valid(text) {
			return badText(string(m.name()), text)
		}
		r.out = appendText(r.out, m.header, text)
		return nil
	}
	start := len(r.out)
	r.out = append(r.out, m.header...)
	kind, err := r.content(m, s, depth+1)
	if err != nil {
		return err.within(string(m.name()))
	}
	if r.out[start] = byte(kind); kind == bson.TypeNull && r.dropNulls {
		r.out = r.out[:start]
	}
	return nil
}

// content appends all values of a member, and returns their BSON type. An object or array has the given depth.
func (r *protoReader) content(m *protoMember, s protoSlot, depth int) (bson.Type, *DecodeError) {
	switch {
	case m.isMap:
		return bson.TypeEmbeddedDocument, r.entriesOf(m.message, s.first, depth)
	case m.isList:
		return bson.TypeArray, r.list(m, s.first, depth)
	}
	return r.value(m, s, depth)
}

// only appends the value of the only field that is set. The value is null if no field is set and all fields have a presence.
func (r *protoReader) only(t *protoMessage, first int32, depth int) (kind bson.Type, err *DecodeError) {
	spans := len(r.spans)
	base, err := r.open(t, first, depth)
	if err != nil {
		return 0, err
	}
	kind = bson.TypeNull
	for i := range t.members {
		if s, m := r.slots[base+i], &t.members[i]; s.isSet || !m.hasPresence {
			kind, err = r.content(m, s, depth)
			break
		}
	}
	r.slots, r.spans = r.slots[:base], r.spans[:spans]
	return kind, err
}
