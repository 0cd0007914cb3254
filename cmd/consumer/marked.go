package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/cmd/consumer/internal/text"
)

// shownBytes is how much is shown of a value that is no text.
const shownBytes = 1 << 10

// markedValue shows a record's value for a person, with a line of carets under the field that a dotted path leads to, or
// under the place where the text ceases to be JSON. It changes nothing of a JSON value but its white space. asBSON: the
// value should be a BSON document.
func markedValue(value []byte, asBSON bool, path string) string {
	if asBSON {
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
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = max(0, int(syntax.Offset)-1)
	}
	return withCarets(value, span{at, at + 1})
}

// isText tells whether most of a value is meant to be read.
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
	f := pathFinder{decoder: json.NewDecoder(bytes.NewReader(text)), text: text, wanted: path, found: span{0, 1}}
	f.decoder.UseNumber()
	f.value("")
	return withCarets(text, f.found)
}

// pathFinder looks for a field in indented JSON, or for the object that lacks it. Where names repeat the last counts: it is
// the one that is wrong.
type pathFinder struct {
	decoder *json.Decoder
	text    []byte
	wanted  string
	found   span
	depth   int // length of the path found
}

// value reads the value at a path; false: the text has ended.
func (f *pathFinder) value(path string) bool {
	token, err := f.decoder.Token()
	if err != nil {
		return false
	}
	switch token {
	case json.Delim('{'):
		for f.decoder.More() {
			start := f.next()
			name, err := f.decoder.Token()
			if err != nil {
				return false
			}
			if !f.member(path, name.(string), start) {
				return false
			}
		}
	case json.Delim('['):
		for i := 0; f.decoder.More(); i++ {
			if !f.member(path, strconv.Itoa(i), f.next()) {
				return false
			}
		}
	default:
		return true
	}
	_, err = f.decoder.Token()
	return err == nil
}

// member reads the value of a name that begins at start.
func (f *pathFinder) member(path, name string, start int) bool {
	if path != "" {
		name = path + "." + name
	}
	ok := f.value(name)
	if strings.HasPrefix(f.wanted+".", name+".") && len(name) >= f.depth {
		f.found, f.depth = span{start, int(f.decoder.InputOffset())}, len(name)
	}
	return ok
}

// next is where the next token begins.
func (f *pathFinder) next() int {
	at := int(f.decoder.InputOffset())
	return at + len(f.text[at:]) - len(bytes.TrimLeft(f.text[at:], ", \t\r\n"))
}

// withCarets prints a text harmlessly, with carets under the first line of a span.
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

// printableLine shows tabs as one space, so that carets stand under what they mean.
func printableLine(line []byte) string {
	return text.Printable(strings.ReplaceAll(string(line), "\t", " "))
}

func width(line []byte) int { return utf8.RuneCountInString(printableLine(line)) }
