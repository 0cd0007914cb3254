package cli

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/measurement"
)

// shownBytes is how much is shown of a value that is not text.
const shownBytes = 1 << 10

// markedValue formats a record's value for a person. It marks the field at a dotted path, or the place where the text stops being
// JSON, with a line of carets. It changes only the white space of a JSON value. It shows lines as they are.
func markedValue(value []byte, format measurement.Format, path string) string {
	if format == measurement.Influx && isText(value) {
		return withCarets(value, span{-1, -1})
	}
	if format == measurement.BSON {
		if raw := bson.Raw(value); raw.Validate() == nil {
			if text, err := bson.MarshalExtJSONIndent(raw, false, false, "", "  "); err == nil {
				return marked(text, path)
			}
		}
		return hexDump(value)
	}
	var text bytes.Buffer
	err := json.Indent(&text, value, "", "  ")
	if err == nil {
		return marked(text.Bytes(), path)
	}
	if !isText(value) {
		return hexDump(value)
	}
	at := len(value)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = max(0, int(syntax.Offset)-1)
	}
	return withCarets(value, span{at, at + 1})
}

// isText reports whether most of a value is readable text.
func isText(value []byte) bool {
	const tolerated = 10 // of a hundred
	odd := 0
	for rest := value; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 || text.IsControl(r) && !strings.ContainsRune("\r\n\t", r) {
			odd++
		}
		rest = rest[n:]
	}
	return odd*100 <= len(value)*tolerated
}

func hexDump(value []byte) string {
	text := hex.Dump(value[:min(len(value), shownBytes)])
	if len(value) > shownBytes {
		text += "… " + strconv.Itoa(len(value)-shownBytes) + " bytes more: --raw writes all\n"
	}
	return text
}

// span is a part of a text, in bytes.
type span struct{ start, end int }

func marked(text []byte, path string) string {
	if path == "" {
		return withCarets(text, span{-1, -1})
	}
	return withCarets(text, fieldAt(text, path))
}

// nesting is an object or array that contains the current line of indented JSON.
type nesting struct {
	at   string // its path
	list bool
	next int // index of the next element of a list
}

// fieldAt returns the position of the field at a path in indented JSON, where each field begins a line. If there is no such
// field, it returns the object that lacks it. Of repeated names the last counts, because that one is wrong.
func fieldAt(text []byte, wanted string) span {
	found, length := span{0, 1}, 0
	var in []nesting
	start := 0
	for line := range bytes.Lines(text) {
		at := start + len(line) - len(bytes.TrimLeft(line, " "))
		start += len(line)
		field := string(bytes.TrimRight(bytes.TrimSpace(line), ","))
		if field == "" || field == "}" || field == "]" {
			in = in[:max(0, len(in)-1)]
			continue
		}
		path := ""
		if len(in) > 0 {
			path = in[len(in)-1].path(field)
			if strings.HasPrefix(wanted+".", path+".") && len(path) >= length {
				found, length = span{at, at + len(field)}, len(path)
			}
		}
		if last := field[len(field)-1]; last == '{' || last == '[' {
			in = append(in, nesting{at: path, list: last == '['})
		}
	}
	return found
}

// path returns the path of the field on a line.
func (n *nesting) path(field string) string {
	name := strconv.Itoa(n.next)
	n.next++
	if !n.list {
		token, _ := json.NewDecoder(strings.NewReader(field)).Token()
		name, _ = token.(string)
	}
	return strings.TrimPrefix(n.at+"."+name, ".")
}

// withCarets formats a text in printable form, with carets under the first line of a span.
func withCarets(text []byte, at span) string {
	var b strings.Builder
	start := 0
	for line := range bytes.Lines(text) {
		end := start + len(line)
		visible := bytes.TrimRight(line, "\r\n")
		b.WriteString(printableLine(visible))
		b.WriteByte('\n')
		if at.start >= start && (at.start < end || end == len(text)) {
			from := min(at.start-start, len(visible))
			to := max(from, min(at.end-start, len(visible)))
			b.WriteString(strings.Repeat(" ", width(visible[:from])))
			b.WriteString(strings.Repeat("^", max(1, width(visible[from:to]))))
			b.WriteByte('\n')
		}
		start = end
	}
	return b.String()
}

// printableLine shows each tab as one space, so that carets are below the right characters.
func printableLine(line []byte) string {
	return text.Printable(strings.ReplaceAll(string(line), "\t", " "))
}

func width(line []byte) int { return utf8.RuneCountInString(printableLine(line)) }
