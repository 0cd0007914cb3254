package measurement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries/rawbson"
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

// An error about a missing field names some fields that are present. These constants bound the number of names, their bytes, and
// the fields that are examined, because an event may have hundreds of thousands of fields.
const (
	maxNamed      = 5
	maxNamedBytes = 64
	maxLookedAt   = 200
)

// lookAround finds names of an event's fields for an error about a missing field. It names the fields that may be meant, or else
// the first fields.
type lookAround struct {
	seems  func(e rawbson.Element) bool
	left   int
	likely []string
	others []string
}

// walk examines the fields of an event, and the fields of its objects as long as levels are left.
func (l *lookAround) walk(list []byte, prefix string, levels int) {
	for e := range rawbson.All(list) {
		if l.left == 0 || len(l.likely) == maxNamed {
			return
		}
		l.left--
		path := prefix + string(e.Name)
		if !isNameable(e.Name) || len(path) > maxNamedBytes {
			continue
		}
		if l.seems(e) {
			l.likely = append(l.likely, path)
		} else if len(l.others) < maxNamed {
			l.others = append(l.others, path)
		}
		if e.Kind == bson.TypeEmbeddedDocument && levels > 1 {
			l.walk(rawbson.Content(e.Value), path+".", levels-1)
		}
	}
}

// isNameable reports whether a path can lead to a field of this name and a message can show it.
func isNameable(name []byte) bool {
	if CheckPath(string(name)) != nil || len(name) == 0 || !utf8.Valid(name) {
		return false
	}
	return strings.IndexFunc(string(name), func(c rune) bool { return !unicode.IsPrint(c) || c == '.' || c == ',' }) < 0
}

// missing is the detail of an error about a missing field. It names the fields that are present, and the setting to change. what
// begins the sentence, as "the event has no such field" does, and instead ends it.
func (d *Decoder) missing(levels int, what, setting, instead string, seems func(e rawbson.Element) bool) string {
	l := lookAround{seems: seems, left: maxLookedAt}
	l.walk(rawbson.Content(d.foundRoot), "", levels)
	has := "; it has "
	if d.paths.root != "" {
		has = "; EVENT_ROOT=" + d.paths.root + " has "
	}
	switch {
	case len(l.likely) > 0:
		return what + has + strings.Join(l.likely, ", ") + ": set " + setting + " to the right field, " + instead
	case len(l.others) > 0:
		return what + has + strings.Join(l.others, ", ") + ": send it, or set " + setting + " to its path, " + instead
	}
	return what + ": send it, or set " + setting + " to its path, " + instead
}

// noField returns the start of the sentence about a missing field.
func (d *Decoder) noField(path string) string {
	if array := arrayOn(d.event, path); array != "" {
		return array + noWay
	}
	return "the event has no such field" + d.options.elementAdvice(path)
}

// noWay continues a sentence that begins with the path of an array.
const noWay = " is an array, and paths do not lead into arrays (EVENT_LIST splits an array into events)"

// arrayOn returns the path of the array in an object that keeps a path from leading on. The path may have an index in brackets. The
// result is empty if there is no such array, or if the array is empty, as PHP writes empty objects.
func arrayOn(object []byte, path string) string {
	names := strings.Split(path, ".")
	for i, name := range names {
		e := elementOf(object, name)
		if base, _, indexed := strings.Cut(name, "["); e.Kind == 0 && indexed {
			e, names[i] = elementOf(object, base), base
		}
		switch {
		case e.Kind == bson.TypeArray && len(rawbson.Content(e.Value)) > 0 && (i < len(names)-1 || names[i] != name):
			return shownPath(strings.Join(names[:i+1], "."))
		case e.Kind != bson.TypeEmbeddedDocument:
			return ""
		}
		object = e.Value
	}
	return ""
}

// elementOf returns the element of a name in a document. Kind 0 means that the document lacks it.
func elementOf(document []byte, name string) (e rawbson.Element) {
	for list := rawbson.Content(document); len(list) > 0; {
		if list = e.Cut(list); string(e.Name) == name {
			return e
		}
	}
	return rawbson.Element{}
}

// missingTime is the error of an event without a time. It names the fields that hold acceptable times.
func (d *Decoder) missingTime() *DecodeError {
	path, what := d.paths.times[0], "the event has none of "+d.options.TimeField
	if len(d.paths.times) == 1 && isOfRecord(path) {
		what = "the record has no such header, and the event is not searched"
	} else if len(d.paths.times) == 1 {
		what = d.noField(path)
	}
	return newError(MissingTime, path, "%s", d.missing(2, what, settingTime, "or to an empty value to use the record's timestamp", d.seemsTime))
}

func (d *Decoder) seemsTime(e rawbson.Element) bool {
	switch e.Kind {
	case bson.TypeDateTime, bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeString, bson.TypeEmbeddedDocument:
		r, err := d.time.parse(e.Kind, e.Value)
		return err == nil && d.options.side(r.millis, d.record.Timestamp) == 0
	}
	return false
}

// missingMeta is the error of an event without a meta. It names the fields that may name a series, that is, texts, integers and
// objects that are no times.
func (d *Decoder) missingMeta() *DecodeError {
	path, what, setting := d.paths.meta[0].path, d.noField(d.paths.meta[0].path), settingMeta
	if d.paths.meta[0].source != fromEvent {
		what = "the record has no such key or header"
	}
	if d.paths.joined {
		if what = "the event has none of "; d.paths.ofRecord {
			what = "the event and its record have none of "
		}
		path, what, setting = "", what+clip(strings.Join(d.options.MetaFields, ", ")), settingMetas
	}
	return newError(MissingMeta, path, "%s", d.missing(1, what, setting, "or set EVENT_META_FROM=key or EVENT_META_FROM=none", func(e rawbson.Element) bool {
		switch e.Kind {
		case bson.TypeString, bson.TypeObjectID, bson.TypeEmbeddedDocument, bson.TypeInt32, bson.TypeInt64:
			return !slices.Contains(d.paths.times, string(e.Name)) && !d.seemsTime(e)
		}
		return false
	}))
}
