package measurement

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
)

// Reason says why a record or an element of it cannot be stored. The set of reasons is closed. Every reason is a label of a
// metric, an entry of the runbook, and a test.
type Reason string

// The reasons.
const (
	NotJSON           Reason = "not_json"
	NotBSON           Reason = "not_bson"
	NotInflux         Reason = "not_influx"
	NotOTLP           Reason = "not_otlp"
	NotAvro           Reason = "not_avro"
	NotProtobuf       Reason = "not_protobuf"
	NotObject         Reason = "not_object"
	Empty             Reason = "empty"
	BadSchema         Reason = "bad_schema"
	UnknownSchema     Reason = "unknown_schema"
	BadCompression    Reason = "bad_compression"
	MissingTime       Reason = "missing_time"
	BadTime           Reason = "bad_time"
	TimeOutOfRange    Reason = "time_out_of_range"
	MissingMeta       Reason = "missing_meta"
	MissingField      Reason = "missing_field"
	BadMeta           Reason = "bad_meta"
	BadFieldName      Reason = "bad_field_name"
	DuplicateField    Reason = "duplicate_field"
	TooDeep           Reason = "too_deep"
	TooLarge          Reason = "too_large"
	BadNumber         Reason = "bad_number"
	BadUTF8           Reason = "bad_utf8"
	BadElements       Reason = "bad_elements"
	Unreadable        Reason = "unreadable"
	RefusedByDatabase Reason = "refused_by_database"
	InternalError     Reason = "internal_error"
)

// Reasons lists all reasons, in the order of the documents.
func Reasons() []Reason {
	return []Reason{
		NotJSON, NotBSON, NotInflux, NotOTLP, NotAvro, NotProtobuf, BadSchema, UnknownSchema, BadCompression, NotObject, Empty, MissingTime, BadTime, TimeOutOfRange, MissingMeta, BadMeta, MissingField,
		BadFieldName, DuplicateField, TooDeep, TooLarge, BadNumber, BadUTF8, BadElements, Unreadable, RefusedByDatabase,
		InternalError,
	}
}

// DecodeError says what is wrong with a record, and where.
type DecodeError struct {
	Reason Reason
	// Path leads to the field in question, dotted ("meta.host", "readings.3.x"). Empty means the whole event.
	Path string
	// Detail is the rest of the error's sentence: the value (cut), the bound, and what to do. It repeats nothing else of the
	// record.
	Detail string
	// Part is the index of the element in an array record, and record.WholeRecord for all other errors.
	Part int32
	// Value holds the failing element's bytes if Part is not record.WholeRecord. It is valid until the next Decode.
	Value []byte
}

// Error returns one sentence with the path and the value.
func (e *DecodeError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s: %s", e.Reason, e.Detail)
	}
	return fmt.Sprintf("%s at %s: %s", e.Reason, e.Path, e.Detail)
}

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
