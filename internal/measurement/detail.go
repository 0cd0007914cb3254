package measurement

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"waterwheel/internal/record"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxDetailBytes bounds how much of a record a message may repeat.
const maxDetailBytes = 256

// newError makes an error of a whole record. The caller sets Part and Value if the error concerns an element of an array.
func newError(reason Reason, path, format string, args ...any) *DecodeError {
	return &DecodeError{Reason: reason, Path: shownPath(path), Detail: fmt.Sprintf(format, args...), Part: record.WholeRecord}
}

// within puts a name before the error's path. A walk over an event calls it on its way back, with the name of each value around
// the error.
func (e *DecodeError) within(name string) *DecodeError {
	path := clip(name)
	if e.Path != "" {
		path += "." + e.Path
	}
	e.Path = shownPath(path)
	return e
}

func shownPath(path string) string { return strings.ToValidUTF8(clip(path), "\uFFFD") }

func tooDeep(path string) *DecodeError {
	return newError(TooDeep, path, "objects and arrays are nested more than %d levels deep: flatten the event", maxDepth)
}

func badText[Text ~[]byte | ~string](path string, text Text) *DecodeError {
	return newError(BadUTF8, path, "%s is not UTF-8 text: encode text as UTF-8, and bytes as base64", quoteText(text))
}

// clip cuts a text at maxDetailBytes, between characters.
func clip[Text ~[]byte | ~string](text Text) string {
	if len(text) <= maxDetailBytes {
		return string(text)
	}
	end := maxDetailBytes
	for end > maxDetailBytes-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end]) + "…"
}

// quoteText quotes and cuts a text. A message with the result is one line of valid UTF-8, even if the text is not.
func quoteText[Text ~[]byte | ~string](text Text) string {
	return clip(strconv.Quote(clip(text)))
}

// quoteValue shows a BSON value as relaxed Extended JSON, which writes numbers plainly, and cuts it.
func quoteValue(kind bson.Type, value []byte) string {
	const tooLargeToShow = 4 << 10
	if len(value) > tooLargeToShow {
		return fmt.Sprintf("%s of %d bytes", kind, len(value))
	}
	const before, behind = `{"v":`, `}`
	text, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: bson.RawValue{Type: kind, Value: value}}}, false, false)
	if err != nil {
		return kind.String()
	}
	return clip(strings.TrimSuffix(strings.TrimPrefix(string(text), before), behind))
}
