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

// set gives the field a value in its own notation, the empty one leaves it as it is; else it says what would be right.
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
		hint = "neither true nor false"
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
		hint = "not a whole number"
	}
	if err != nil {
		return value, errors.New(hint + f.boundsHint())
	}
	return value, nil
}

// errNotRead is why a value could not be read; the hint says what it should be.
var errNotRead = errors.New("not read")

// allowed are the words that the field may have. Nil means any.
func (f *field) allowed() []string {
	if f.tag("oneof") == "" {
		return nil
	}
	return strings.Split(f.tag("oneof"), ",")
}

// canonical is the word of those allowed that a text means, in whatever case and with whatever hyphens it is written, and the text
// itself where it means none.
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

// outside says which bound the field's value exceeds. Empty means none.
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

// bound is a min or max tag as a number. The tags are ours: a test reads each of them.
func (f *field) bound(tag string) int64 {
	n, err := f.parse(f.tag(tag))
	if err != nil {
		panic(fmt.Sprintf("config: tag %s of %s: %v", tag, f.name(), err))
	}
	return n.Int()
}

// counted is a min or max tag with what the number counts.
func (f *field) counted(tag string) string {
	if f.tag("unit") == "" {
		return f.tag(tag)
	}
	return words.Count(f.bound(tag), f.tag("unit"))
}

// boundsHint is ", from … to …" as far as there are bounds.
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
