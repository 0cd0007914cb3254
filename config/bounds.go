package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
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
		*p, err = time.ParseDuration(text)
		hint = "not a duration: write a number with its unit, as 500ms, 10s or 2m"
	case *[]string:
		for part := range strings.SplitSeq(text, ",") {
			*p = append(*p, strings.TrimSpace(part))
		}
	case *bool:
		*p, err = strconv.ParseBool(text)
		hint = "neither true nor false"
	case encoding.TextUnmarshaler:
		if err = p.UnmarshalText([]byte(text)); err != nil {
			hint = err.Error()
		}
	default:
		if value.Kind() == reflect.String {
			value.SetString(text)
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

// outside says which bound the field's value exceeds; empty: none.
func (f *field) outside() string {
	switch v := f.value.Interface().(type) {
	case []string:
		if slices.Contains(v, "") {
			return "has an empty element"
		}
		return ""
	case string:
		allowed := strings.Split(f.tag("oneof"), ",")
		if f.tag("oneof") != "" && !slices.Contains(allowed, v) {
			return "must be one of " + strings.Join(allowed, ", ")
		}
		return ""
	}
	if !f.value.CanInt() || f.tag("min") == "" {
		return ""
	}
	if n := f.value.Int(); n < f.bound("min") {
		return "must be at least " + f.tag("min") + f.unit()
	} else if f.tag("max") != "" && n > f.bound("max") {
		return "must be at most " + f.tag("max") + f.unit()
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

func (f *field) unit() string {
	if f.tag("unit") == "" {
		return ""
	}
	return " " + f.tag("unit")
}

// boundsHint is ", from … to …" as far as there are bounds.
func (f *field) boundsHint() string {
	switch low, high := f.tag("min"), f.tag("max"); {
	case low == "":
		return ""
	case high == "":
		return ", at least " + low + f.unit()
	default:
		return ", from " + low + " to " + high + f.unit()
	}
}
