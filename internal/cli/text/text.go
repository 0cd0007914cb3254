// Package text formats the output of commands and pages for people: tables, charts, progress lines, values in words, and the
// common form of JSON.
package text

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// Unknown stands for a missing or unknown value.
const Unknown = "–"

// maxListed is the maximum number of names in a list.
const maxListed = 8

// Time formats a time for tables.
func Time(t time.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// Ago formats how long before now something was. It returns "never" for the zero time.
func Ago(now, then time.Time) string {
	if then.IsZero() {
		return "never"
	}
	return now.Sub(then).Round(100*time.Millisecond).String() + " ago"
}

// Seconds formats a duration. Nil means unknown.
func Seconds(seconds *float64) string {
	if seconds == nil {
		return Unknown
	}
	return time.Duration(*seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
}

// Number formats an offset or a number of records. Nil means unknown.
func Number(n *int64) string {
	if n == nil {
		return Unknown
	}
	return strconv.FormatInt(*n, 10)
}

// Grouped formats a number with commas between thousands.
func Grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Bytes formats a size with one decimal.
func Bytes(n int64) string {
	const step = 1024
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for value >= step && i < len(units)-1 {
		value /= step
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[i])
}

// List joins names, but only a limited number of them.
func List(names []string) string {
	if over := len(names) - maxListed; over > 1 {
		return strings.Join(names[:maxListed], ", ") + fmt.Sprintf(" and %d more", over)
	}
	return strings.Join(names, ", ")
}

// UUID formats an id as MongoDB's shell does.
func UUID(id [16]byte) string {
	s := hex.EncodeToString(id[:])
	return strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-")
}

// Shorten cuts a text to at most most characters.
func Shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// Fit cuts a text to at most most characters if it is written to a terminal. A pipe or a file gets the whole text.
func Fit(w io.Writer, s string, most int) string {
	if out, ok := w.(*Output); ok && out.Terminal {
		return Shorten(s, most)
	}
	return s
}

// Printable makes untrusted text harmless for a terminal. Control characters and invalid UTF-8 become visible.
func Printable(s string) string {
	if !strings.ContainsFunc(s, IsControl) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || IsControl(r) {
			for i := range n {
				fmt.Fprintf(&b, `\x%02x`, s[i])
			}
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// IsControl reports whether a terminal acts on a character.
func IsControl(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// Table is a table whose columns are as wide as their widest cells. It writes nothing before Flush.
type Table struct{ columns *tabwriter.Writer }

// NewTable returns a table that begins with these titles, if there are any.
func NewTable(w io.Writer, titles ...string) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(titles) > 0 {
		t.Title(titles...)
	}
	return t
}

// Title writes a row of titles.
func (t *Table) Title(titles ...string) { fmt.Fprintln(t.columns, strings.Join(titles, "\t")) }

// Row writes a row. Strings are made printable, times are formatted with Time, and everything else with fmt.
func (t *Table) Row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		if at, ok := cell.(time.Time); ok {
			cell = Time(at)
		}
		texts[i] = Printable(fmt.Sprint(cell))
	}
	fmt.Fprintln(t.columns, strings.Join(texts, "\t"))
}

// Flush writes the rows. The underlying writer keeps any error.
func (t *Table) Flush() { _ = t.columns.Flush() }

// longestBar is the length of the longest bar in characters.
const longestBar = 40

// Chart writes counts with bars, the largest first.
func Chart(w io.Writer, title, things string, counts map[string]int64) {
	table := NewTable(w, title, things, "")
	names := ByCount(counts)
	for _, name := range names {
		table.Row(name, counts[name], Bar(counts[name], counts[names[0]]))
	}
	table.Flush()
}

// Bar draws a count. Every count has at least a dot.
func Bar(count, most int64) string {
	if n := count * longestBar / max(1, most); n > 0 {
		return strings.Repeat("█", int(n))
	}
	return "·"
}

// ByCount returns the names, sorted by descending count.
func ByCount(counts map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// Sum returns the sum of counts.
func Sum(counts map[string]int64) (n int64) {
	for _, count := range counts {
		n += count
	}
	return n
}
