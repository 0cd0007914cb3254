package measurement

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

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
	for len(list) > 0 && l.left > 0 && len(l.likely) < maxNamed {
		var e rawbson.Element
		list = e.Cut(list)
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
		e, found := elementOf(object, name)
		if base, _, indexed := strings.Cut(name, "["); !found && indexed {
			e, found = elementOf(object, base)
			names[i] = base
		}
		switch {
		case found && e.Kind == bson.TypeArray && len(rawbson.Content(e.Value)) > 0 && (i < len(names)-1 || names[i] != name):
			return shownPath(strings.Join(names[:i+1], "."))
		case !found || e.Kind != bson.TypeEmbeddedDocument:
			return ""
		}
		object = e.Value
	}
	return ""
}

// elementOf returns the element of a name in a document, and false if the document lacks it.
func elementOf(document []byte, name string) (e rawbson.Element, found bool) {
	return elementIn(rawbson.Content(document), name)
}

// elementIn is elementOf for a list of elements.
func elementIn(list []byte, name string) (e rawbson.Element, found bool) {
	for len(list) > 0 {
		if list = e.Cut(list); string(e.Name) == name {
			return e, true
		}
	}
	return e, false
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
