package measurement

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
	"waterwheel/internal/words"
)

// jsonReader turns JSON text into BSON documents. It checks syntax, numbers, UTF-8 and depth. It checks names only as far as BSON
// must be able to hold them.
//
// Its methods stop at the first problem. If the problem does not break the text, skip moves behind the event.
type jsonReader struct {
	jsonTokens
	extended bool

	out     []byte // the BSON written
	wrapped []byte // the last value that was unwrapped from Extended JSON
	dotted  bool   // a name with a dot was seen
}

func newJSONReader(extended bool) *jsonReader {
	return &jsonReader{jsonTokens: newJSONTokens(), extended: extended}
}

// clear forgets the BSON written so far.
func (j *jsonReader) clear() { j.out, j.dotted = j.out[:0], false }

// object appends the next value, an object, as a document. depth is the object's own depth, which is 1 for an event. It reports
// whether one of the object's names begins with a dollar sign.
func (j *jsonReader) object(depth int) (dollar bool, err *DecodeError) {
	if err := j.descend(depth); err != nil {
		return false, err
	}
	start := len(j.out)
	j.out = append(j.out, 0, 0, 0, 0)
	for j.next() != '}' {
		at := len(j.out)
		j.out = append(j.out, 0) // the kind, known after the value
		if err := j.name(); err != nil {
			return false, err
		}
		j.out = append(j.out, 0)
		dollar = dollar || j.out[at+1] == '$'
		kind, err := j.value(depth)
		if err != nil {
			return false, err
		}
		j.out[at] = byte(kind)
	}
	j.out = rawbson.EndDocument(j.out, start)
	return dollar, j.token()
}

// array appends the next value, which is an array.
func (j *jsonReader) array(depth int) *DecodeError {
	if err := j.descend(depth); err != nil {
		return err
	}
	start := len(j.out)
	j.out = append(j.out, 0, 0, 0, 0)
	for i := 0; j.next() != ']'; i++ {
		at := len(j.out)
		j.out = rawbson.AppendIndexHeader(j.out, 0, i)
		kind, err := j.value(depth)
		if err != nil {
			return err
		}
		j.out[at] = byte(kind)
	}
	j.out = rawbson.EndDocument(j.out, start)
	return j.token()
}

// descend reads the bracket at the start of an object or an array.
func (j *jsonReader) descend(depth int) *DecodeError {
	if err := j.token(); err != nil {
		return err
	}
	if depth > maxDepth {
		return tooDeep(j.path())
	}
	return nil
}

// value appends the next value, which stands in an object or array of the given depth, and returns its kind.
func (j *jsonReader) value(depth int) (bson.Type, *DecodeError) {
	switch j.next() {
	case '{':
		return j.objectOrWrapper(depth + 1)
	case '[':
		return bson.TypeArray, j.array(depth + 1)
	}
	raw, err := j.raw()
	if err != nil {
		return 0, err
	}
	switch raw[0] {
	case '"':
		return bson.TypeString, j.stringValue(raw)
	case 'n':
		return bson.TypeNull, nil
	case 't':
		j.out = append(j.out, 1)
		return bson.TypeBoolean, nil
	case 'f':
		j.out = append(j.out, 0)
		return bson.TypeBoolean, nil
	}
	kind, out, ok := appendNumber(j.out, raw)
	j.out = out
	if !ok {
		return 0, newError(BadNumber, j.path(), "%s is too large for a double: send it as a string or scale it", clip(raw))
	}
	return kind, nil
}

// objectOrWrapper appends an object, or the value that it stands for in Extended JSON.
func (j *jsonReader) objectOrWrapper(depth int) (bson.Type, *DecodeError) {
	start := len(j.out)
	dollar, err := j.object(depth)
	if err != nil || !dollar || !j.extended {
		return bson.TypeEmbeddedDocument, err
	}
	kind, value, err := unwrap(j.wrapped[:0], j.out[start:])
	if err != nil {
		err.Path = j.path()
		return 0, err
	}
	if kind == 0 {
		return bson.TypeEmbeddedDocument, nil
	}
	j.wrapped = value
	j.out = append(j.out[:start], value...)
	return kind, nil
}

// name appends the next name.
func (j *jsonReader) name() *DecodeError {
	raw, err := j.raw()
	if err != nil {
		return err
	}
	start := len(j.out)
	dotted, err := j.unquote(raw)
	if err != nil {
		return err
	}
	j.dotted = j.dotted || dotted
	if escaped := len(j.out)-start < len(raw)-2; escaped && bytes.IndexByte(j.out[start:], 0) >= 0 {
		return newError(BadFieldName, j.path(), "the name contains a NUL character, which BSON does not allow in names: rename the field")
	}
	return nil
}

func (j *jsonReader) stringValue(raw []byte) *DecodeError {
	start := len(j.out)
	j.out = append(j.out, 0, 0, 0, 0)
	if _, err := j.unquote(raw); err != nil {
		return err
	}
	j.out = append(j.out, 0)
	binary.LittleEndian.PutUint32(j.out[start:], uint32(len(j.out)-start-4))
	return nil
}

// unquote appends the text of a JSON string, and reports whether it holds a dot.
func (j *jsonReader) unquote(raw []byte) (dotted bool, err *DecodeError) {
	text := raw[1 : len(raw)-1]
	plain, dotted := scan(text)
	if plain {
		j.out = append(j.out, text...)
		return dotted, nil
	}
	start := len(j.out)
	out, ok := appendUnquoted(j.out, raw)
	j.out = out
	switch {
	case !ok && utf8.Valid(text):
		return false, newError(BadUTF8, j.path(), `%s has half of a surrogate pair, an escape \ud800 to \udfff without its other half: `+
			"have its producer write complete characters", quoteText(text))
	case !ok:
		return false, badText(j.path(), text)
	}
	return bytes.IndexByte(out[start:], '.') >= 0, nil
}

// scan reports whether the inside of a JSON string is plain, that is, ASCII without escapes. It also reports whether it has seen
// a dot. Most strings are plain and short, so a loop is quicker than two searches.
func scan(text []byte) (plain, dotted bool) {
	for _, c := range text {
		if c == '\\' || c >= utf8.RuneSelf {
			return false, dotted
		}
		dotted = dotted || c == '.'
	}
	return true, dotted
}

// jsonTokens cuts JSON text into tokens. It is the only user of jsontext, and checks only the syntax. The readers of the tokens
// compare names and check text, so that a bad element of an array does not spoil the others.
type jsonTokens struct {
	decoder jsontext.Decoder
	source  bytes.Buffer
	options []jsontext.Options
	text    []byte
	event   int  // the depth of events: 0, or 1 in an array
	broken  bool // the text is not JSON, and cannot be read further
}

func newJSONTokens() jsonTokens {
	return jsonTokens{options: []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}}
}

// begin starts reading a text.
func (j *jsonTokens) begin(text []byte) {
	j.text, j.event, j.broken = text, 0, false
	j.source = *bytes.NewBuffer(text)
	j.decoder.Reset(&j.source, j.options...)
}

// next returns the first byte of the next token, and '0' for every number. It returns 0 at the end of the text, and if the text
// is not JSON.
func (j *jsonTokens) next() byte { return byte(j.decoder.PeekKind()) }

// offset returns the end of the token that was read last.
func (j *jsonTokens) offset() int { return int(j.decoder.InputOffset()) }

// enter reads the bracket that begins an array of events.
func (j *jsonTokens) enter() *DecodeError {
	j.event = 1
	return j.token()
}

// leave reads the bracket that ends an array of events.
func (j *jsonTokens) leave() *DecodeError {
	j.event = 0
	return j.token()
}

// more reports whether another object or array follows the top-level value that was read last.
func (j *jsonTokens) more() bool { return !j.broken && isJSONStart(j.decoder.UnreadBuffer()) }

func (j *jsonTokens) token() *DecodeError {
	if _, err := j.decoder.ReadToken(); err != nil {
		return j.syntaxError(err)
	}
	return nil
}

// end returns an error if something stands behind the values of a record.
func (j *jsonTokens) end() *DecodeError {
	return j.endOf("a record may hold only objects and arrays, but %s follows at byte %d: leave it out")
}

// endOf returns an error if something stands behind the values. format is the error's text, with what follows and its place.
func (j *jsonTokens) endOf(format string) *DecodeError {
	rest := bytes.TrimLeft(j.decoder.UnreadBuffer(), " \t\r\n")
	if len(rest) == 0 {
		return nil
	}
	j.broken = true
	at := len(j.text) - len(rest)
	if zeros := len(rest) - len(bytes.TrimLeft(rest, "\x00")); zeros == len(rest) {
		return newError(NotJSON, "", "%s the JSON, at byte %d: have its producer leave out the zero byte that ends a string in C",
			words.Count(zeros, "zero byte")+words.Form(zeros, " follows", " follow"), at)
	}
	if bytes.HasPrefix(rest, []byte(byteOrderMark)) {
		return newError(NotJSON, "", "a byte order mark follows the JSON, at byte %d, before %s: leave it out, because only the first text may have one", at, quoteText(rest[len(byteOrderMark):]))
	}
	return newError(NotJSON, "", format, quoteText(rest), at)
}

// skip reads the rest of an event that was begun.
func (j *jsonTokens) skip() *DecodeError {
	for j.decoder.StackDepth() > j.event {
		if err := j.token(); err != nil {
			return err
		}
	}
	return nil
}

// skipValue skips the next value.
func (j *jsonTokens) skipValue() *DecodeError {
	if err := j.decoder.SkipValue(); err != nil {
		return j.syntaxError(err)
	}
	return nil
}

// raw returns the next value as it stands in the text.
func (j *jsonTokens) raw() ([]byte, *DecodeError) {
	value, err := j.decoder.ReadValue()
	if err != nil {
		return nil, j.syntaxError(err)
	}
	return value, nil
}

// appendUnquoted appends the text of a JSON string. False means that it is not UTF-8.
func appendUnquoted(dst, quoted []byte) ([]byte, bool) {
	dst, err := jsontext.AppendUnquote(dst, quoted)
	return dst, err == nil
}

// path returns the path from the event to the value that was read last.
func (j *jsonTokens) path() string { return dottedPath(j.decoder.StackPointer(), j.event) }

// dottedPath turns a JSON pointer into a dotted path, and leaves out its first names.
func dottedPath(pointer jsontext.Pointer, without int) string {
	names := slices.Collect(pointer.Tokens())
	return strings.Join(names[min(without, len(names)):], ".")
}

// syntaxError says why the text is not JSON.
func (j *jsonTokens) syntaxError(err error) *DecodeError {
	j.broken = true
	if j.decoder.StackDepth() > maxDepth {
		return tooDeep("")
	}
	at, path, cause := len(j.text), "", err
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		at, path, cause = min(int(syntax.ByteOffset), at), dottedPath(syntax.JSONPointer, 0), syntax.Err
	}
	if errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) {
		return newError(NotJSON, "", "the text ends at byte %d in the middle of a value: is it truncated?", len(j.text))
	}
	if what, wayOut := notJSONHere(j.text, at); what != "" {
		for at > 0 && isWordByte(j.text[at]) && isWordByte(j.text[at-1]) {
			at-- // the parser stops within the word
		}
		return newError(NotJSON, path, "%s, at byte %d, before %s: %s", what, at, quoteText(j.text[at:]), wayOut)
	}
	return newError(NotJSON, path, "%v at byte %d, before %s", cause, at, quoteText(j.text[at:]))
}
