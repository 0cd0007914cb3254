package status

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"waterwheel/pipeline"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestAStartSaysWhatItWaitsFor checks that a start shows an amber line for each server, and counts the wait as an outage.
func TestAStartSaysWhatItWaitsFor(t *testing.T) {
	v := idle()
	page := func(path string) string {
		answer := httptest.NewRecorder()
		v.pages(v.snapshot, prometheus.NewRegistry()).ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		return answer.Body.String()
	}
	if got := page("/readyz"); got != "connecting to Kafka and MongoDB\n" {
		t.Errorf("before anything was tried: %q", got)
	}
	since := time.Now().Add(-12 * time.Second)
	v.Waiting(pipeline.Kafka, "kafka:9092", since, errors.New("connecting to Kafka: a: refused\nb: refused"))
	v.Waiting(pipeline.MongoDB, "mongo:27017", since, errors.New("connecting to MongoDB: no primary"))
	lines := strings.Split(strings.TrimSpace(page("/readyz")), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "waiting for MongoDB (mongo:27017) since 2") || !strings.HasSuffix(lines[0], "Z: no primary") ||
		!strings.HasPrefix(lines[1], "waiting for Kafka (kafka:9092) since ") || !strings.HasSuffix(lines[1], "Z: a: refused; b: refused") {
		t.Errorf("the lines are %q", lines)
	}
	if text := page("/"); !strings.Contains(text, `<h1 class="waiting" role="status">Starting: waiting for MongoDB`) ||
		!strings.Contains(text, `<span class="word waiting">starting</span> waiting for Kafka`) || strings.Contains(text, `"word stopped"`) {
		t.Errorf("the page is\n%s", text)
	}
	v.Waiting(pipeline.Kafka, "kafka:9092", since, nil)
	v.Waiting(pipeline.MongoDB, "mongo:27017", since, nil)
	if got := page("/readyz"); got != "connecting to Kafka and MongoDB\n" {
		t.Errorf("after the waits: %q", got)
	}
	if counted := testutil.ToFloat64(v.outages.WithLabelValues("kafka")); counted < 12 || counted > 20 {
		t.Errorf("%v s are counted, want 12", counted)
	}
}
