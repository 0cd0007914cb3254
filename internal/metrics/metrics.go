// Package metrics is the table of the metrics that the consumer exports: their names, labels, units and meanings.
//
// docs/metrics.md is generated from it. The dashboard and the rules in deploy may use only metrics in this table. Tests compare
// the table with the metrics that the program registers, in both directions. So a name must be changed in two places: here, and
// where the metric is counted.
package metrics

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Prefix begins the name of every metric.
const Prefix = "waterwheel_"

// FullName returns the name with the prefix.
func (m Metric) FullName() string { return Prefix + m.Name }

// LabelNames returns the names of the labels, in their order.
func (m Metric) LabelNames() []string {
	var names []string
	for _, label := range m.labels() {
		name, _, _ := strings.Cut(label, "=")
		names = append(names, name)
	}
	return names
}

// Values returns the possible values of a label. It returns nil if the set is open or there is no such label.
func (m Metric) Values(label string) []string {
	for _, one := range m.labels() {
		if name, values, closed := strings.Cut(one, "="); closed && name == label {
			return strings.Split(values, "|")
		}
	}
	return nil
}

func (m Metric) labels() []string {
	return strings.FieldsFunc(m.Labels, func(r rune) bool { return r == ',' })
}

// Find looks a metric up by its full name.
func Find(fullName string) (Metric, bool) {
	for _, s := range Table {
		for _, m := range s.Metrics {
			if m.FullName() == fullName {
				return m, true
			}
		}
	}
	return Metric{}, false
}

// of looks up the metric of a time series. The series of a histogram have a suffix.
func of(series string) (Metric, bool) {
	m, found := Find(series)
	if found {
		return m, m.Kind != Histogram
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, is := strings.CutSuffix(series, suffix); is {
			m, found = Find(name)
			return m, found && m.Kind == Histogram
		}
	}
	return Metric{}, false
}

// targetLabels are the labels that Prometheus adds to every series that it scrapes.
var targetLabels = []string{"job", "instance", "namespace", "pod"}

var (
	selector = regexp.MustCompile(`\b(waterwheel_\w+)\s*(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
)

// CheckQuery checks the metrics that a query in PromQL names. It reports series and labels that no metric of the table has, and
// values that a label never has. It returns how many selectors of metrics the query has. It does not parse PromQL.
func CheckQuery(query string) (selectors int, problems []string) {
	return check(query, of)
}

// CheckText is CheckQuery for prose, which may also name a histogram without the suffix of its series.
func CheckText(text string) (selectors int, problems []string) {
	return check(text, func(name string) (Metric, bool) {
		if m, found := Find(name); found {
			return m, true
		}
		return of(name)
	})
}

func check(text string, find func(string) (Metric, bool)) (selectors int, problems []string) {
	for _, s := range selector.FindAllStringSubmatch(text, -1) {
		selectors++
		m, known := find(s[1])
		if !known {
			problems = append(problems, fmt.Sprintf("%s is no series of a metric of the table", s[1]))
			continue
		}
		for _, label := range matcher.FindAllStringSubmatch(s[2], -1) {
			problems = append(problems, m.checkMatcher(label[1], label[2], label[3])...)
		}
	}
	return selectors, problems
}

func (m Metric) checkMatcher(label, operator, value string) []string {
	switch {
	case slices.Contains(targetLabels, label), m.Kind == Histogram && label == "le":
		return nil
	case !slices.Contains(m.LabelNames(), label):
		return []string{fmt.Sprintf("%s has no label %s", m.FullName(), label)}
	case strings.HasPrefix(value, "$"): // a variable of a dashboard
		return nil
	}
	allowed := m.Values(label)
	if allowed == nil {
		return nil
	}
	values := []string{value}
	if strings.HasSuffix(operator, "~") {
		values = strings.Split(value, "|")
	}
	var problems []string
	for _, v := range values {
		if !slices.Contains(allowed, v) {
			problems = append(problems, fmt.Sprintf("%s never has %s=%q", m.FullName(), label, v))
		}
	}
	return problems
}

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
