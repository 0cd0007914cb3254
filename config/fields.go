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

// Setting is one effective setting.
type Setting struct {
	Name string `json:"name"`
	// Value is in the setting's own notation. Secrets are masked.
	Value string `json:"value"`
}

// Settings lists all settings in the order of the reference. The settings that differ for a topic follow, as NAME[topic].
func (c Config) Settings() []Setting {
	var list []Setting
	for _, f := range fields(&c) {
		list = append(list, Setting{Name: f.name(), Value: f.render()})
	}
	general := len(list)
	for i := range c.topics {
		for j, f := range fields(&c.topics[i].Config) {
			if value := f.render(); j < general && byTopic(f.name()) && value != list[j].Value {
				list = append(list, Setting{Name: f.name() + "[" + c.topics[i].topic + "]", Value: value})
			}
		}
	}
	return list
}

// render formats the value in its own notation. It returns an empty string if the setting is off or not set.
func (f *field) render() string {
	switch value := f.value.Interface().(type) {
	case time.Duration:
		if value == 0 {
			return ""
		}
		return words.Duration(value)
	case []string:
		return strings.Join(value, ",")
	case string:
		if strings.Contains(value, "\n") { // a schema, put into one line
			return strings.Join(strings.Fields(value), " ")
		}
	}
	if f.tag("shown") != "" && f.value.IsZero() {
		return ""
	}
	return fmt.Sprint(f.value.Interface())
}

// Markdown returns the reference of all settings, docs/configuration.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(preface)
	group := ""
	for _, f := range fields(&Config{}) {
		if f.group != group {
			group = f.group
			fmt.Fprintf(&b, "\n## %s\n\n| variable | default | what |\n|---|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.name(), f.shownDefault(), f.description())
	}
	return b.String()
}

// preface begins the reference.
const preface = `# Settings

Generated by ` + "`make docs`" + ` from the definitions in config/config.go.

Settings are environment variables. They are read once, at start, and all problems are reported together. ` + "`waterwheel config`" + ` prints
the settings in effect, with secrets masked.

- ` + "`NAME_FILE`" + ` instead of ` + "`NAME`" + ` holds the path of a file to read the value from, for secrets. When the secret in it changes, the
  consumer releases its partitions within half a minute, as at a SIGTERM, and starts again with the current values of all settings.
- A variable that is set to the empty string counts as not set, except where the table gives empty a meaning.
- A variable with the misspelt name of a setting is an error. The name that another client uses for a setting is an error if the
  setting is not set: for example ` + "`KAFKA_SECURITY_PROTOCOL`" + ` without ` + "`KAFKA_SECURITY`" + `. Other variables whose names begin like settings
  are mentioned at start, and by ` + "`check`" + `.
- Durations are numbers with their unit: ` + "`500ms`, `10s`, `2m`, `24h`, `30d`, `2w`, `1h30m`" + `. Sizes are whole numbers with ` + "`B`, `KiB`, `MiB`, `GiB`" + ` or ` + "`TiB`" + `;
  ` + "`64M`, `64MB` and `64Mi`" + ` mean 64 MiB.
- Words are accepted in upper and lower case, and with hyphens or underscores: ` + "`JSON`, `Read-Committed`" + `. Switches are ` + "`true`" + ` or ` + "`false`" + `,
  ` + "`on`" + ` or ` + "`off`, `yes` or `no`" + `.
- A value in quotes is refused, because Docker makes the quotes in an env file a part of the value. Only a password may begin and end with a quote.
`

func (f *field) shownDefault() string {
	switch {
	case f.required():
		return "required"
	case f.tag("shown") != "":
		return f.tag("shown")
	case f.fallback() != "":
		return "`" + f.fallback() + "`"
	}
	return "–"
}

// description returns the doc tag with the allowed values and bounds.
func (f *field) description() string {
	text := strings.ReplaceAll(f.tag("doc"), "|", `\|`)
	var notes []string
	if values := f.tag("oneof"); values != "" {
		notes = append(notes, "one of `"+strings.ReplaceAll(values, ",", "`, `")+"`")
	}
	if low, high := f.tag("min"), f.tag("max"); high != "" {
		notes = append(notes, fmt.Sprintf("`%s` to `%s`%s", low, high, strings.TrimPrefix(f.counted("max"), high)))
	} else if low != "" {
		notes = append(notes, fmt.Sprintf("at least `%s`%s", low, strings.TrimPrefix(f.counted("min"), low)))
	}
	if meaning := f.tag("empty"); meaning != "" {
		notes = append(notes, "empty: "+meaning)
	}
	if len(notes) == 0 {
		return text
	}
	return text + " (" + strings.Join(notes, "; ") + ")"
}

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
