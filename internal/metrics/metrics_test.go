package metrics

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNamesFollowTheConventions checks Prometheus's conventions, as promtool check metrics does, but more strictly.
func TestNamesFollowTheConventions(t *testing.T) {
	form := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	for _, s := range Table {
		for _, m := range s.Metrics {
			base := strings.TrimSuffix(m.Name, "_total")
			switch {
			case !form.MatchString(m.Name) || seen[m.Name]:
				t.Errorf("%s: the name is not in snake case, or there twice", m.Name)
			case (m.Kind == Counter) != (base != m.Name):
				t.Errorf("%s: exactly the counters end in _total", m.Name)
			case slices.Contains([]string{"seconds", "bytes", "ratio"}, m.Unit) != regexp.MustCompile(`_(seconds|bytes|ratio)$`).MatchString(base):
				t.Errorf("%s: the unit %q and the name do not agree", m.Name, m.Unit)
			case m.Unit == "" || m.Help == "" || strings.HasSuffix(m.Help, "."):
				t.Errorf("%s: unit and help are needed, and help ends without a full stop", m.Name)
			}
			for _, label := range m.LabelNames() {
				if !form.MatchString(label) {
					t.Errorf("%s: the label %q is not in snake case", m.Name, label)
				}
			}
			seen[m.Name] = true
		}
	}
	if len(seen) < 60 {
		t.Errorf("only %d metrics", len(seen))
	}
}

// TestDocumentHasEverySection checks that each table has one place in the text.
func TestDocumentHasEverySection(t *testing.T) {
	for _, s := range Table {
		if n := strings.Count(text, `{{table "`+s.Title+`"}}`); n != 1 {
			t.Errorf("the text has %d places for the table %q, it needs one", n, s.Title)
		}
	}
}

// TestDocumentNamesOnlyMetrics checks that the prose of the document names only metrics of the table.
func TestDocumentNamesOnlyMetrics(t *testing.T) {
	var quoted strings.Builder
	for _, words := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		name := words[1]
		if regexp.MustCompile(`^\w+_total\b`).MatchString(name) && !strings.HasPrefix(name, Prefix) {
			name = Prefix + name
		}
		quoted.WriteString(name + "\n")
	}
	n, problems := CheckText(strings.ReplaceAll(quoted.String(), Prefix+"\n", ""))
	for _, p := range problems {
		t.Error(p)
	}
	if n < 15 {
		t.Errorf("only %d metrics were found", n)
	}
}

func TestQueriesAreCheckedByTheTable(t *testing.T) {
	for query, want := range map[string]string{
		`rate(waterwheel_writes_total{outcome="conflict", job="a"}[5m])`:                         "",
		`waterwheel_flush_duration_seconds_bucket{le="1"} / waterwheel_build_info{version!="1"}`: "",
		`sum by (topic) (waterwheel_writes_total{kind=~"insert|update"})`:                        "",
		`waterwheel:stored:rate5m`:                               "",
		`rate(waterwheel_write_total[5m])`:                       "waterwheel_write_total is no series of a metric of the table",
		`waterwheel_flush_duration_seconds`:                      "waterwheel_flush_duration_seconds is no series of a metric of the table",
		`waterwheel_lag_records_bucket`:                          "waterwheel_lag_records_bucket is no series of a metric of the table",
		`waterwheel_lag_records{code="1"}`:                       "waterwheel_lag_records has no label code",
		`rate(waterwheel_writes_total{outcome="conflicts"}[5m])`: `waterwheel_writes_total never has outcome="conflicts"`,
		`sum(waterwheel_lag_records) + sum(rate(waterwheel_writes_total{topic="a",kind=~"insert|x"}[5m]))`: `waterwheel_writes_total never has kind="x"`,
	} {
		if _, got := CheckQuery(query); strings.Join(got, "; ") != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if n, _ := CheckQuery(`waterwheel_lag_records + waterwheel_series`); n != 2 {
		t.Errorf("%d selectors, want 2", n)
	}
}
