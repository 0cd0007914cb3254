package measurement

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// tall is the stage for events that name their value in a field: {"name": "temp", "value": 21} becomes {"temp": 21}.
type tall struct {
	path   string   // path to the name
	name   []string // Nil means that the stage is not set.
	values []tallValue
}

// tallValue is a path at which the value may be.
type tallValue struct {
	names []string
	edits []edit // take the name out, and give the value its name
	leaf  *edit  // the edit of the value
}

func newTall(o *Options) (t tall) {
	if o.FieldName == "" {
		return t
	}
	t.path = o.absolute(o.FieldName)
	t.name = strings.Split(t.path, ".")
	for path := range strings.SplitSeq(o.FieldValue, "|") {
		path = o.absolute(strings.TrimSpace(path))
		v := tallValue{names: strings.Split(path, ".")}
		growEdit(&v.edits, t.path).kind = editTake
		v.leaf = growEdit(&v.edits, path)
		v.leaf.kind = editName
		t.values = append(t.values, v)
	}
	return t
}

// nameValue renames the value of an event to the name that another field holds, and takes that field out. The value stays at its
// place.
func (s *stages) nameValue(event []byte) (out []byte, dotted bool, err *DecodeError) {
	t := &s.tall
	named, found := lookUp(event, t.name)
	if !found {
		return nil, false, newError(MissingField, t.path, "the event has no field here, but EVENT_FIELD_NAME expects the name of the value here: send it, or set EVENT_SKIP='!%s'", s.options.FieldName)
	}
	if named.Kind != bson.TypeString {
		return nil, false, newError(BadFieldName, t.path, "%s is not a string, but EVENT_FIELD_NAME expects the name of a value here: send a string, or correct the setting", quoteValue(named.Kind, named.Value))
	}
	name := rawbson.Text(named.Value)
	if len(name) == 0 || bytes.IndexByte(name, 0) >= 0 || !utf8.Valid(name) {
		return nil, false, newError(BadFieldName, t.path, "%s cannot be the name of a field, but EVENT_FIELD_NAME expects a name here: send a name without NUL characters", quoteText(name))
	}
	for i := range t.values {
		v := &t.values[i]
		if _, found := lookUp(event, v.names); !found {
			continue
		}
		clear(s.found)
		v.leaf.to = append(v.leaf.to[:0], name...)
		s.named, err = s.apply(append(s.named[:0], 0, 0, 0, 0), rawbson.Content(event), v.edits)
		if err != nil {
			return nil, false, err
		}
		s.named = rawbson.EndDocument(s.named, 0)
		return s.named, bytes.IndexByte(name, '.') >= 0, nil
	}
	return nil, false, newError(MissingField, strings.Join(t.values[0].names, "."), "the event lacks the value of %s, which EVENT_FIELD_VALUE=%s expects: send it, or correct the setting",
		quoteText(name), s.options.FieldValue)
}

// splitRename reads a part of EVENT_RENAME, "path=name".
func splitRename(text string) (from, to string) {
	from, to, _ = strings.Cut(text, "=")
	return strings.TrimSpace(from), strings.TrimSpace(to)
}

// checkRename returns why a part of EVENT_RENAME is wrong.
func checkRename(text string) error {
	switch from, to := splitRename(text); {
	case from == "" || to == "":
		return errors.New("renames nothing: write path=name, such as temp_c=celsius")
	case to[0] == '$' || strings.ContainsAny(to, ".\x00/") || !utf8.ValidString(to):
		return errors.New("gives a name that begins with $ or contains a dot, a slash or a NUL: a renamed field stays in its object, so write only its new name")
	}
	return nil
}
