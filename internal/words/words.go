// Package words formats counts in sentences, suggests words for misspelt ones, and parses and formats lengths of time as people
// write them. It also finds time zones.
package words

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
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

// spanForm matches a length of time as people write it: weeks and days, and then the form of Go's durations.
var spanForm = regexp.MustCompile(`^([+-]?)(?:(\d+)w)?(?:(\d+)d)?([0-9.].*)?$`)

// ParseSpan parses a length of time such as 90s, 1h30m, 7d, 2w or 1d12h, with or without a sign.
func ParseSpan(text string) (time.Duration, bool) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, true
	}
	const day = 24 * time.Hour
	parts := spanForm.FindStringSubmatch(text)
	if parts == nil || parts[2]+parts[3] == "" {
		return 0, false
	}
	sign, counts, rest := parts[1], parts[2:4], parts[4]
	var d time.Duration
	for i, unit := range []time.Duration{7 * day, day} {
		if counts[i] == "" {
			continue
		}
		n, err := strconv.Atoi(counts[i])
		if err != nil || n > int(100*366*day/unit) { // at most a hundred years each, so that their sum cannot overflow
			return 0, false
		}
		d += time.Duration(n) * unit
	}
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || more > math.MaxInt64-d {
			return 0, false
		}
		d += more
	}
	if sign == "-" {
		d = -d
	}
	return d, true
}

// Span formats a length of time as people write it, and as ParseSpan reads it: 30d and 1h, not 720h0m0s and 1h0m0s.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	if d > day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return Duration(d)
}

// Duration formats a duration without zeros at its end: 24h, not 24h0m0s.
func Duration(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}

// ParseZone finds a time zone by its name. An empty name is UTC. The error continues a sentence that begins with the name of a flag
// or a parameter.
func ParseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("is %q, and there is no such time zone: give a name of the time zone database, such as Europe/Berlin or UTC", name)
	}
	return zone, nil
}
