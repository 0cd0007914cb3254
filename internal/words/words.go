// Package words formats counts in sentences, suggests words for misspelt ones, and parses and formats lengths of time as people
// write them. It also finds time zones.
package words

import (
	"fmt"
	"slices"
	"strings"
)

// Count formats a number of things: 1 partition, 2 partitions. A thing is a noun in the singular.
func Count[N ~int | ~int32 | ~int64](n N, thing string) string {
	return fmt.Sprintf("%d %s", n, Form(n, thing, plural(thing)))
}

// Form returns the form of a word for a number, such as "is" or "are".
func Form[N ~int | ~int32 | ~int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// plural returns the plural of a noun.
func plural(noun string) string {
	switch stem, isY := strings.CutSuffix(noun, "y"); {
	case strings.HasSuffix(noun, "series"):
		return noun
	case isY && !strings.ContainsRune("aeiou", rune(stem[len(stem)-1])):
		return stem + "ies"
	case strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "ch"):
		return noun + "es"
	}
	return noun + "s"
}

// Plain returns a word in lower case, without hyphens, underscores and blanks, which people write differently.
func Plain(word string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(word))
}

// Near returns the known word that a misspelt word was probably meant to be. That is one that begins with the word, or differs in
// a letter or two. Empty means that there is none.
func Near(word string, known []string) string {
	const least = 3 // the least number of letters at which a beginning of a word stands for it
	plain := Plain(word)
	if plain == "" {
		return ""
	}
	best, limit := "", 2+len(plain)/6
	for _, k := range known {
		other := Plain(k)
		if other == plain || len(plain) >= least && strings.HasPrefix(other, plain) {
			return k
		}
		if d := Distance(plain, other); d < limit && d < len(plain) {
			best, limit = k, d
		}
	}
	return best
}

// DidYouMean returns the end of a sentence about an unknown word, with the nearest known word. It is empty if no known word is
// near.
func DidYouMean(word string, known []string) string {
	if near := Near(word, known); near != "" {
		return ": did you mean " + near + "?"
	}
	return ""
}

// Distance counts the inserted, deleted, replaced and exchanged bytes between two words.
func Distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(above[j]+cost, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before = above
	}
	return row[len(b)]
}
