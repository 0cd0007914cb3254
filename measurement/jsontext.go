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
)

// jsonReader turns JSON text into BSON documents: syntax, numbers, UTF-8 and depth are checked here, names only as far
// as BSON must be able to hold them. It is the only user of jsontext.
//
// Its methods stop at the first problem. After one that is not broken, skip goes on behind the value it was found in.
type jsonReader struct {
	tokens   jsontext.Decoder
	source   bytes.Buffer
	text     []byte
	options  []jsontext.Options
	extended bool

	event   int    // the depth at which events stand: 0, and 1 in an array
	out     []byte // the BSON written
	dotted  bool   // a name with a dot was seen
	wrapped []byte // the value last taken out of Extended JSON's notation
	broken  bool   // the text is not JSON: there is no going on
}

// Names are compared and strings are checked later, for all formats alike, so that a bad element of an array does not
// take the others with it.
func newJSONReader(extended bool) *jsonReader {
	return &jsonReader{
		extended: extended,
		options:  []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)},
	}
}

// begin starts reading a text.
func (j *jsonReader) begin(text []byte) {
	j.text, j.event, j.broken = text, 0, false
	j.source = *bytes.NewBuffer(text)
	j.tokens.Reset(&j.source, j.options...)
}

// clear forgets the BSON written so far.
func (j *jsonReader) clear() { j.out, j.dotted = j.out[:0], false }

// next is the first byte of the next token, '0' for every number; 0 at the end of the text and where it is not JSON.
func (j *jsonReader) next() byte { return byte(j.tokens.PeekKind()) }

// offset is where the next token or the white space before it begins.
func (j *jsonReader) offset() int { return int(j.tokens.InputOffset()) }

// enter reads the bracket that begins an array of events.
func (j *jsonReader) enter() *DecodeError {
	j.event = 1
	return j.token()
}

// leave reads the bracket that ends it.
func (j *jsonReader) leave() *DecodeError { return j.token() }

func (j *jsonReader) token() *DecodeError {
	if _, err := j.tokens.ReadToken(); err != nil {
		return j.syntaxError(err)
	}
	return nil
}

// end reports what stands behind the value, if anything does.
func (j *jsonReader) end() *DecodeError {
	rest := bytes.TrimLeft(j.tokens.UnreadBuffer(), " \t\r\n")
	if len(rest) == 0 {
		return nil
	}
	j.broken = true
	return newError(NotJSON, "", "a record is one value, here %s follows it at byte %d: put several events into an array",
		quoteText(rest), len(j.text)-len(rest))
}

// skip reads on behind the event that was begun.
func (j *jsonReader) skip() *DecodeError {
	for j.tokens.StackDepth() > j.event {
		if err := j.token(); err != nil {
			return err
		}
	}
	return nil
}

// skipValue reads over the next value.
func (j *jsonReader) skipValue() *DecodeError {
	if err := j.tokens.SkipValue(); err != nil {
		return j.syntaxError(err)
	}
	return nil
}

// object appends the next value, an object, as a document. Depth is its own: 1 for an event. It reports whether a name
// of it begins with a dollar sign.
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
	j.out = endDocument(j.out, start)
	return dollar, j.token()
}

// array appends the next value, an array, as an array.
func (j *jsonReader) array(depth int) *DecodeError {
	if err := j.descend(depth); err != nil {
		return err
	}
	start := len(j.out)
	j.out = append(j.out, 0, 0, 0, 0)
	for i := 0; j.next() != ']'; i++ {
		at := len(j.out)
		j.out = appendIndexHeader(j.out, 0, i)
		kind, err := j.value(depth)
		if err != nil {
			return err
		}
		j.out[at] = byte(kind)
	}
	j.out = endDocument(j.out, start)
	return j.token()
}

// descend reads the bracket that begins an object or an array.
func (j *jsonReader) descend(depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep(j.path())
	}
	return j.token()
}

// value appends the next value, which stands in an object or array of the given depth, and returns its kind.
func (j *jsonReader) value(depth int) (bson.Type, *DecodeError) {
	switch j.next() {
	case '{':
		return j.objectOrWrapper(depth + 1)
	case '[':
		return bson.TypeArray, j.array(depth + 1)
	}
	raw, err := j.tokens.ReadValue()
	if err != nil {
		return 0, j.syntaxError(err)
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
		return 0, newError(BadNumber, j.path(), "%s is beyond a double: send it as a string or scale it", clip(raw))
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
	raw, err := j.tokens.ReadValue()
	if err != nil {
		return j.syntaxError(err)
	}
	start := len(j.out)
	dotted, failed := j.unquote(raw)
	if failed != nil {
		return failed
	}
	j.dotted = j.dotted || dotted
	if escaped := len(j.out)-start < len(raw)-2; escaped && bytes.IndexByte(j.out[start:], 0) >= 0 {
		return newError(BadFieldName, j.path(), "the name holds a NUL character, which BSON has no place for: rename the field")
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

// unquote appends what a JSON string means, and reports whether there is a dot in it.
func (j *jsonReader) unquote(raw []byte) (dotted bool, err *DecodeError) {
	text := raw[1 : len(raw)-1]
	plain, dotted := scan(text)
	if plain {
		j.out = append(j.out, text...)
		return dotted, nil
	}
	start := len(j.out)
	out, invalid := jsontext.AppendUnquote(j.out, raw)
	j.out = out
	if invalid != nil {
		return false, badText(j.path(), text)
	}
	return bytes.IndexByte(out[start:], '.') >= 0, nil
}

// scan reports whether the inside of a JSON string is ASCII without escapes, and so means itself, and whether a dot was
// seen. Most are plain and short: a loop is quicker than two searches.
func scan(text []byte) (plain, dotted bool) {
	for _, c := range text {
		if c == '\\' || c >= utf8.RuneSelf {
			return false, dotted
		}
		dotted = dotted || c == '.'
	}
	return true, dotted
}

// path leads to the value read last, from the event it belongs to.
func (j *jsonReader) path() string { return dottedPath(j.tokens.StackPointer(), j.event) }

// dottedPath turns a JSON pointer without its first names into a dotted path.
func dottedPath(pointer jsontext.Pointer, without int) string {
	names := slices.Collect(pointer.Tokens())
	return strings.Join(names[min(without, len(names)):], ".")
}

// syntaxError says why the text is not JSON.
func (j *jsonReader) syntaxError(err error) *DecodeError {
	j.broken = true
	if j.tokens.StackDepth() > maxDepth {
		return tooDeep("")
	}
	if len(j.text) > 0 && j.text[0] == 0 {
		return newError(NotJSON, "", "%s begins with a zero byte, as the framing of a schema registry does: send plain JSON",
			quoteText(j.text))
	}
	at, path, cause := len(j.text), "", err
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		at, path, cause = min(int(syntax.ByteOffset), at), dottedPath(syntax.JSONPointer, 0), syntax.Err
	}
	if errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) {
		return newError(NotJSON, "", "the text ends at byte %d in the middle of a value: is it cut?", len(j.text))
	}
	return newError(NotJSON, path, "%v at byte %d, before %s", cause, at, quoteText(j.text[at:]))
}
