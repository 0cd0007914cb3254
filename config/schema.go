package config

import (
	"reflect"
	"strings"
	"time"
)

// These are JSON Schema patterns of values with a notation. An empty value counts as not set.
const (
	durationPattern = `^(([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h|d|w))+)?$`
	sizePattern     = `^([0-9]+ ?([KkMmGgTt]?[Bb]|[KkMmGgTt]([Ii][Bb]?)?)?)?$`
	numberPattern   = `^([0-9]+)?$`
)

// Schema describes each setting in JSON Schema, by name, for files that hold settings as a map. Every value may be written as
// text. Numbers and switches may also be written as such.
func Schema() map[string]any {
	all := map[string]any{}
	for _, f := range fields(&Config{}) {
		all[f.name()] = f.schema()
		all[f.name()+fileSuffix] = map[string]any{"type": "string", "description": "path of a file that holds " + f.name()}
	}
	return all
}

func (f *field) schema() map[string]any {
	s := map[string]any{"description": f.tag("doc")}
	switch kind := f.value.Kind(); {
	case f.allowed() != nil:
		words := append([]string{""}, f.allowed()...)
		for also := range strings.SplitSeq(f.tag("also"), ",") {
			if word, _, is := strings.Cut(also, "="); is {
				words = append(words, word)
			}
		}
		s["enum"] = words
	case f.value.Type() == reflect.TypeFor[time.Duration]():
		s["type"], s["pattern"] = "string", durationPattern
	case f.value.Type() == reflect.TypeFor[Size]():
		s["type"], s["pattern"] = "string", sizePattern
	case kind == reflect.Bool:
		s["enum"] = []any{true, false, "", "true", "false", "on", "off", "yes", "no"}
	case f.value.CanInt():
		s["type"], s["pattern"] = []string{"integer", "string"}, numberPattern
		if f.tag("min") != "" {
			s["minimum"] = f.bound("min")
		}
		if f.tag("max") != "" {
			s["maximum"] = f.bound("max")
		}
	default:
		s["type"] = "string"
	}
	return s
}
