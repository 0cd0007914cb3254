package pipeline

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// deadLettersOf returns the value of dead_letters_total for one partition and reason. It returns false if the metric has no
// series of the partition.
func deadLettersOf(t *testing.T, registry *prometheus.Registry, partition, reason string) (letters float64, shown bool) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range metric.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["partition"] != partition {
				continue
			}
			shown = true
			if f.GetName() == "waterwheel_dead_letters_total" && labels["reason"] == reason {
				letters = metric.GetCounter().GetValue()
			}
		}
	}
	return letters, shown
}

// TestSeriesOfAPartitionOutliveItsTerm checks that they remain long enough to be scraped, and then disappear.
func TestSeriesOfAPartitionOutliveItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		m := NewMetrics(registry)
		is := func(when string, want float64, shown bool) {
			t.Helper()
			if got, there := deadLettersOf(t, registry, "1", "not_json"); got != want || there != shown {
				t.Errorf("%s: %v letters, shown: %v", when, got, there)
			}
			if _, there := deadLettersOf(t, registry, "2", "not_json"); !there {
				t.Errorf("%s: the other partition is not shown", when)
			}
		}
		m.Assigned(events(1))
		m.Assigned(events(2))
		of := m.of(events(1))
		is("from the assignment on", 0, true)
		of.deadLetter("not_json")
		m.revoked(events(1))
		is("after the term", 1, true)
		_ = wait(t.Context(), 4*time.Minute)
		m.Assigned(events(1))
		of.deadLetter("not_json")
		_ = wait(t.Context(), time.Hour)
		is("in the next term", 2, true)
		m.revoked(events(1))
		_ = wait(t.Context(), 4*time.Minute)
		m.revoked(events(1)) // again and again, as partitions come and go
		_ = wait(t.Context(), 2*time.Minute)
		is("later", 0, false)
		m.revoked(events(1))
		_ = wait(t.Context(), 6*time.Minute)
		m.Assigned(events(1))
		is("in a term much later", 0, true)
		of.deadLetter("not_json")
		is("counting by the same worker", 1, true)
		if m.Totals().DeadLetters != 3 {
			t.Errorf("%d letters of the process", m.Totals().DeadLetters)
		}
	})
}

// TestCountersOfAPartitionBeginAtZero checks this because rate and increase must work from the first letter on.
func TestCountersOfAPartitionBeginAtZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	m.Assigned(events(7))
	for _, vec := range m.series.vecs {
		if n := testutil.CollectAndCount(vec); n == 0 {
			t.Errorf("%v has no series", vec)
		}
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "waterwheel_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
