package measurement

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// unwrap appends the value for which an object stands in Extended JSON, relaxed or canonical, and returns its kind. Kind 0 means
// that it stands for none. The object's content was unwrapped before. The error has no path.
func unwrap(dst, document []byte) (bson.Type, []byte, *DecodeError) {
	a, b, ok := oneOrTwo(document)
	if !ok {
		return 0, dst, nil
	}
	kind, out, ok := unwrapFields(dst, a, b)
	if !ok {
		return 0, dst, newError(wrapperReason(a.Name), "", "%s is not valid Extended JSON for %s: send it as the "+
			"specification requires, or set EVENT_FORMAT=json and send a plain value", quoteValue(bson.TypeEmbeddedDocument, document), a.Name)
	}
	return kind, out, nil
}

// isExtendedName reports whether a name stands for a type in Extended JSON, and hardly for anything else.
func isExtendedName(name []byte) bool {
	switch string(name) {
	case "$date", "$oid", "$uuid", "$binary", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal":
		return true
	}
	return false
}

// wrapperReason is the reason for a malformed value of this name.
func wrapperReason(name []byte) Reason {
	switch string(name) {
	case "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal":
		return BadNumber
	case "$date":
		return BadTime
	}
	return NotJSON
}

// oneOrTwo returns the fields of an object with one or two fields, sorted by name. The second is zero if there is only one. False
// means that the object has another number of fields.
func oneOrTwo(document []byte) (a, b rawbson.Element, ok bool) {
	list := rawbson.Content(document)
	if len(list) == 0 {
		return a, b, false
	}
	if list = a.Cut(list); len(list) == 0 {
		return a, b, true
	}
	if list = b.Cut(list); string(b.Name) < string(a.Name) {
		a, b = b, a
	}
	return a, b, len(list) == 0
}

// unwrapFields is unwrap for an object with the field a and perhaps b. It returns false if they are malformed.
func unwrapFields(dst []byte, a, b rawbson.Element) (kind bson.Type, out []byte, ok bool) {
	if b.Kind != 0 {
		switch [2]string{string(a.Name), string(b.Name)} {
		case [2]string{"$code", "$scope"}:
			return appendCodeWithScope(dst, a, b)
		case [2]string{"$binary", "$type"}: // Extended JSON 1
			return appendBinary(dst, a, b)
		}
		return 0, dst, true
	}
	switch string(a.Name) {
	case "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal":
		return appendWrittenNumber(dst, a)
	case "$date":
		return appendDate(dst, a)
	case "$oid":
		return appendObjectID(dst, a)
	case "$uuid":
		return appendUUID(dst, a)
	case "$symbol":
		return bson.TypeSymbol, append(dst, a.Value...), a.Kind == bson.TypeString
	case "$code":
		return bson.TypeJavaScript, append(dst, a.Value...), a.Kind == bson.TypeString
	case "$binary":
		return appendPair(dst, a, [2]string{"base64", "subType"}, appendBinary)
	case "$regularExpression":
		return appendPair(dst, a, [2]string{"options", "pattern"}, appendRegex)
	case "$timestamp":
		return appendPair(dst, a, [2]string{"i", "t"}, appendTimestamp)
	case "$dbPointer":
		return appendPair(dst, a, [2]string{"$id", "$ref"}, appendDBPointer)
	case "$minKey":
		return bson.TypeMinKey, dst, isOne(a)
	case "$maxKey":
		return bson.TypeMaxKey, dst, isOne(a)
	case "$undefined":
		return bson.TypeUndefined, dst, a.Kind == bson.TypeBoolean && a.Value[0] == 1
	}
	return 0, dst, true
}

func isOne(e rawbson.Element) bool {
	return e.Kind == bson.TypeInt32 && integerOf(e.Kind, e.Value) == 1
}

// appendPair appends a value of the object that e holds. The object has two fields with the given names, in this order, and make
// makes the value of them.
func appendPair(dst []byte, e rawbson.Element, names [2]string, make func(dst []byte, a, b rawbson.Element) (bson.Type, []byte, bool)) (bson.Type, []byte, bool) {
	if e.Kind != bson.TypeEmbeddedDocument {
		return 0, dst, false
	}
	a, b, ok := oneOrTwo(e.Value)
	if !ok || string(a.Name) != names[0] || string(b.Name) != names[1] {
		return 0, dst, false
	}
	return make(dst, a, b)
}

// appendDate reads {$date: "2024-01-01T00:00:00Z"} and milliseconds: {$date: {$numberLong: "0"}}, {$date: 0}.
func appendDate(dst []byte, e rawbson.Element) (bson.Type, []byte, bool) {
	millis, ok := int64(0), false
	switch e.Kind {
	case bson.TypeString:
		millis, ok = parseRFC3339(rawbson.Text(e.Value))
	case bson.TypeInt32, bson.TypeInt64:
		millis, ok = integerOf(e.Kind, e.Value), true
	case bson.TypeEmbeddedDocument: // in plain JSON no object was unwrapped before
		kind, value, err := unwrap(nil, e.Value)
		if ok = err == nil && kind == bson.TypeInt64; ok {
			millis = integerOf(kind, value)
		}
	}
	return bson.TypeDateTime, binary.LittleEndian.AppendUint64(dst, uint64(millis)), ok
}
