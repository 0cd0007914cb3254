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

// The functions of this file append a value of a type that Extended JSON writes in strings. They return false if the strings are
// malformed. The appended bytes are then invalid.

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
	text := rawbson.Text(e.Value)
	switch string(e.Name) {
	case "$numberInt":
		n, ok := parseWrittenInteger(text)
		return bson.TypeInt32, binary.LittleEndian.AppendUint32(dst, uint32(n)), ok && n == int64(int32(n))
	case "$numberLong":
		n, ok := parseWrittenInteger(text)
		return bson.TypeInt64, binary.LittleEndian.AppendUint64(dst, uint64(n)), ok
	case "$numberDouble":
		bits, ok := parseWrittenDouble(text)
		return bson.TypeDouble, binary.LittleEndian.AppendUint64(dst, bits), ok
	}
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

func appendObjectID(dst []byte, e rawbson.Element) (bson.Type, []byte, bool) {
	var id bson.ObjectID
	if e.Kind != bson.TypeString || len(rawbson.Text(e.Value)) != hex.EncodedLen(len(id)) {
		return 0, dst, false
	}
	_, err := hex.Decode(id[:], rawbson.Text(e.Value))
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
	dst = append(dst, byte(len(uuid)), 0, 0, 0, binaryUUID)
	return bson.TypeBinary, append(dst, uuid...), err == nil && len(uuid) == 16
}

// appendBinary reads base64 and the subtype in hexadecimal.
func appendBinary(dst []byte, content, subtype rawbson.Element) (bson.Type, []byte, bool) {
	if content.Kind != bson.TypeString || subtype.Kind != bson.TypeString {
		return 0, dst, false
	}
	kind, err := strconv.ParseUint(string(rawbson.Text(subtype.Value)), 16, 8)
	if err != nil {
		return 0, dst, false
	}
	text := rawbson.Text(content.Value)
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	if kind == binaryOld {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n+4))
		dst = append(dst, binaryOld)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	} else {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
		dst = append(dst, byte(kind))
	}
	return bson.TypeBinary, append(dst, data[:n]...), err == nil
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
