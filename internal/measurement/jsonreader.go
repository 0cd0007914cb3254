package measurement

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
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
