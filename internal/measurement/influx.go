package measurement

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// lineReader makes events of lines of InfluxDB's line protocol:
//
//	name,tag=a,tag=b field=1,field="text" 1700000000000000000
//
// An event equals the JSON that Telegraf writes for the same line: {name, tags, fields, timestamp}. Its timestamp is the line's,
// in nanoseconds, or the date of the record if the line has none. The event keeps the types of the line's fields: 1 is a double,
// 1i an integer.
type lineReader struct {
	text  []byte
	at    int    // start of the next line
	start int    // start of the line that was read last
	out   []byte // the events of the record, one after the other

	// The state of the line being read:
	i      int   // index of the next byte
	seen   uint8 // classes of the bytes of its names
	dotted bool  // a name has a dot
}

// The classes of bytes in lines.
const (
	endsName uint8 = 1 << iota // a measurement's name
	endsKey                    // the name of a tag or field, or the value of a tag
	isDot
)

var lineClasses = [256]uint8{
	0: endsName | endsKey, ' ': endsName | endsKey, '\t': endsName | endsKey, '\f': endsName | endsKey, '\n': endsName | endsKey, '\r': endsName | endsKey,
	',': endsName | endsKey, '\\': endsName | endsKey, '=': endsKey, '.': isDot,
}

// begin starts reading a text.
func (l *lineReader) begin(text []byte) { l.text, l.at, l.out = text, 0, l.out[:0] }

// more moves to the next line that is neither blank nor a comment. False means that there is none.
func (l *lineReader) more() bool {
	for l.at < len(l.text) {
		switch l.text[l.at] {
		case ' ', '\t', '\f', '\v', '\n', '\r':
			l.at++
		case '#':
			l.at = l.endOfLine(l.at)
		default:
			return true
		}
	}
	return false
}

// endOfLine returns the index behind the next line end.
func (l *lineReader) endOfLine(i int) int {
	if n := bytes.IndexByte(l.text[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(l.text)
}

// line returns the line that was read last, without its end.
func (l *lineReader) line() []byte { return bytes.TrimRight(l.text[l.start:l.at], "\r\n") }

// read reads the line to which more has moved. The event is valid until the next begin. After an error the reader continues
// behind the next line end.
func (l *lineReader) read(timestamp int64) (event []byte, err *DecodeError) {
	l.start, l.i, l.seen = l.at, l.at, 0
	start := len(l.out)
	if err = l.event(timestamp); err == nil {
		err = l.check()
	}
	if err != nil {
		l.out = l.out[:start]
		l.at = l.endOfLine(l.at)
		return nil, err
	}
	l.at, l.dotted = l.i, l.seen&isDot != 0
	return l.out[start:len(l.out):len(l.out)], nil
}

// check refuses a line with bytes that are not UTF-8.
func (l *lineReader) check() *DecodeError {
	if line := l.text[l.start:l.i]; !utf8.Valid(line) {
		return badText("", line)
	}
	return nil
}

// event appends the event of the line.
func (l *lineReader) event(timestamp int64) *DecodeError {
	start := len(l.out)
	l.out = append(l.out, 0, 0, 0, 0, byte(bson.TypeString))
	l.out = append(l.out, "name\x00\x00\x00\x00\x00"...)
	if l.string(endsName) == 0 {
		return l.wrong("a line must begin with the name of its measurement")
	}
	if err := l.tags(); err != nil {
		return err
	}
	if !l.blank() {
		return l.wrong("a space and a field must follow the name and the tags")
	}
	l.out = append(l.out, byte(bson.TypeEmbeddedDocument))
	l.out = append(l.out, "fields\x00\x00\x00\x00\x00"...)
	inside := len(l.out) - 4
	if err := l.fields(); err != nil {
		return err
	}
	l.out = rawbson.EndDocument(l.out, inside)
	kind, value, err := l.time()
	if err != nil {
		return err
	}
	switch {
	case kind == bson.TypeInt64:
		l.out = append(l.out, byte(bson.TypeInt64))
		l.out = append(l.out, "timestamp\x00"...)
		l.out = binary.LittleEndian.AppendUint64(l.out, uint64(value))
	case timestamp >= 0:
		l.out = rawbson.AppendDate(l.out, "timestamp", timestamp)
	}
	l.out = rawbson.EndDocument(l.out, start)
	return nil
}

// string appends a text up to a byte of a class, and returns the text's length. It also sets the four bytes of the length before
// the text.
func (l *lineReader) string(ends uint8) int {
	start, seen := len(l.out), l.seen
	l.name(ends)
	l.seen = seen // A dot in a value has no meaning.
	n := len(l.out) - start
	l.out = append(l.out, 0)
	binary.LittleEndian.PutUint32(l.out[start-4:], uint32(n+1))
	return n
}

// name appends a text up to a byte of a class, and removes the backslashes of escapes.
func (l *lineReader) name(ends uint8) {
	text, i := l.text, l.i
	for {
		start, seen := i, l.seen
		for i < len(text) && lineClasses[text[i]]&ends == 0 {
			seen |= lineClasses[text[i]]
			i++
		}
		l.seen = seen
		l.out = append(l.out, text[start:i]...)
		if l.i = i; i == len(text) || text[i] != '\\' {
			return
		}
		// A backslash that escapes nothing stands for itself.
		if i++; i < len(text) && (text[i] == ',' || text[i] == ' ' || text[i] == '=' && ends == endsKey) {
			l.out = append(l.out, text[i])
			i++
		} else {
			l.out = append(l.out, '\\')
		}
	}
}

// tags appends the tags, each behind a comma.
func (l *lineReader) tags() *DecodeError {
	l.out = append(l.out, byte(bson.TypeEmbeddedDocument))
	l.out = append(l.out, "tags\x00"...)
	start := len(l.out)
	l.out = append(l.out, 0, 0, 0, 0)
	for l.is(',') {
		l.i++
		if err := l.key("tag"); err != nil {
			return err
		}
		l.out = append(l.out, 0, 0, 0, 0)
		if l.string(endsKey) == 0 {
			return l.wrong("a tag must have a value: leave the tag out")
		}
	}
	l.out = rawbson.EndDocument(l.out, start)
	return nil
}

// key appends the name of a tag or field as the name of a string element, and moves behind the equals sign.
func (l *lineReader) key(what string) *DecodeError {
	l.out = append(l.out, byte(bson.TypeString))
	start := len(l.out)
	l.name(endsKey)
	if len(l.out) == start || !l.is('=') {
		return l.wrong("a " + what + " must be written name=value")
	}
	l.i++
	l.out = append(l.out, 0)
	return nil
}

// is reports whether c is the next byte.
func (l *lineReader) is(c byte) bool { return l.i < len(l.text) && l.text[l.i] == c }

// blank skips blanks, and reports whether there are any.
func (l *lineReader) blank() bool {
	start := l.i
	for l.is(' ') || l.is('\t') || l.is('\f') || l.is('\v') {
		l.i++
	}
	return l.i > start
}

// fields appends the fields, which are separated by commas.
func (l *lineReader) fields() *DecodeError {
	for {
		at := len(l.out)
		if err := l.key("field"); err != nil {
			return err
		}
		kind, err := l.value()
		if err != nil {
			return err.within(string(l.out[at+1 : at+1+bytes.IndexByte(l.out[at+1:], 0)])).within("fields")
		}
		if l.out[at] = byte(kind); !l.is(',') {
			return nil
		}
		l.i++
	}
}

// value appends the value of a field.
func (l *lineReader) value() (bson.Type, *DecodeError) {
	if l.i == len(l.text) {
		return 0, l.wrong("a field needs a value")
	}
	switch c := l.text[l.i]; {
	case c == '"':
		return bson.TypeString, l.quoted()
	case c-'0' > 9 && c != '-':
		return l.word()
	}
	value, kind, end := scanNumber(l.text, l.i)
	if end < 0 || end == len(l.text) {
		return l.word()
	}
	switch c := l.text[end]; {
	case c == 'i' && kind != bson.TypeDouble || c == 'u' && kind != bson.TypeDouble && int64(value) >= 0:
		l.i = end + 1
	case lineClasses[c]&endsKey == 0:
		return l.word()
	default:
		if l.i = end; kind == bson.TypeInt32 {
			value = uint64(int32(value))
		}
		if kind != bson.TypeDouble {
			value, kind = math.Float64bits(float64(int64(value))), bson.TypeDouble
		}
	}
	l.out = appendScanned(l.out, kind, value)
	return kind, nil
}

// quoted appends a text in quotes, which may contain line ends.
func (l *lineReader) quoted() *DecodeError {
	start := len(l.out)
	l.out = append(l.out, 0, 0, 0, 0)
	for i := l.i + 1; ; {
		n := bytes.IndexAny(l.text[i:], `"\`)
		if n < 0 || l.text[i+n] == '\\' && i+n+1 == len(l.text) {
			return l.wrong("a string in quotes does not end")
		}
		l.out = append(l.out, l.text[i:i+n]...)
		if i += n; l.text[i] == '"' {
			l.i = i + 1
			break
		}
		if c := l.text[i+1]; c == '"' || c == '\\' {
			i++
		}
		l.out = append(l.out, l.text[i])
		i++
	}
	l.out = append(l.out, 0)
	binary.LittleEndian.PutUint32(l.out[start:], uint32(len(l.out)-start-4))
	return nil
}

// word appends a value that is a word or an unusual number.
func (l *lineReader) word() (bson.Type, *DecodeError) {
	start := l.i
	end := start
	for end < len(l.text) && lineClasses[l.text[end]]&endsKey == 0 {
		end++
	}
	l.i = end
	switch word := l.text[start:end]; string(word) {
	case "t", "T", "true", "True", "TRUE":
		l.out = append(l.out, 1)
		return bson.TypeBoolean, nil
	case "f", "F", "false", "False", "FALSE":
		l.out = append(l.out, 0)
		return bson.TypeBoolean, nil
	case "":
		return 0, l.wrong("a field needs a value: leave the field out")
	default:
		return l.number(word)
	}
}

// number appends a number.
func (l *lineReader) number(word []byte) (kind bson.Type, _ *DecodeError) {
	last := len(word) - 1
	if bytes.ContainsFunc(word[:last], func(c rune) bool { return c-'0' > 9 && !strings.ContainsRune("+-.eE", c) || c < 0 }) {
		return 0, l.noValue(word)
	}
	var err error
	switch text := string(word[:last]); word[last] {
	case 'i':
		var value int64
		if value, err = strconv.ParseInt(text, 10, 64); err == nil {
			kind, l.out = appendInteger(l.out, value)
		}
	case 'u':
		var value uint64
		if value, err = strconv.ParseUint(text, 10, 64); err == nil {
			kind, l.out = appendUnsigned(l.out, value)
		}
	default:
		var value float64
		if value, err = strconv.ParseFloat(string(word), 64); err == nil {
			kind, l.out = bson.TypeDouble, appendDouble(l.out, value)
		}
	}
	if err == nil {
		return kind, nil
	}
	if errors.Is(err, strconv.ErrRange) {
		return 0, newError(BadNumber, "", "%s is a number that does not fit into 64 bits: send another number, or leave the field out", quoteText(word))
	}
	return 0, l.noValue(word)
}

func (l *lineReader) noValue(word []byte) *DecodeError {
	return newError(NotInflux, "", "%s is not a value: write a number, a number followed by i or u, true or false, or a string in quotes", quoteText(word))
}

// time reads the time of the line and moves behind the line's end. Kind 0 means that the line has no time.
func (l *lineReader) time() (kind bson.Type, nanos int64, err *DecodeError) {
	blank := l.blank()
	start := l.i
	negative := blank && l.is('-')
	if negative {
		l.i++
	}
	var value uint64
	first := l.i
	for blank && l.i < len(l.text) && l.text[l.i]-'0' <= 9 {
		value = value*10 + uint64(l.text[l.i]-'0')
		l.i++
	}
	digits := l.i - first
	l.blank()
	switch {
	case l.is('\n'):
		l.i++
	case l.is('\r') && (l.i+1 == len(l.text) || l.text[l.i+1] == '\n'):
		l.i = min(l.i+2, len(l.text))
	case l.i < len(l.text):
		return 0, 0, l.wrong("only a timestamp (a number of nanoseconds since 1970) and the end of the line may follow the fields")
	}
	const longest = 19 // digits that 64 bits hold
	switch {
	case digits > longest || value > math.MaxInt64:
		return 0, 0, newError(BadTime, "timestamp", "%s does not fit into 64 bits: send nanoseconds since 1970", quoteText(l.text[start:first+digits]))
	case digits == 0 && negative:
		return 0, 0, newError(NotInflux, "", "no digits follow the minus of the timestamp: send nanoseconds since 1970")
	case digits == 0:
		return 0, 0, nil
	case negative:
		return bson.TypeInt64, -int64(value), nil
	}
	return bson.TypeInt64, int64(value), nil
}

// wrong is the error of a line that is malformed at the next byte.
func (l *lineReader) wrong(what string) *DecodeError {
	if l.i >= len(l.text) {
		return newError(NotInflux, "", "%s, but the record ends at byte %d: is it truncated?", what, len(l.text))
	}
	rest := l.text[l.i:l.endOfLine(l.i)]
	return newError(NotInflux, "", "%s; at byte %d is %s", what, l.i, quoteText(rest))
}
