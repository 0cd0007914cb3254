package measurement

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// condition is a condition of EVENT_SKIP. An event meets "path" if it has a value there, and "!path" if it has none. It meets
// "path=text" if its value is that text, number or truth value. It meets "path!=text" if it does not meet "path=text". Null is no
// value.
type condition struct {
	path     string
	names    []string
	text     string
	number   writtenNumber // the number that text writes
	compares bool          // compares the value with text
	negated  bool
}

// parseCondition reads a condition.
func parseCondition(text string) (c condition, err error) {
	c.path = text
	if path, value, ok := strings.Cut(text, "="); ok {
		c.compares, c.text = true, strings.TrimSpace(value)
		path, c.negated = strings.CutSuffix(path, "!")
		c.path = strings.TrimSpace(path)
		c.number = parseWritten(c.text)
	} else if path, ok := strings.CutPrefix(text, "!"); ok {
		c.path, c.negated = strings.TrimSpace(path), true
	}
	switch {
	case c.path == "" || strings.HasPrefix(c.path, "!"):
		return c, errors.New("is not a condition: write path, !path, path=value or path!=value")
	case strings.ContainsAny(c.path, "<>\"") || strings.HasPrefix(c.text, "=") || strings.HasPrefix(c.text, "~"):
		return c, errors.New("compares in a way that is not supported: write path=value or path!=value, and separate several conditions by commas")
	case len(c.text) > 1 && strings.ContainsAny(c.text[:1], "\"'") && c.text[0] == c.text[len(c.text)-1]:
		return c, errors.New("has a value in quotes, which would be part of the value: write it without quotes")
	case c.compares && c.text == "null":
		return c, errors.New("compares with null, which is no value: write !" + c.path + " for events without a value")
	}
	return c, nil
}

// isOn reports whether a condition examines one of the lists, or an object around a list. Such a condition must see the document
// before its lists are taken apart.
func (c *condition) isOn(lists []listPath) bool {
	path := strings.Join(c.names, ".")
	return slices.ContainsFunc(lists, func(l listPath) bool { return isPathPrefix(path, l.path) })
}

// meets reports whether an event meets one of the conditions.
func (s *stages) meets(conditions []condition, event []byte) bool {
	return slices.ContainsFunc(conditions, func(c condition) bool {
		e := lookUp(event, c.names)
		found := e.Kind != 0 && e.Kind != bson.TypeNull
		if c.compares {
			found = found && c.isWritten(e)
		}
		return found != c.negated
	})
}

// isWritten reports whether the condition's text writes a value. Numbers of all kinds compare by what they are worth.
func (c *condition) isWritten(e rawbson.Element) bool {
	n := &c.number
	switch e.Kind {
	case bson.TypeString:
		return string(rawbson.Text(e.Value)) == c.text
	case bson.TypeBoolean:
		return strconv.FormatBool(e.Value[0] != 0) == c.text
	case bson.TypeInt32, bson.TypeInt64:
		return n.isWhole && n.whole == integerOf(e.Kind, e.Value)
	case bson.TypeDouble:
		f := math.Float64frombits(binary.LittleEndian.Uint64(e.Value))
		return n.isFloat && (f == n.float || math.IsNaN(f) && math.IsNaN(n.float))
	case bson.TypeDecimal128:
		value, ok := bson.RawValue{Type: e.Kind, Value: e.Value}.Decimal128OK()
		return ok && n.isDecimal && n.decimal == plainDecimal(value)
	}
	return false
}

// writtenNumber is what a text is worth as a number of each kind.
type writtenNumber struct {
	whole                       int64
	float                       float64
	decimal                     string // as plainDecimal writes it
	isWhole, isFloat, isDecimal bool
}

func parseWritten(text string) (n writtenNumber) {
	f, err := strconv.ParseFloat(text, 64)
	n.float, n.isFloat = f, err == nil
	whole, err := strconv.ParseInt(text, 10, 64)
	n.whole, n.isWhole = whole, err == nil
	value, err := bson.ParseDecimal128(text)
	if err != nil {
		return n
	}
	n.decimal, n.isDecimal = plainDecimal(value), true
	n.isFloat = n.isFloat && (n.float != 0 || n.decimal == "0E0") // 1e-400 is not 0
	if !n.isWhole {                                               // such as 1.0 or 1e3
		digits, exponent, _ := strings.Cut(n.decimal, "E")
		if zeros, err := strconv.Atoi(exponent); err == nil && zeros >= 0 && zeros < 19 {
			whole, err = strconv.ParseInt(digits+strings.Repeat("0", zeros), 10, 64)
			n.whole, n.isWhole = whole, err == nil
		}
	}
	return n
}

// plainDecimal writes a decimal so that equal numbers have the same text: 1.50 is 15E-1, and both zeros are 0E0.
func plainDecimal(d bson.Decimal128) string {
	digits, exponent, err := d.BigInt()
	if err != nil {
		return strings.TrimPrefix(d.String(), "+") // NaN or an infinity
	}
	text := digits.String()
	if digits.Sign() == 0 {
		return "0E0"
	}
	significant := strings.TrimRight(text, "0")
	return significant + "E" + strconv.Itoa(exponent+len(text)-len(significant))
}

// tall is the stage for events that name their value in a field: {"name": "temp", "value": 21} becomes {"temp": 21}.
type tall struct {
	path   string   // path to the name
	name   []string // Nil means that the stage is not set.
	values []tallValue
}

// tallValue is a path at which the value may be.
type tallValue struct {
	names []string
	edits []edit // take the name out, give the value its name, and take the other values out if they are null
	leaf  *edit  // the edit of the value
	// reserved are the paths of the time and of parts of meta, from the object around the value.
	reserved []string
}

// values returns the paths of EVENT_FIELD_VALUE from the event's top, in the order in which they count.
func (o *Options) values() (list []string) {
	for path := range strings.SplitSeq(o.FieldValue, "|") {
		list = append(list, o.absolute(strings.TrimSpace(path)))
	}
	return list
}

// reservedBeside returns the paths that lead to time and meta from the object around a value, also after EVENT_RENAME.
func (o *Options) reservedBeside(path string) (paths []string) {
	around := path[:strings.LastIndexByte(path, '.')+1]
	add := func(path string) {
		if below, ok := strings.CutPrefix(path, around); ok {
			paths = append(paths, below)
		}
	}
	for _, leaf := range o.leaves() {
		if leaf.setting == settingDrop {
			continue
		}
		add(leaf.path)
		for _, text := range o.Rename {
			from, to := splitRename(text)
			from = o.absolute(from)
			if renamed := from[:strings.LastIndexByte(from, '.')+1] + to; isPathPrefix(renamed, leaf.path) {
				add(from)
			}
		}
	}
	return paths
}

// isOf reports whether a name is a path, leads to it or leads into it.
func isOf(name []byte, path string) bool {
	n := min(len(name), len(path))
	return string(name[:n]) == path[:n] && (len(name) == n || name[n] == '.') && (len(path) == n || path[n] == '.')
}

func newTall(o *Options) (t tall) {
	if o.FieldName == "" {
		return t
	}
	t.path = o.absolute(o.FieldName)
	t.name = strings.Split(t.path, ".")
	paths := o.values()
	for _, path := range paths {
		v := tallValue{names: strings.Split(path, ".")}
		growEdit(&v.edits, t.path).kind = editTake
		for _, other := range paths {
			growEdit(&v.edits, other).kind = editNull
		}
		v.leaf = growEdit(&v.edits, path)
		v.leaf.kind = editName
		v.reserved = o.reservedBeside(path)
		t.values = append(t.values, v)
	}
	return t
}

// nameValue renames the value of an event to the name that another field holds, and takes that field out. The value stays at its
// place.
func (s *stages) nameValue(event []byte) (out []byte, dotted bool, err *DecodeError) {
	t := &s.tall
	named := lookUp(event, t.name)
	if named.Kind == 0 {
		return nil, false, newError(MissingField, t.path, "%s", s.noName(event))
	}
	if named.Kind != bson.TypeString {
		return nil, false, newError(BadFieldName, t.path, "%s is not a string, but EVENT_FIELD_NAME expects the name of a value here: send a string, or correct the setting", quoteValue(named.Kind, named.Value))
	}
	name := rawbson.Text(named.Value)
	if len(name) == 0 || bytes.IndexByte(name, 0) >= 0 || !utf8.Valid(name) {
		return nil, false, newError(BadFieldName, t.path, "%s cannot be the name of a field, but EVENT_FIELD_NAME expects a name here: send a name without NUL characters", quoteText(name))
	}
	v := t.valueOf(event)
	if v == nil {
		return nil, false, newError(MissingField, strings.Join(t.values[0].names, "."), "the event lacks the value of %s, which EVENT_FIELD_VALUE=%s expects%s: send it, or correct the setting",
			quoteText(name), s.options.FieldValue, s.options.elementAdvice(strings.Join(t.values[0].names, ".")))
	}
	if slices.ContainsFunc(v.reserved, func(path string) bool { return isOf(name, path) }) {
		return nil, false, newError(BadFieldName, t.path, "the value is named %s, which is the name of the event's time or of a part of its meta: send another name, or skip such events with EVENT_SKIP", quoteText(name))
	}
	clear(s.found)
	v.leaf.to = append(v.leaf.to[:0], name...)
	hasDot := bytes.IndexByte(name, '.') >= 0
	out, err = s.edited(&s.named, event, v.edits)
	return out, hasDot, err
}

// noName is the detail of an error about an event without the name of its value.
func (s *stages) noName(event []byte) string {
	const expects = ", but EVENT_FIELD_NAME expects the name of the value here: "
	if array := arrayOn(event, s.tall.path); array != "" {
		return array + noWay + expects + "correct the setting, or send the name outside of arrays"
	}
	if advice := s.options.elementAdvice(s.tall.path); advice != "" {
		return "the event has no field here" + advice + expects + "correct the setting"
	}
	return "the event has no field here" + expects + "send it, or set EVENT_SKIP='!" + s.options.FieldName + "'"
}

// valueOf returns the first path at which an event has a value. If its values are null, this is the first of them. Nil means that
// the event has none.
func (t *tall) valueOf(event []byte) (null *tallValue) {
	for i := range t.values {
		switch e := lookUp(event, t.values[i].names); {
		case e.Kind != 0 && e.Kind != bson.TypeNull:
			return &t.values[i]
		case e.Kind != 0 && null == nil:
			null = &t.values[i]
		}
	}
	return null
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
