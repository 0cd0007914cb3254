package rollup

import (
	"fmt"
	"slices"
	"strings"
)

// Fields are patterns of the fields that have totals: dotted paths, in which * stands for any text. Empty means all fields.
type Fields []string

// CheckPattern explains why a pattern could match no field; nil means that it could. The error goes on behind the pattern.
func CheckPattern(pattern string) error {
	switch names := strings.Split(pattern, "."); {
	case pattern == "":
		return fmt.Errorf("is empty: give names of fields, such as celsius, wind.speed or wind.*")
	case strings.ContainsRune(pattern, 0):
		return fmt.Errorf("has a NUL, which no name of a field has")
	case slices.Contains(names, ""):
		return fmt.Errorf("has an empty name: give names of fields, such as celsius, wind.speed or wind.*")
	}
	return nil
}

// Match reports whether a field, by its dotted path, has totals.
func (fs Fields) Match(path string) bool {
	return len(fs) == 0 || slices.ContainsFunc(fs, func(pattern string) bool { return matches(pattern, path) })
}

// matches compares a text with a pattern. After each * it takes the first place where the piece behind it fits, which is enough,
// since a later * takes up what is left.
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
