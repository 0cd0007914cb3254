package main

import (
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

// Every metric of the pipeline, of Kafka, of the membership and of MongoDB stands in docs/metrics.md.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registerBuildInfo(registry)
	pipeline.NewMetrics(registry, []string{"events"})
	sink.NewMetrics(registry)
	kafka.NewMetrics(registry)
	group.New(&kafka.Client{}, group.Options{}, nil, registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	for name := range names {
		if !strings.Contains(string(text), "`"+name) {
			t.Errorf("docs/metrics.md does not have %s", name)
		}
	}
	if len(names) < 30 {
		t.Errorf("only %d metrics were found", len(names))
	}
}

// What MongoDB's own catalog counts has its row, and each counter named there is one of ours.
func TestCountersOfMongoDBAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	pipeline.NewMetrics(registry, nil)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]bool{"active_buckets": true}
	for _, f := range families {
		ours[strings.TrimPrefix(f.GetName(), "waterwheel_")] = true
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
