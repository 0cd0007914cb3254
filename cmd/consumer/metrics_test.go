package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/bucketer"
	"waterwheel/kafka"
	"waterwheel/kafka/group"
	"waterwheel/pipeline"
	"waterwheel/sink"
)

// described are the labels of all metrics that are registered, by name.
type described map[string]string

// Register implements prometheus.Registerer.
func (d described) Register(c prometheus.Collector) error {
	form := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: {([\w,]*)}`)
	descriptions := make(chan *prometheus.Desc, 100)
	c.Describe(descriptions)
	close(descriptions)
	for one := range descriptions {
		match := form.FindStringSubmatch(one.String())
		if match == nil {
			return fmt.Errorf("no description: %v", one)
		}
		d[match[1]] = match[2]
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

// TestMetricsAreDocumented: every metric of the pipeline, of Kafka, of the membership and of MongoDB stands in docs/metrics.md with
// its labels.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := described{}
	pipeline.NewMetrics(all)
	sink.NewMetrics(all)
	kafka.NewMetrics(all)
	group.New(&kafka.Client{}, group.Options{}, nil, all)
	documented := map[string]string{}
	for _, match := range regexp.MustCompile("`(waterwheel_\\w+)(?:{([\\w,]+)})?`").FindAllStringSubmatch(string(text), -1) {
		if documented[match[1]] == "" {
			documented[match[1]] = match[2]
		}
	}
	for name, labels := range all {
		if got, ok := documented[name]; !ok || got != labels {
			t.Errorf("docs/metrics.md has %s (%v) with the labels %q, it has %q", name, ok, got, labels)
		}
	}
	if !strings.Contains(string(text), "`waterwheel_build_info{version,revision,goversion}`") {
		t.Error("docs/metrics.md does not have waterwheel_build_info")
	}
	if len(all) < 44 {
		t.Errorf("only %d metrics were found", len(all))
	}
}

// TestCountersOfPartitionsNameThem: a counter without topic and partition is of the process, the group or a connection.
func TestCountersOfPartitionsNameThem(t *testing.T) {
	all := described{}
	pipeline.NewMetrics(all)
	sink.NewMetrics(all)
	kafka.NewMetrics(all)
	group.New(&kafka.Client{}, group.Options{}, nil, all)
	without := []string{
		"waterwheel_assignments_refused_total", "waterwheel_commits_total", "waterwheel_group_retries_total",
		"waterwheel_lease_lapsed_seconds_total", "waterwheel_mongodb_writes_stopped_total", "waterwheel_rebalances_total",
	}
	for name, labels := range all {
		if strings.HasSuffix(name, "_total") && !slices.Contains(without, name) && !strings.HasPrefix(labels, "topic,partition") {
			t.Errorf("%s has the labels %q", name, labels)
		}
	}
}

// What MongoDB's own catalog counts has its row, and each counter named there is one of ours.
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
	// What MongoDB counts and the catalog does not: it has one writer, archives what time backward closed before MongoDB 6.3, and
	// neither compresses nor freezes.
	theirs := []string{
		"numBucketsClosedDueToTimeBackward", "numMeasurementsGroupCommitted", "numWaits", "numBucketsFrozen",
		"numCompressedBucketsConvertedToUnsorted", "avgNumMeasurementsPerCommit", "numActiveBuckets",
	}
	for field := range reflect.TypeFor[bucketer.Stats]().Fields() {
		if field.Name == "BucketsOpened" {
			break // from here on they are only ours
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
