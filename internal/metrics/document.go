package metrics

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed metrics.md
var text string

// place matches the placeholder of a section's table in the text.
var place = regexp.MustCompile(`\{\{table "([^"]+)"\}\}`)

// Markdown returns the reference of all metrics, docs/metrics.md.
func Markdown() string {
	return place.ReplaceAllStringFunc(text, func(found string) string {
		title := place.FindStringSubmatch(found)[1]
		for _, s := range Table {
			if s.Title == title {
				return s.rows()
			}
		}
		panic("waterwheel: the text of the document has a table " + title + ", which does not exist")
	})
}

// rows returns the section as a table.
func (s Section) rows() string {
	var b strings.Builder
	b.WriteString("| metric | type, unit | meaning |\n|---|---|---|")
	for _, m := range s.Metrics {
		name := m.FullName()
		if labels := m.LabelNames(); len(labels) > 0 {
			name += "{" + strings.Join(labels, ",") + "}"
		}
		fmt.Fprintf(&b, "\n| `%s` | %s, %s | %s |", name, m.Kind, m.Unit, strings.ReplaceAll(m.Help, "|", `\|`))
	}
	return b.String()
}
