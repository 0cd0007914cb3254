package measurement

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"waterwheel/internal/timeseries/rawbson"
)

// isUTF16 reports whether a value begins with UTF-16's byte order mark, or as an object or array in UTF-16 does.
func isUTF16(value []byte) bool {
	if beginsWith("\xff\xfe")(value) || beginsWith("\xfe\xff")(value) {
		return true
	}
	if len(value) < 4 || len(value)%2 != 0 {
		return false
	}
	return value[1] == 0 && value[3] == 0 && isJSONStart(value[:1]) || value[0] == 0 && value[2] == 0 && isJSONStart(value[1:2])
}

// isSnappy reports whether a value is a stream of snappy, as Java's and Google's libraries write it, or a block that begins as JSON.
func isSnappy(value []byte) bool {
	if beginsWith("\xff\x06\x00\x00sNaPpY")(value) || beginsWith("\x82SNAPPY\x00")(value) {
		return true
	}
	// A block begins with its decompressed length. Literals and copies follow, and the first of them must be a literal.
	length, n := binary.Uvarint(value)
	if n <= 0 || n >= len(value) || value[n]&3 != 0 || isJSONStart(value) {
		return false
	}
	const short = 60 // literals up to this length have it in the tag
	literal := uint64(value[n]>>2) + 1
	begin := n + 1
	if more := int(literal) - short; more > 0 {
		if len(value) < begin+more {
			return false
		}
		var long [8]byte
		copy(long[:], value[begin:begin+more])
		literal, begin = binary.LittleEndian.Uint64(long[:])+1, begin+more
	}
	return literal <= length && literal <= uint64(len(value)-begin) && isJSONStart(value[begin:])
}

// isLineProtocol reports whether the first line of a value is a point of InfluxDB's line protocol. A point is a measurement with
// its tags, its fields, and perhaps a time.
func isLineProtocol(value []byte) bool {
	line, _, _ := bytes.Cut(value, []byte{'\n'})
	line = bytes.TrimSuffix(line, []byte{'\r'})
	series, rest := cutUnescaped(line)
	fields, time := cutUnescaped(rest)
	name, first, hasValue := bytes.Cut(fields, []byte{'='})
	if len(name) == 0 || !hasValue || len(first) == 0 || !isSeries(series) {
		return false
	}
	return bytes.IndexByte([]byte(`0123456789-."tTfF`), first[0]) >= 0 && isDigits(bytes.TrimPrefix(time, []byte{'-'}))
}

// IsLines reports whether the first line of a value is a point of the line protocol.
func IsLines(value []byte) bool {
	value = bytes.TrimPrefix(value, []byte(byteOrderMark))
	var l lineReader
	l.begin(value)
	if !l.more() || !isLineProtocol(value[l.at:]) {
		return false
	}
	_, err := l.read(0)
	return err == nil
}

// isSeries reports whether a text is a measurement's name and its tags, each behind a comma.
func isSeries(text []byte) bool {
	plain := strings.NewReplacer(`\,`, "", `\=`, "").Replace(string(text))
	name, tags, tagged := strings.Cut(plain, ",")
	if name == "" || strings.ContainsAny(name, `={["`) {
		return false
	}
	for tag := range strings.SplitSeq(tags, ",") {
		if tagged && strings.IndexByte(tag, '=') <= 0 {
			return false
		}
	}
	return true
}

// cutUnescaped cuts a line at its first blank that is neither escaped nor in quotes.
func cutUnescaped(line []byte) (before, after []byte) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case ' ':
			if !quoted {
				return line[:i], line[i+1:]
			}
		}
	}
	return line, nil
}

// isBSON reports whether a value is one BSON document.
func isBSON(value []byte) bool {
	return rawbson.DocumentSize(value) == len(value) && new(bsonChecker).document(value, 1) == nil
}

// numberOut is what to do with a number that JSON does not have.
const numberOut = `send null instead, leave the field out, or send {"$numberDouble": "%s"} with EVENT_FORMAT=extjson`

// notJSONHere explains the place where a text ceases to be JSON: the mistake, and what to write instead. Both are empty if the
// mistake is not known.
func notJSONHere(text []byte, at int) (what, wayOut string) {
	if at >= len(text) {
		return "", ""
	}
	word := wordAround(text, at)
	before, behind := lastByte(text[:at]), firstByte(text[at+1:])
	switch strings.ToLower(strings.TrimLeft(word, "+-")) {
	case "nan":
		return word + " is not a JSON value", fmt.Sprintf(numberOut, "NaN")
	case "infinity", "inf":
		return word + " is not a JSON value", fmt.Sprintf(numberOut, word[:len(word)-len(strings.TrimLeft(word, "-"))]+"Infinity")
	case "true", "false", "none":
		return word + " is Python's notation, not JSON", "write the JSON with json.dumps, not with str"
	case "undefined":
		return word + " is not a JSON value", "send null instead, or leave the field out"
	}
	switch c := text[at]; {
	case c == '\'':
		return "names and strings are in single quotes", `write them in double quotes (in Python with json.dumps, not with str)`
	case c == ',' && (behind == '}' || behind == ']'):
		return "a comma precedes the end of an object or array", "remove the comma"
	case c == '/' && (behind == '/' || behind == '*'):
		return "the text has a comment, which JSON does not allow", "remove the comment"
	case c == 0 && isUTF16(text):
		return "this is UTF-16 text, but JSON must be UTF-8", "have its producer write UTF-8"
	case c < ' ':
		return "the text has a control character", `in strings write an escape such as \n or \u000a, elsewhere remove the character`
	case (before == '{' || before == ',') && isWordByte(c) && nameColon(text[at:]):
		return "the name " + word + " is without quotes", "write names in double quotes"
	case hasDecimalComma(text, at, word):
		whole := wordAround(text, at-1)
		return fmt.Sprintf("%s,%s has a decimal comma, which JSON does not allow", whole, word), fmt.Sprintf("write %s.%s", whole, word)
	case isWordByte(c) && startsNumber(word), startsNumber(word) && !isDigits([]byte(word[len(word)-1:])):
		return word + " is not a JSON number", "write digits before and after the point, no leading zeros and no plus sign, or send a string"
	}
	return "", ""
}

// wordAround returns the word or number that contains an index or ends there.
func wordAround(text []byte, at int) string {
	start, end := at, at
	for start > 0 && isWordByte(text[start-1]) {
		start--
	}
	for end < len(text) && isWordByte(text[end]) {
		end++
	}
	return clip(text[start:end])
}

func isWordByte(c byte) bool {
	return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '+' || c == '-' || c == '.'
}

// startsNumber reports whether a word is meant to be a number.
func startsNumber(word string) bool {
	word = strings.TrimLeft(word, "+-.")
	return word != "" && word[0]-'0' <= 9
}

// hasDecimalComma reports whether a member of an object begins with digits right behind a number and a comma.
func hasDecimalComma(text []byte, at int, word string) bool {
	return at > 1 && text[at-1] == ',' && text[at-2]-'0' <= 9 && isDigits([]byte(word)) && isDigits([]byte(strings.TrimLeft(wordAround(text, at-1), "-")))
}

// nameColon reports whether a text begins with a word and a colon.
func nameColon(text []byte) bool {
	return firstByte(bytes.TrimLeftFunc(text, func(c rune) bool { return c < 0x80 && isWordByte(byte(c)) })) == ':'
}

// firstByte returns the first byte of a text behind white space. It is 0 if nothing follows.
func firstByte(text []byte) byte {
	if text = bytes.TrimLeft(text, " \t\r\n"); len(text) > 0 {
		return text[0]
	}
	return 0
}

// lastByte returns the last byte of a text before white space. It is 0 if nothing precedes.
func lastByte(text []byte) byte {
	if text = bytes.TrimRight(text, " \t\r\n"); len(text) > 0 {
		return text[len(text)-1]
	}
	return 0
}
