package rollup

import (
	"fmt"
	"slices"
	"strings"
)

// Fields are patterns of the fields that have totals. Each is a dotted path, in which * stands for any text. Empty means all
// fields.
type Fields []string

// CheckPattern returns why a pattern can match no field. Nil means that it can match one. The error's text continues a sentence
// that begins with the pattern.
func CheckPattern(pattern string) error {
	switch names := strings.Split(pattern, "."); {
	case pattern == "":
		return fmt.Errorf("is empty: give names of fields, such as celsius, wind.speed or wind.*")
	case strings.ContainsRune(pattern, 0):
		return fmt.Errorf("contains a NUL character, which no field name can contain")
	case slices.Contains(names, ""):
		return fmt.Errorf("has an empty name: give names of fields, such as celsius, wind.speed or wind.*")
	}
	return nil
}

// Match reports whether the field at a dotted path has totals.
func (fs Fields) Match(path string) bool {
	return len(fs) == 0 || slices.ContainsFunc(fs, func(pattern string) bool { return matches(pattern, path) })
}

// matches compares a text with a pattern. After each * it takes the first place where the next piece fits. This is enough,
// because a later * matches the rest.
func matches(pattern, text string) bool {
	pieces := strings.Split(pattern, "*")
	head, tail := pieces[0], pieces[len(pieces)-1]
	if len(pieces) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, head) || len(text) < len(head)+len(tail) || !strings.HasSuffix(text, tail) {
		return false
	}
	text = text[len(head) : len(text)-len(tail)]
	for _, piece := range pieces[1 : len(pieces)-1] {
		at := strings.Index(text, piece)
		if at < 0 {
			return false
		}
		text = text[at+len(piece):]
	}
	return true
}
