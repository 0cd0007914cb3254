package measurement

import (
	"encoding/binary"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protowire"

	"waterwheel/internal/timeseries/rawbson"
)

// otlpEvent writes the event of a data point.
type otlpEvent struct {
	out     []byte
	dotted  bool   // a name has a dot
	isEmpty bool   // the point has no recorded value
	isOdd   bool   // the attributes of the point are not in the normal form of meta
	last    []byte // the name of the previous attribute

	nester *nester // nests dotted names of attributes. Nil means that names stay as they are.
}

// text appends an element that is a text. It leaves out an empty text.
func (e *otlpEvent) text(name string, text []byte) *DecodeError {
	if len(text) == 0 {
		return nil
	}
	if !utf8.Valid(text) {
		return badText(name, text)
	}
	e.out = rawbson.AppendString(rawbson.AppendHeader(e.out, bson.TypeString, name), text)
	return nil
}

// word appends an element with a word that the reader chooses.
func (e *otlpEvent) word(name, text string) {
	e.out = rawbson.AppendString(rawbson.AppendHeader(e.out, bson.TypeString, name), text)
}

func (e *otlpEvent) flag(name string, value bool) {
	e.out = append(rawbson.AppendHeader(e.out, bson.TypeBoolean, name), 0)
	if value {
		e.out[len(e.out)-1] = 1
	}
}

// double appends an element with a double, given as its bits.
func (e *otlpEvent) double(name string, value uint64) {
	e.out = binary.LittleEndian.AppendUint64(rawbson.AppendHeader(e.out, bson.TypeDouble, name), value)
}

// integer appends an element that is an integer, with the BSON type that the integer has in JSON.
func (e *otlpEvent) integer(name string, value int64) {
	kind, out := appendInteger(rawbson.AppendHeader(e.out, 0, name), value)
	out[len(e.out)] = byte(kind)
	e.out = out
}

// count appends an element that is a count.
func (e *otlpEvent) count(name string, value uint64) {
	kind, out := appendUnsigned(rawbson.AppendHeader(e.out, 0, name), value)
	out[len(e.out)] = byte(kind)
	e.out = out
}

// open begins an object or array, and returns the index of its start.
func (e *otlpEvent) open(kind bson.Type, name string) (start int) {
	e.out = rawbson.AppendHeader(e.out, kind, name)
	e.out = append(e.out, 0, 0, 0, 0)
	return len(e.out) - 4
}

func (e *otlpEvent) end(start int) { e.out = rawbson.EndDocument(e.out, start) }

// endOrDrop ends an object, or removes it with its header if it is empty.
func (e *otlpEvent) endOrDrop(start int, name string) {
	if e.end(start); len(e.out)-start == rawbson.Empty {
		e.out = e.out[:start-len(name)-2]
	}
}

// resource appends the attributes of a resource.
func (e *otlpEvent) resource(message []byte) *DecodeError {
	const attributes = 1
	start := e.open(bson.TypeEmbeddedDocument, "resource")
	if err := e.attributesOf(message, attributes); err != nil {
		return err.within("resource")
	}
	e.endOrDrop(start, "resource")
	return nil
}

// scope appends the name, the version and the attributes of an instrumentation scope.
func (e *otlpEvent) scope(message []byte) *DecodeError {
	const name, version, attributes = 1, 2, 3
	start := e.open(bson.TypeEmbeddedDocument, "scope")
	texts := [...][]byte{name: nil, version: nil}
	err := eachField(message, func(f protoField) *DecodeError {
		if f.kind == protowire.BytesType && f.number < attributes {
			texts[f.number] = f.bytes
		}
		return nil
	})
	if err == nil {
		err = e.text("name", texts[name])
	}
	if err == nil {
		err = e.text("version", texts[version])
	}
	inside := e.open(bson.TypeEmbeddedDocument, "attributes")
	if err == nil {
		err = e.attributesOf(message, attributes)
	}
	if err != nil {
		return err.within("scope")
	}
	e.endOrDrop(inside, "attributes")
	e.endOrDrop(start, "scope")
	return nil
}

// attributesOf appends the attributes that are in a field of a message.
func (e *otlpEvent) attributesOf(message []byte, number protowire.Number) *DecodeError {
	return eachField(message, func(f protoField) *DecodeError {
		if !f.is(number, protowire.BytesType) {
			return nil
		}
		return e.attribute(f.bytes, 2)
	})
}

// attribute appends an element with the key and the value of an attribute, in an object of this depth.
func (e *otlpEvent) attribute(message []byte, depth int) *DecodeError {
	const keyField, valueField = 1, 2
	key, value, isShort := shortPair(message)
	if !isShort {
		var f protoField
		for rest := message; len(rest) > 0; {
			size := f.cut(rest)
			if size == 0 {
				return newError(NotOTLP, "", "an attribute is damaged or truncated")
			}
			switch {
			case f.is(keyField, protowire.BytesType):
				key = f.bytes
			case f.is(valueField, protowire.BytesType):
				value = f.bytes
			}
			rest = rest[size:]
		}
	}
	if err := e.name(key); err != nil {
		return err
	}
	if depth == 2 {
		e.isOdd = e.isOdd || e.dotted || !isOrdinary(key, e.last)
		e.last = key
	}
	start := len(e.out)
	e.out = rawbson.AppendHeader(e.out, bson.TypeNull, key)
	kind, err := e.anyValue(value, depth)
	if err != nil {
		return err.within(string(key))
	}
	e.out[start] = byte(kind)
	return nil
}

// shortPair returns the key and the value of an attribute that has just these fields, each shorter than 128 bytes. Almost all
// attributes are so.
func shortPair(message []byte) (key, value []byte, ok bool) {
	const keyTag, valueTag = 1<<3 | byte(protowire.BytesType), 2<<3 | byte(protowire.BytesType)
	if len(message) < 2 || message[0] != keyTag || message[1] >= 0x80 {
		return nil, nil, false
	}
	at := 2 + int(message[1])
	if len(message) < at+2 || message[at] != valueTag || message[at+1] >= 0x80 || len(message) != at+2+int(message[at+1]) {
		return nil, nil, false
	}
	return message[2:at:at], message[at+2:], true
}

// name checks the name of an attribute, and notes a dot in it.
func (e *otlpEvent) name(key []byte) *DecodeError {
	isASCII := true
	for _, c := range key {
		switch {
		case c == 0:
			return newError(BadFieldName, "", "the name %s contains a zero byte, which BSON does not allow in names: rename the attribute", quoteText(key))
		case c == '.':
			e.dotted = true
		case c >= utf8.RuneSelf:
			isASCII = false
		}
	}
	if !isASCII && !utf8.Valid(key) {
		return badText(string(key), key)
	}
	return nil
}

// anyValue appends the value of an attribute. The value is null if the attribute has none.
func (e *otlpEvent) anyValue(message []byte, depth int) (kind bson.Type, _ *DecodeError) {
	const stringValue, boolValue, intValue, doubleValue, arrayValue, listValue, bytesValue = 1, 2, 3, 4, 5, 6, 7
	var f, last protoField
	if last.cutShort(message) == len(message) && last.number == stringValue && last.kind == protowire.BytesType {
		message = nil // the usual value, a short text
	} else {
		last = protoField{}
	}
	for rest := message; len(rest) > 0; {
		size := f.cut(rest)
		if size == 0 {
			return 0, newError(NotOTLP, "", "the value of an attribute is damaged or truncated")
		}
		if f.number >= stringValue && f.number <= bytesValue && f.kind == anyTypes[f.number] {
			last = f
		}
		rest = rest[size:]
	}
	switch last.number {
	case stringValue:
		if !utf8.Valid(last.bytes) {
			return 0, badText("", last.bytes)
		}
		e.out = rawbson.AppendString(e.out, last.bytes)
		return bson.TypeString, nil
	case boolValue:
		e.out = append(e.out, 0)
		if last.value != 0 {
			e.out[len(e.out)-1] = 1
		}
		return bson.TypeBoolean, nil
	case intValue:
		kind, e.out = appendInteger(e.out, int64(last.value))
		return kind, nil
	case doubleValue:
		e.out = binary.LittleEndian.AppendUint64(e.out, last.value)
		return bson.TypeDouble, nil
	case bytesValue:
		e.out = appendBinary(e.out, bson.TypeBinaryGeneric, last.bytes)
		return bson.TypeBinary, nil
	case arrayValue:
		e.isOdd = true
		return bson.TypeArray, e.anyValues(last.bytes, depth+1)
	case listValue:
		e.isOdd = true
		return bson.TypeEmbeddedDocument, e.anyMembers(last.bytes, depth+1)
	}
	return bson.TypeNull, nil
}

// anyTypes are the types of the fields of an attribute's value.
var anyTypes = [...]protowire.Type{
	1: protowire.BytesType, protowire.VarintType, protowire.VarintType, protowire.Fixed64Type, protowire.BytesType, protowire.BytesType, protowire.BytesType,
}

// anyValues appends an array of values.
func (e *otlpEvent) anyValues(message []byte, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	start, n := len(e.out), 0
	e.out = append(e.out, 0, 0, 0, 0)
	err := eachField(message, func(f protoField) *DecodeError {
		if !f.is(1, protowire.BytesType) {
			return nil
		}
		at := len(e.out)
		e.out = rawbson.AppendIndexHeader(e.out, bson.TypeNull, n)
		kind, err := e.anyValue(f.bytes, depth)
		e.out[at] = byte(kind)
		n++
		return err
	})
	e.end(start)
	return err
}

// anyMembers appends an object made of keys and values.
func (e *otlpEvent) anyMembers(message []byte, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	start := len(e.out)
	e.out = append(e.out, 0, 0, 0, 0)
	err := eachField(message, func(f protoField) *DecodeError {
		if !f.is(1, protowire.BytesType) {
			return nil
		}
		return e.attribute(f.bytes, depth)
	})
	e.end(start)
	return err
}
