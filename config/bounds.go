package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// explain says what a value should have looked like. go-envconfig's own words name Go's types and functions.
func explain(f *field, err error) string {
	switch f.value.Interface().(type) {
	case time.Duration:
		return "not a duration: write a number with its unit, as 500ms, 10s or 2m" + f.boundsHint()
	case Size:
		return "not a size: write a whole number with KiB, MiB or GiB" + f.boundsHint()
	case Start, TimeBound, Places:
		return strings.TrimPrefix(err.Error(), f.structField.Name+": ")
	}
	switch f.value.Kind() {
	case reflect.Bool:
		return "neither true nor false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "not a whole number" + f.boundsHint()
	}
	return err.Error()
}

// outside says which bound the field's value exceeds; empty: none. It trims lists on the way.
func (f *field) outside() string {
	switch v := f.value.Interface().(type) {
	case []string:
		for i := range v {
			v[i] = strings.TrimSpace(v[i])
		}
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
	n, err := f.parseBound(f.tag(tag))
	if err != nil {
		panic(fmt.Sprintf("config: tag %s of %s: %v", tag, f.name(), err))
	}
	return n
}

func (f *field) parseBound(text string) (int64, error) {
	switch f.value.Interface().(type) {
	case time.Duration:
		d, err := time.ParseDuration(text)
		return int64(d), err
	case Size:
		s, err := ParseSize(text)
		return int64(s), err
	}
	return strconv.ParseInt(text, 10, 64)
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
