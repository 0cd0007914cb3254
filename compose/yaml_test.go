package compose

import (
	"encoding/json"
	"fmt"
	"strings"
)

// readYAML reads the part of YAML that docker-compose.yml keeps to: nested mappings and lists, one entry a line; values that
// are plain, quoted, lists as JSON, or literal blocks; comments on lines of their own. Anything else is an error. It returns
// map[string]any, []any and string.
func readYAML(text string) (any, error) {
	r := &yamlReader{}
	for i, line := range strings.Split(text, "\n") {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		r.lines = append(r.lines, yamlLine{number: i + 1, indent: indent, text: strings.TrimRight(line[indent:], " ")})
	}
	r.skipBlank()
	value, err := r.block()
	if err == nil && r.at < len(r.lines) {
		err = r.errorf("does not belong to what is above it")
	}
	return value, err
}

type yamlLine struct {
	number, indent int
	text           string
}

type yamlReader struct {
	lines []yamlLine
	at    int
}

func (r *yamlReader) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", r.lines[min(r.at, len(r.lines)-1)].number, fmt.Sprintf(format, args...))
}

// skipBlank moves on to the next line that says something.
func (r *yamlReader) skipBlank() {
	for r.at < len(r.lines) && (r.lines[r.at].text == "" || r.lines[r.at].text[0] == '#') {
		r.at++
	}
}

// block reads the mapping or list that begins at the current line.
func (r *yamlReader) block() (any, error) {
	if strings.HasPrefix(r.lines[r.at].text, "- ") {
		return r.list(r.lines[r.at].indent)
	}
	return r.mapping(r.lines[r.at].indent)
}

func (r *yamlReader) list(indent int) (any, error) {
	var list []any
	for r.at < len(r.lines) && r.lines[r.at].indent == indent && strings.HasPrefix(r.lines[r.at].text, "- ") {
		value, err := r.value(strings.TrimPrefix(r.lines[r.at].text, "- "), indent)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

func (r *yamlReader) mapping(indent int) (any, error) {
	mapping := map[string]any{}
	for r.at < len(r.lines) && r.lines[r.at].indent == indent {
		key, text, found := strings.Cut(r.lines[r.at].text, ":")
		if _, twice := mapping[key]; !found || twice || strings.ContainsAny(key, " \"'{[") {
			return nil, r.errorf("is not a new key")
		}
		value, err := r.value(strings.TrimLeft(text, " "), indent)
		if err != nil {
			return nil, err
		}
		mapping[key] = value
	}
	return mapping, nil
}

// value reads what stands after a key or a dash, on the same line or below it.
func (r *yamlReader) value(text string, indent int) (any, error) {
	switch {
	case text == "|":
		return r.literal(indent), nil
	case text == "":
		r.at++
		r.skipBlank()
		if r.at < len(r.lines) && r.lines[r.at].indent > indent {
			return r.block()
		}
		return "", nil
	case text[0] == '[' || text[0] == '"':
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return nil, r.errorf("%v", err)
		}
		r.at++
		r.skipBlank()
		return value, nil
	case strings.ContainsAny(text[:1], "{}&*!>%@`'") || strings.Contains(text, ": ") || strings.Contains(text, " #"):
		return nil, r.errorf("has a value this reader does not know: %s", text)
	}
	r.at++
	r.skipBlank()
	return text, nil
}

// literal reads the lines of a literal block, without their common indentation.
func (r *yamlReader) literal(indent int) string {
	var b strings.Builder
	first := -1
	for r.at++; r.at < len(r.lines); r.at++ {
		line := r.lines[r.at]
		if line.text != "" && line.indent <= indent {
			break
		}
		if first < 0 {
			first = line.indent
		}
		b.WriteString(strings.Repeat(" ", max(0, line.indent-first)) + line.text + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
