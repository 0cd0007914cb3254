package measurement

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strconv"

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
			return appendWrittenBinary(dst, a, b)
		}
		return 0, dst, true
	}
	switch string(a.Name) {
	case "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal":
		return appendWrittenNumber(dst, a)
	case "$date":
		return appendDate(dst, a)
	case "$oid":
		if a.Kind != bson.TypeString {
			return 0, dst, false
		}
		return appendObjectID(dst, rawbson.Text(a.Value))
	case "$uuid":
		return appendUUID(dst, a)
	case "$symbol":
		return bson.TypeSymbol, append(dst, a.Value...), a.Kind == bson.TypeString
	case "$code":
		return bson.TypeJavaScript, append(dst, a.Value...), a.Kind == bson.TypeString
	case "$binary":
		return appendPair(dst, a, [2]string{"base64", "subType"}, appendWrittenBinary)
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

// The functions below append a value of a type that Extended JSON writes in strings. They return false if the strings are malformed.
// The appended bytes are then invalid.

const (
	binaryOld  = 0x02 // repeats its length in the value
	binaryUUID = 0x04
)

// canonicalNaN is the NaN that BSON's specification shows.
const canonicalNaN = 0x7FF8 << 48

func appendWrittenNumber(dst []byte, e rawbson.Element) (bson.Type, []byte, bool) {
	// A longer text is no number of these types.
	const longest = 256
	if e.Kind != bson.TypeString || len(e.Value) > longest {
		return 0, dst, false
	}
	if string(e.Name) == "$numberDecimal" {
		return appendWrittenDecimal(dst, rawbson.Text(e.Value))
	}
	kind, bits, ok := parseWrittenNumber(e.Name, rawbson.Text(e.Value))
	return kind, appendScanned(dst, kind, bits), ok
}

// parseWrittenNumber returns the type and the bits of a number that is no decimal. name names its type.
func parseWrittenNumber(name, text []byte) (kind bson.Type, bits uint64, ok bool) {
	switch string(name) {
	case "$numberInt":
		n, ok := parseWrittenInteger(text)
		return bson.TypeInt32, uint64(n), ok && n == int64(int32(n))
	case "$numberLong":
		n, ok := parseWrittenInteger(text)
		return bson.TypeInt64, uint64(n), ok
	case "$numberDouble":
		bits, ok = parseWrittenDouble(text)
		return bson.TypeDouble, bits, ok
	}
	return 0, 0, false
}

func appendWrittenDecimal(dst, text []byte) (bson.Type, []byte, bool) {
	d, err := bson.ParseDecimal128(string(text))
	high, low := d.GetBytes()
	dst = binary.LittleEndian.AppendUint64(dst, low)
	return bson.TypeDecimal128, binary.LittleEndian.AppendUint64(dst, high), err == nil
}

// parseWrittenInteger also reads integers that JSON does not allow and strconv does: +1, 007 and -0.
func parseWrittenInteger(text []byte) (int64, bool) {
	if n, ok := parseDecimal(text).integer(); ok {
		return n, true
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// parseWrittenDouble returns the bits of a double.
func parseWrittenDouble(text []byte) (bits uint64, ok bool) {
	switch string(text) {
	case "NaN":
		return canonicalNaN, true
	case "Infinity":
		return math.Float64bits(math.Inf(1)), true
	case "-Infinity":
		return math.Float64bits(math.Inf(-1)), true
	}
	if f, ok := parseDecimal(text).float(); ok {
		return math.Float64bits(f), true
	}
	for _, c := range text { // strconv also reads "0x1p4", "1_0" and "inf"
		if bytes.IndexByte([]byte("0123456789+-.eE"), c) < 0 {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return math.Float64bits(f), err == nil
}

func appendObjectID(dst, text []byte) (bson.Type, []byte, bool) {
	var id bson.ObjectID
	if len(text) != hex.EncodedLen(len(id)) {
		return 0, dst, false
	}
	_, err := hex.Decode(id[:], text)
	return bson.TypeObjectID, append(dst, id[:]...), err == nil
}

// appendUUID reads 00000000-0000-0000-0000-000000000000.
func appendUUID(dst []byte, e rawbson.Element) (bson.Type, []byte, bool) {
	if e.Kind != bson.TypeString {
		return 0, dst, false
	}
	text := rawbson.Text(e.Value)
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return 0, dst, false
	}
	uuid, err := hex.DecodeString(string(bytes.ReplaceAll(text, []byte("-"), nil)))
	return bson.TypeBinary, appendBinary(dst, binaryUUID, uuid), err == nil && len(uuid) == 16
}

// appendWrittenBinary reads base64 and the subtype in hexadecimal.
func appendWrittenBinary(dst []byte, content, subtype rawbson.Element) (bson.Type, []byte, bool) {
	if content.Kind != bson.TypeString || subtype.Kind != bson.TypeString {
		return 0, dst, false
	}
	kind, err := strconv.ParseUint(string(rawbson.Text(subtype.Value)), 16, 8)
	if err != nil {
		return 0, dst, false
	}
	text := rawbson.Text(content.Value)
	data, err := base64.StdEncoding.AppendDecode(nil, text)
	if kind == binaryOld {
		data = append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data...)
	}
	return bson.TypeBinary, appendBinary(dst, byte(kind), data), err == nil
}

// appendRegex sorts the options, as BSON requires.
func appendRegex(dst []byte, options, pattern rawbson.Element) (bson.Type, []byte, bool) {
	if pattern.Kind != bson.TypeString || options.Kind != bson.TypeString {
		return 0, dst, false
	}
	text, letters := rawbson.Text(pattern.Value), rawbson.Text(options.Value)
	if bytes.IndexByte(text, 0) >= 0 || bytes.IndexByte(letters, 0) >= 0 {
		return 0, dst, false
	}
	dst = append(append(dst, text...), 0)
	start := len(dst)
	dst = append(dst, letters...)
	slices.Sort(dst[start:])
	return bson.TypeRegex, append(dst, 0), isASCII(letters)
}

func isASCII(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return c >= 0x80 })
}

func appendTimestamp(dst []byte, increment, seconds rawbson.Element) (bson.Type, []byte, bool) {
	for _, e := range [...]rawbson.Element{increment, seconds} {
		if e.Kind != bson.TypeInt32 && e.Kind != bson.TypeInt64 {
			return 0, dst, false
		}
		n := integerOf(e.Kind, e.Value)
		if n < 0 || n > math.MaxUint32 {
			return 0, dst, false
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	return bson.TypeTimestamp, dst, true
}

func appendDBPointer(dst []byte, id, namespace rawbson.Element) (bson.Type, []byte, bool) {
	if id.Kind != bson.TypeObjectID || namespace.Kind != bson.TypeString {
		return 0, dst, false
	}
	return bson.TypeDBPointer, append(append(dst, namespace.Value...), id.Value...), true
}

func appendCodeWithScope(dst []byte, code, scope rawbson.Element) (bson.Type, []byte, bool) {
	if code.Kind != bson.TypeString || scope.Kind != bson.TypeEmbeddedDocument {
		return 0, dst, false
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(4+len(code.Value)+len(scope.Value)))
	return bson.TypeCodeWithScope, append(append(dst, code.Value...), scope.Value...), true
}
