package config

import (
	"reflect"
	"strings"
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
