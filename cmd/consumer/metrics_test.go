package main

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/bucketer"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/keeper"
	"waterwheel/internal/metrics"
	"waterwheel/internal/record"
	"waterwheel/internal/schemas"
	"waterwheel/internal/status"
	"waterwheel/pipeline"
	"waterwheel/sink"
)

// described contains the descriptions of all registered metrics by name.
type described map[string]description

// description is what a metric is registered with.
type description struct{ labels, help string }

// Register implements prometheus.Registerer.
func (d described) Register(c prometheus.Collector) error {
	form := regexp.MustCompile(`fqName: "(\w+)", help: "(.*?)",.* constLabels: {(.*)}, variableLabels: {([\w,]*)}`)
	descriptions := make(chan *prometheus.Desc, 100)
	c.Describe(descriptions)
	close(descriptions)
	for one := range descriptions {
		match := form.FindStringSubmatch(one.String())
		if match == nil {
			return fmt.Errorf("no description: %v", one)
		}
		names := strings.FieldsFunc(match[4], func(r rune) bool { return r == ',' })
		for _, constant := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(match[3], -1) {
			names = append(names, constant[1])
		}
		d[match[1]] = description{strings.Join(names, ","), match[2]}
	}
	return nil
}

// MustRegister implements prometheus.Registerer.
func (d described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := d.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements prometheus.Registerer.
func (d described) Unregister(prometheus.Collector) bool { return false }

// registerAll registers every metric that "run" registers, except those of Go and of the process.
func registerAll(to prometheus.Registerer) (*pipeline.Metrics, *group.Group) {
	of := pipeline.NewMetrics(to)
	sink.NewMetrics(to)
	kafka.NewMetrics(to)
	keeper.NewMetrics(to)
	schemas.NewMetrics(to)
	registerBuildInfo(to)
	newTopicsDeleted(to)
	to.MustRegister(status.New(status.Options{Metrics: of, Budget: pipeline.NewBudget(1)}))
	return of, group.New(&kafka.Client{}, group.Options{}, nil, to)
}

// TestMetricsAreThoseOfTheTable checks that the table in the documentation lists exactly the registered metrics.
func TestMetricsAreThoseOfTheTable(t *testing.T) {
	all := described{}
	registerAll(all)
	for _, section := range metrics.Table {
		for _, m := range section.Metrics {
			registered, is := all[m.FullName()]
			got, want := strings.Split(registered.labels, ","), strings.Split(strings.Join(m.LabelNames(), ","), ",")
			slices.Sort(got)
			slices.Sort(want)
			if !is || !slices.Equal(got, want) {
				t.Errorf("the table has %s with the labels %q; registered: %t, with %q", m.FullName(), m.LabelNames(), is, registered.labels)
			}
			delete(all, m.FullName())
		}
	}
	for name, registered := range all {
		t.Errorf("%s (labels %q) is registered and not in internal/metrics/table.go", name, registered.labels)
	}
}

// TestHelpIsTheBeginningOfTheMeaning checks that /metrics and the documentation explain a metric in the same words. The
// documentation goes on where a scrape is brief.
func TestHelpIsTheBeginningOfTheMeaning(t *testing.T) {
	plain := strings.NewReplacer("`", "", "[", "", "]", "")
	all := described{}
	registerAll(all)
	for name, registered := range all {
		m, _ := metrics.Find(name)
		help, complete := strings.CutSuffix(registered.help, ".")
		if !complete || help == "" || !strings.EqualFold(help[:1], m.Help[:1]) || !strings.HasPrefix(plain.Replace(m.Help)[1:], help[1:]) {
			t.Errorf("%s is registered with the help %q, which does not begin the meaning in the table, %q", name, registered.help, m.Help)
		}
	}
}

// TestMetricsAreOfTheKindAndHaveTheValuesOfTheTable checks all series that exist from the assignment of a partition on.
func TestMetricsAreOfTheKindAndHaveTheValuesOfTheTable(t *testing.T) {
	registry := prometheus.NewRegistry()
	of, _ := registerAll(registry)
	of.Assigned(record.Partition{Topic: "a"})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]bool{}
	for _, f := range families {
		m, known := metrics.Find(f.GetName())
		if kind := strings.ToLower(f.GetType().String()); !known || kind != string(m.Kind) {
			t.Errorf("%s is a %s, the table says %q", f.GetName(), kind, m.Kind)
		}
		for _, series := range f.GetMetric() {
			for _, label := range series.GetLabel() {
				key := m.Name + " " + label.GetName()
				if found[key] == nil {
					found[key] = map[string]bool{}
				}
				found[key][label.GetValue()] = true
			}
		}
	}
	for key, values := range found {
		name, label, _ := strings.Cut(key, " ")
		m, _ := metrics.Find(metrics.Prefix + name)
		want := slices.Sorted(slices.Values(m.Values(label)))
		if got := slices.Sorted(maps.Keys(values)); want != nil && !slices.Equal(got, want) {
			t.Errorf("%s: the label %s has the values %q, the table says %q", m.FullName(), label, got, want)
		}
	}
	if len(families) < 35 {
		t.Errorf("only %d metrics were found", len(families))
	}
}

// TestCountersOfPartitionsNameThem checks that a counter without topic and partition belongs to the process, the group or a
// connection.
func TestCountersOfPartitionsNameThem(t *testing.T) {
	all := described{}
	registerAll(all)
	without := []string{
		"waterwheel_assignments_refused_total", "waterwheel_commits_total", "waterwheel_group_retries_total",
		"waterwheel_lease_lapsed_seconds_total", "waterwheel_mongodb_writes_stopped_total", "waterwheel_rebalances_total",
		"waterwheel_outage_seconds_total", "waterwheel_schema_requests_total", "waterwheel_series_max_exceeded_total",
		"waterwheel_rollup_passes_total", "waterwheel_rollup_rows_total", "waterwheel_rollup_frozen_total", "waterwheel_rollup_work_seconds_total",
	}
	for name, registered := range all {
		if strings.HasSuffix(name, "_total") && !slices.Contains(without, name) && !strings.HasPrefix(registered.labels, "topic,partition") {
			t.Errorf("%s has the labels %q", name, registered.labels)
		}
	}
}

// TestCountersOfMongoDBAreDocumented checks that each counter of MongoDB's catalog has a row, and that each of our counters there
// exists.
func TestCountersOfMongoDBAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := described{}
	pipeline.NewMetrics(all)
	ours := map[string]bool{"active_buckets": true}
	for name := range all {
		ours[strings.TrimPrefix(name, "waterwheel_")] = true
	}
	rows := strings.Split(string(text), "\n")
	// MongoDB also counts these, but the catalog does not. It has one writer, archives buckets that MongoDB before 6.3 closed
	// because of time going backward, and neither compresses nor freezes.
	theirs := []string{
		"numBucketsClosedDueToTimeBackward", "numMeasurementsGroupCommitted", "numWaits", "numBucketsFrozen",
		"numCompressedBucketsConvertedToUnsorted", "avgNumMeasurementsPerCommit", "numActiveBuckets",
	}
	for field := range reflect.TypeFor[bucketer.Stats]().Fields() {
		if field.Name == "BucketsOpened" {
			break // the fields from here on are only ours
		}
		theirs = append(theirs, "num"+field.Name)
	}
	for _, name := range theirs {
		i := slices.IndexFunc(rows, func(row string) bool { return strings.Contains(row, "`"+name+"`") })
		if i < 0 {
			t.Errorf("docs/metrics.md does not say what %s is here", name)
			continue
		}
		for _, quoted := range regexp.MustCompile("`([a-z_]+)(?:{[^}]*})?`").FindAllStringSubmatch(strings.Split(rows[i], "|")[2], -1) {
			if word := quoted[1]; strings.Contains(word, "_") && !ours[word] {
				t.Errorf("docs/metrics.md names %s for %s: there is no such metric", word, name)
			}
		}
	}
}
