package continuity

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/harness"
)

// Result is the result of a scenario.
type Result struct {
	Scenario string `json:"scenario"`
	What     string `json:"what"`
	// Before is the undisturbed gap of all partitions. Own is the gap of the disturbed consumer's partitions, Others that of all
	// others.
	Before Gap `json:"before"`
	Own    Gap `json:"own"`
	Others Gap `json:"others"`
	// Moved is the number of partitions that have another owner after the disturbance.
	Moved int `json:"moved"`
	// Recovered is the time from the start of the disturbance until the new owner of each partition has written to it.
	Recovered time.Duration `json:"recovered_ns"`
	// FreshnessBefore is the freshness before the disturbance. Freshness covers the time from its start until all partitions
	// recovered.
	FreshnessBefore Freshness `json:"freshness_before"`
	Freshness       Freshness `json:"freshness"`
	Looking         Looking   `json:"looking"`
	// Valid is the number of measurements that must be stored. Stored of them are stored once.
	Valid  int `json:"valid"`
	Stored int `json:"stored"`
	// Verdict is nil when everything is stored once and correctly.
	Verdict error `json:"-"`
}

// String returns the result in one line.
func (r *Result) String() string {
	return fmt.Sprintf("undisturbed %s s, own %s s, others %s s, recovered after %.1f s; freshness %s, undisturbed %s s; looked every %s ms; %d of %d stored once",
		r.Before, r.Own, r.Others, r.Recovered.Seconds(), r.Freshness, r.FreshnessBefore, r.Looking, r.Stored, r.Valid)
}

// Report is the results of all scenarios.
type Report struct {
	Command    string           `json:"command,omitempty"`
	Machine    bench.Machine    `json:"machine"`
	Settings   harness.Settings `json:"settings,omitempty"`
	Rate       int              `json:"rate"`
	Series     int              `json:"series"`
	Partitions int              `json:"partitions"`
	Before     time.Duration    `json:"before_ns"`
	At         time.Time        `json:"at"`
	Results    []Result         `json:"results"`
}

// Markdown returns the report as Markdown.
func (r *Report) Markdown() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if r.Command != "" {
		line("    %s\n", r.Command)
	}
	m := r.Machine
	line("- %s, %d cores; load %.1f at the beginning; %s", m.Processor, m.Cores, m.Load, r.At.Format(time.RFC3339))
	line("- Kafka: %s; MongoDB: %s; Go %s; commit %s", m.Kafka, m.MongoDB, m.Go, m.Commit)
	line("- %d consumers, %d partitions, %d measurements a second over %d series; undisturbed for %s", members, r.Partitions, r.Rate, r.Series, r.Before)
	settings := make([]string, 0, len(r.Settings))
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		settings = append(settings, "`"+name+"="+r.Settings[name]+"`")
	}
	if len(settings) > 0 {
		line("- the consumers' settings beside the usual ones: %s", strings.Join(settings, ", "))
	}
	line("- the longest time without a durable write is that of the partition that did best and of the one that did worst, in brackets how many there are\n")
	line("| scenario | undisturbed, s | its own partitions, s | the others', s | moved | recovered after, s | freshness undisturbed, s: p50 / p99 / max | until recovered | looked every, ms: mean / most | stored once |")
	line("|---|---|---|---|---|---|---|---|---|---|")
	for _, of := range r.Results {
		line("%s", of.row())
	}
	for _, of := range r.Results {
		if of.Looking.Most > of.Before.Least/coarse {
			line("\n%s: a look came %d ms after the one before, figures are not known more exactly than that.", of.Scenario, of.Looking.Most.Milliseconds())
		}
	}
	return b.String()
}

func (r *Result) row() string {
	return fmt.Sprintf("| %s | %s | %s | %s | %d | %.1f | %s | %s | %s | %d of %d |", r.What, r.Before, r.Own, r.Others, r.Moved,
		r.Recovered.Seconds(), r.FreshnessBefore, r.Freshness, r.Looking, r.Stored, r.Valid)
}

// Write writes the report to a file, as JSON.
func (r *Report) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
