package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/config"
	"waterwheel/pipeline"
	"waterwheel/sink"
)

// Every metric of the pipeline, of MongoDB and of the view stands in docs/metrics.md.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	v := newView(config.Config{})
	registry.MustRegister(v, v.outages)
	registerBuildInfo(registry)
	pipeline.NewMetrics(registry, []string{"events"})
	sink.NewMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	status := &pipeline.Status{
		Topic: "events", Stopped: &pipeline.StopError{Reason: "kafka"}, Durable: time.Now().UnixMilli(), ClaimWait: 1,
	}
	for _, d := range partitionDescriptions(v, status) {
		names[d] = true
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

// partitionDescriptions lists the names of the gauges that a partition has.
func partitionDescriptions(v *view, s *pipeline.Status) []string {
	out := make(chan prometheus.Metric, 100)
	v.collect(out, []*pipeline.Status{s})
	close(out)
	var names []string
	for m := range out {
		names = append(names, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(m.Desc().String())[1])
	}
	return names
}
