package measurement

import "go.mongodb.org/mongo-driver/v2/bson"

// The quick reader reads numbers, dates and object ids in Extended JSON. Other values that are written as objects are rare.

// longestWritten bounds the text of a number that is written as a string. The slower reader reads some longer numbers.
const longestWritten = 64

// wraps reports whether the object at i stands, or may stand, for a value in Extended JSON.
func (q *quick) wraps(i int) bool {
	if !q.extended {
		return false
	}
	i = skipSpace(q.text, i+1)
	return i+1 < len(q.text) && q.text[i] == '"' && q.text[i+1] == '$'
}

// appendWrapped appends the value for which the object at i stands. depth is the object's depth.
func (q *quick) appendWrapped(out []byte, i, depth int) ([]byte, bson.Type, int) {
	value, kind, end := q.wrappedNumber(i, depth)
	if end < 0 {
		return q.appendWrappedText(out, i, depth)
	}
	return appendScanned(out, kind, value), kind, end
}

// wrappedNumber reads an int32, an int64, the bits of a double, or the milliseconds of a date.
func (q *quick) wrappedNumber(i, depth int) (value uint64, kind bson.Type, end int) {
	name, i := q.wrapper(i, depth)
	if i < 0 {
		return 0, 0, unknown
	}
	if string(name) == "$date" {
		millis, end := q.wrappedDate(i, depth)
		return uint64(millis), bson.TypeDateTime, q.endWrapper(end)
	}
	text, end := q.wrappedText(i)
	if end < 0 || len(text) > longestWritten {
		return 0, 0, unknown
	}
	kind, value, ok := parseWrittenNumber(name, text)
	if !ok {
		return 0, 0, unknown
	}
	return value, kind, q.endWrapper(end)
}

// appendWrappedText appends an object id or a decimal.
func (q *quick) appendWrappedText(out []byte, i, depth int) ([]byte, bson.Type, int) {
	name, i := q.wrapper(i, depth)
	if i < 0 {
		return out, 0, unknown
	}
	text, end := q.wrappedText(i)
	if end < 0 {
		return out, 0, unknown
	}
	var kind bson.Type
	ok := false
	switch {
	case string(name) == "$oid":
		kind, out, ok = appendObjectID(out, text)
	case string(name) == "$numberDecimal" && len(text) <= longestWritten:
		kind, out, ok = appendWrittenDecimal(out, text)
	}
	if !ok {
		return out, 0, unknown
	}
	return out, kind, q.endWrapper(end)
}

// wrapper reads the brace and the name at the start of the object at i, up to the value.
func (q *quick) wrapper(i, depth int) (name []byte, next int) {
	if !q.wraps(i) || depth > maxDepth {
		return nil, unknown
	}
	return q.name(skipSpace(q.text, i+1))
}

// endWrapper reads the brace behind the only member of an object.
func (q *quick) endWrapper(i int) int {
	if i < 0 {
		return unknown
	}
	if i = skipSpace(q.text, i); i == len(q.text) || q.text[i] != '}' {
		return unknown
	}
	return i + 1
}

// wrappedText reads a string without escapes.
func (q *quick) wrappedText(i int) (text []byte, end int) {
	if q.text[i] != '"' {
		return nil, unknown
	}
	end, how := scanString(q.text, i+1)
	if end < 0 || how != plain {
		return nil, unknown
	}
	return q.text[i+1 : end], end + 1
}

// wrappedDate reads the value of $date, which is a text or milliseconds.
func (q *quick) wrappedDate(i, depth int) (millis int64, end int) {
	var value uint64
	var kind bson.Type
	switch c := q.text[i]; {
	case c == '"':
		text, end := q.wrappedText(i)
		if end < 0 {
			return 0, unknown
		}
		millis, ok := parseRFC3339(text)
		if !ok {
			return 0, unknown
		}
		return millis, end
	case c == '{':
		value, kind, end = q.wrappedNumber(i, depth+1)
	case c-'0' <= 9 || c == '-':
		value, kind, end = scanNumber(q.text, i)
	default:
		return 0, unknown
	}
	switch {
	case end < 0:
		return 0, unknown
	case kind == bson.TypeInt32:
		return int64(int32(value)), end
	case kind == bson.TypeInt64:
		return int64(value), end
	}
	return 0, unknown
}

// readWrappedTime reads the time of the event.
func (q *quick) readWrappedTime(i, depth int) int {
	value, kind, end := q.wrappedNumber(i, depth)
	switch {
	case end < 0:
		return unknown
	case kind == bson.TypeDateTime:
		q.when, q.hasTime, q.time.below = readingOf(int64(value)), true, 0
	default:
		q.when, q.hasTime = q.time.parseScalar(kind, value)
	}
	return end
}
