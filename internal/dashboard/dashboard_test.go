package dashboard

import (
	"regexp"
	"strings"
	"testing"

	"waterwheel/internal/metrics"
)

// TestGridHasNoGapsAndNoOverlaps checks that each cell of the grid belongs to exactly one panel or heading.
func TestGridHasNoGapsAndNoOverlaps(t *testing.T) {
	cells, deepest := map[[2]int]string{}, 0
	for _, p := range placed(rows) {
		title, at := p["title"].(string), p["gridPos"].(gridPosition)
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= lineWidth {
					t.Fatalf("%q stands at column %d, line %d: beyond the grid, or on %q", title, x, y, other)
				}
				cells[[2]int{x, y}] = title
			}
		}
		deepest = max(deepest, at.Y+at.H)
	}
	if len(cells) != deepest*lineWidth {
		t.Errorf("%d cells of %d are taken: there are gaps", len(cells), deepest*lineWidth)
	}
}

func TestQueriesNameOnlyMetricsOfTheTable(t *testing.T) {
	// These metrics come from Prometheus's library for Go.
	others := []string{"process_resident_memory_bytes", "process_cpu_seconds_total"}
	var queries []string
	for _, r := range rows {
		for _, p := range r.panels {
			for _, q := range p.queries {
				queries = append(queries, expand(q.expression))
			}
		}
	}
	for _, e := range events {
		queries = append(queries, expand(e.expression))
	}
	for _, v := range choices {
		queries = append(queries, v.query)
	}
	for _, q := range queries {
		n, problems := metrics.CheckQuery(q)
		for _, name := range others {
			n += strings.Count(q, name)
		}
		if n == 0 || !strings.Contains(q, "$job") && !strings.HasPrefix(q, "label_values") {
			t.Errorf("%s: it names no metric, or does not obey the variable job", q)
		}
		for _, problem := range problems {
			t.Errorf("%s: %s", q, problem)
		}
	}
	if len(queries) < 40 {
		t.Errorf("only %d queries were found", len(queries))
	}
}

// TestCountersAreShownAsRates checks this because the value of a counter depends on when the process began.
func TestCountersAreShownAsRates(t *testing.T) {
	for _, r := range rows {
		for _, p := range r.panels {
			for _, q := range p.queries {
				rates := regexp.MustCompile(`(?:rate|increase)\(\w+(?:_total|_sum|_count|_bucket)\{`).FindAllString(q.expression, -1)
				if counters := regexp.MustCompile(`\w+(?:_total|_sum|_count|_bucket)\{`).FindAllString(q.expression, -1); len(rates) != len(counters) {
					t.Errorf("%s: %d counters and %d rates in %s", p.title, len(counters), len(rates), q.expression)
				}
			}
		}
	}
}

func TestEachPanelHasASentence(t *testing.T) {
	titles := map[string]bool{}
	for _, r := range rows {
		for _, p := range r.panels {
			if !regexp.MustCompile(`^[A-Z][^.]*(?:\.\w[^.]*)*\.$`).MatchString(p.about) || len(strings.Fields(p.about)) < 4 {
				t.Errorf("%s: %q is not one sentence", p.title, p.about)
			}
			if titles[p.title] {
				t.Errorf("two panels have the title %q", p.title)
			}
			titles[p.title] = true
		}
	}
}
