package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"waterwheel/internal/words"
)

// field is one setting: its definition in the tags of Config, and its value in one Config.
type field struct {
	structField reflect.StructField
	value       reflect.Value // settable
	group       string        // the title of its group
}

// fields lists the settings of a Config in their order.
func fields(c *Config) []field {
	var list []field
	root := reflect.ValueOf(c).Elem()
	for i := range root.NumField() {
		if !root.Type().Field(i).IsExported() {
			continue
		}
		group := root.Field(i)
		for j := range group.NumField() {
			list = append(list, field{
				structField: group.Type().Field(j),
				value:       group.Field(j),
				group:       root.Type().Field(i).Tag.Get("title"),
			})
		}
	}
	return list
}

// name returns the name of the variable.
func (f *field) name() string {
	name, _, _ := strings.Cut(f.structField.Tag.Get("env"), ",")
	return name
}

func (f *field) tag(key string) string { return f.structField.Tag.Get(key) }

// summary returns the first sentence of the doc tag.
func (f *field) summary() string {
	first, _, _ := strings.Cut(f.tag("doc"), ". ")
	return first
}

func (f *field) required() bool { return strings.HasSuffix(f.tag("env"), ",required") }

// fallback returns the default in the env tag. The default is the last option of the tag.
func (f *field) fallback() string {
	_, text, _ := strings.Cut(f.tag("env"), ",default=")
	return text
}

// takesEmpty reports whether the variable may be set to the empty string.
func (f *field) takesEmpty() bool {
	_, ok := f.structField.Tag.Lookup("empty")
	return ok
}

// secret reports whether the value must not be shown.
func (f *field) secret() bool {
	switch f.value.Interface().(type) {
	case Secret, URI:
		return true
	}
	return false
}

// set sets the field from a text in its own notation. An empty text changes nothing. set returns a message about a wrong value,
// or "".
func (f *field) set(text string) string {
	if text == "" {
		return ""
	}
	value, err := f.parse(text)
	if err != nil {
		return err.Error()
	}
	f.value.Set(value)
	return f.outside()
}

// parse reads a value in the field's own notation.
func (f *field) parse(text string) (reflect.Value, error) {
	pointer := reflect.New(f.value.Type())
	value, hint := pointer.Elem(), ""
	var err error
	switch p := pointer.Interface().(type) {
	case *time.Duration:
		var ok bool
		if *p, ok = words.ParseSpan(text); !ok {
			err = errNotRead
		}
		hint = "not a duration: write a number with its unit, as 500ms, 10s, 2m or 30d"
	case *[]string:
		for part := range strings.SplitSeq(text, ",") {
			*p = append(*p, strings.TrimSpace(part))
		}
	case *bool:
		switch strings.ToLower(text) {
		case "yes", "on":
			*p = true
		case "no", "off":
		default:
			*p, err = strconv.ParseBool(text)
		}
		hint = "must be true or false"
	case encoding.TextUnmarshaler:
		if err = p.UnmarshalText([]byte(text)); err != nil {
			hint = err.Error()
		}
	default:
		if value.Kind() == reflect.String {
			value.SetString(f.canonical(text))
			break
		}
		var n int64
		n, err = strconv.ParseInt(text, 0, value.Type().Bits())
		value.SetInt(n)
		hint = "must be a whole number"
	}
	if err != nil {
		return value, errors.New(hint + f.boundsHint())
	}
	return value, nil
}

// errNotRead means that a value could not be parsed. The hint says what it should be.
var errNotRead = errors.New("not read")

// allowed returns the words that the field may have. Nil means any text.
func (f *field) allowed() []string {
	if f.tag("oneof") == "" {
		return nil
	}
	return strings.Split(f.tag("oneof"), ",")
}

// canonical returns the allowed word that a text means, whatever its case and its hyphens. If the text means none, canonical
// returns the text itself.
func (f *field) canonical(text string) string {
	for _, word := range f.allowed() {
		if words.Plain(word) == words.Plain(text) {
			return word
		}
	}
	for other := range strings.SplitSeq(f.tag("also"), ",") {
		if name, word, _ := strings.Cut(other, "="); word != "" && words.Plain(name) == words.Plain(text) {
			return word
		}
	}
	return text
}

// outside returns a message about the bound that the field's value exceeds. Empty means that it exceeds none.
func (f *field) outside() string {
	switch v := f.value.Interface().(type) {
	case []string:
		if slices.Contains(v, "") {
			return "has an empty element"
		}
		return ""
	case string:
		if allowed := f.allowed(); len(allowed) > 0 && !slices.Contains(allowed, v) {
			return "must be one of " + strings.Join(allowed, ", ") + cmp.Or(words.DidYouMean(v, allowed), f.tag("hint"))
		}
		return ""
	}
	if !f.value.CanInt() || f.tag("min") == "" {
		return ""
	}
	if n := f.value.Int(); n < f.bound("min") {
		return "must be at least " + f.counted("min")
	} else if f.tag("max") != "" && n > f.bound("max") {
		return "must be at most " + f.counted("max")
	}
	return ""
}

// bound returns a min or max tag as a number. The tags are constants of this package, and a test parses each of them.
func (f *field) bound(tag string) int64 {
	n, err := f.parse(f.tag(tag))
	if err != nil {
		panic(fmt.Sprintf("config: tag %s of %s: %v", tag, f.name(), err))
	}
	return n.Int()
}

// counted returns a min or max tag with its unit.
func (f *field) counted(tag string) string {
	if f.tag("unit") == "" {
		return f.tag(tag)
	}
	return words.Count(f.bound(tag), f.tag("unit"))
}

// boundsHint returns ", from … to …" or ", at least …", or nothing if there are no bounds.
func (f *field) boundsHint() string {
	switch low, high := f.tag("min"), f.tag("max"); {
	case low == "":
		return ""
	case high == "":
		return ", at least " + f.counted("min")
	default:
		return ", from " + low + " to " + f.counted("max")
	}
}
