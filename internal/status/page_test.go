package status

import (
	"io/fs"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/docs"
	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

// TestTheFirstSentenceSaysHowItIs checks that the most important state is reported first.
func TestTheFirstSentenceSaysHowItIs(t *testing.T) {
	seconds := func(s float64) *float64 { return &s }
	partitions := func(ages ...*float64) (all []Partition) {
		for n, age := range ages {
			all = append(all, Partition{Partition: record.Partition{Topic: "events", Number: int32(n)}, Working: true, FreshnessSeconds: age})
		}
		return all
	}
	stored, refused := &hourSeen{}, &hourSeen{}
	for i := range stored.samples {
		stored.samples[i] = sample{tick: 1, before: int64(i) * 10, total: int64(i+1) * 10}
	}
	refused.samples[hourSamples-1] = sample{tick: 1, deadLetters: 8}
	done := Done{Stored: stored.samples[hourSamples-7].total + 61_241}
	waits := []Notice{{"waiting for Kafka", aboutReadiness}, {"waiting for MongoDB", aboutReadiness}}
	for _, c := range []struct {
		name string
		of   Snapshot
		hour *hourSeen
		want Headline
	}{
		{"start", Snapshot{Starting: true, NotReady: waits}, stored, Headline{"Starting: waiting for Kafka", "waiting", "readiness"}},
		{"outage", Snapshot{NotReady: waits, Partitions: partitions(seconds(1))}, stored, Headline{"Not ready: waiting for Kafka (and 1 more below)", "stopped", "readiness"}},
		{"no partition", Snapshot{}, stored, Headline{"Ready. This consumer has no partition: the group has more members than partitions, or is assigning partitions now.", "waiting", ""}},
		{"late", Snapshot{Partitions: partitions(seconds(200), seconds(1)), Degraded: waits}, stored, Headline{"1 of 2 partitions is late, by up to 3 min; 61,241 measurements stored in the last minute.", "late", "waterwheelstale"}},
		{"late and retrying", Snapshot{Partitions: retrying(partitions(seconds(200), seconds(1)))}, stored, Headline{"1 of 2 partitions is late, by up to 3 min (retrying: MongoDB: reading writes back); 61,241 measurements stored in the last minute.", "late", "waterwheelstale"}},
		{"no topic", Snapshot{Degraded: waits[:1]}, stored, Headline{"Ready, with a warning: waiting for Kafka", "late", "readiness"}},
		{"warning", Snapshot{Partitions: partitions(seconds(1)), Degraded: waits[:1]}, stored, Headline{"Ready, with a warning: waiting for Kafka", "late", "readiness"}},
		{"unknown", Snapshot{Partitions: partitions(seconds(1), nil)}, stored, Headline{"Ready; the age of 1 of 2 partitions is not known yet; 61,241 measurements stored in the last minute.", "waiting", ""}},
		{"idle", Snapshot{Partitions: partitions(seconds(0))}, stored, Headline{"Ready: 1 partition stored up to the end of the log; 61,241 measurements stored in the last minute.", "fresh", ""}},
		{"well", Snapshot{Partitions: partitions(seconds(0), seconds(4))}, stored, Headline{"Ready: all 2 partitions stored up to 4.0 s ago; 61,241 measurements stored in the last minute.", "fresh", ""}},
		{"letters", Snapshot{Partitions: partitions(seconds(0))}, refused, Headline{"Ready: 1 partition stored up to the end of the log; 64,781 measurements stored in the last minute, 8 dead letters in the last hour.", "fresh", "dead-letters"}},
	} {
		c.of.lateAfter, c.of.Done = 15*time.Second, done
		if got := headline(&c.of, c.hour); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

var (
	linked  = regexp.MustCompile(`href="([^"]*)"`)
	anchors = regexp.MustCompile(`id="([^"]*)"`)
)

// TestEveryLinkLeadsSomewhere checks the links of the page, of each document and of each notice, including links to headings.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	v := idle()
	handler := v.pages(busyView, prometheus.NewRegistry())
	texts := map[string]string{}
	load := func(path string) string {
		if text, ok := texts[path]; ok {
			return text
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		if answer.Code != 200 {
			t.Errorf("GET %s: %d", path, answer.Code)
		}
		texts[path] = answer.Body.String()
		return texts[path]
	}
	follow := func(from, folder, link string) {
		path, anchor, _ := strings.Cut(link, "#")
		switch {
		case strings.HasPrefix(link, "http"):
			return
		case path == "":
			path = from
		case path == "../":
			path = "/"
		default:
			path = folder + path
		}
		text := load(path)
		if anchor == "" {
			return
		}
		for _, found := range anchors.FindAllStringSubmatch(text, -1) {
			if found[1] == anchor {
				return
			}
		}
		t.Errorf("%s links to %s, and %s has no heading #%s", from, link, path, anchor)
	}
	for _, found := range linked.FindAllStringSubmatch(load("/"), -1) {
		follow("/", "/", found[1])
	}
	names, err := fs.Glob(docs.Files, "*.md")
	if err != nil || len(names) < 5 {
		t.Fatalf("%d documents, %v", len(names), err)
	}
	for _, name := range names {
		for _, found := range linked.FindAllStringSubmatch(load("/docs/"+name), -1) {
			follow("/docs/"+name, "/docs/", found[1])
		}
	}
	for _, about := range []string{aboutReadiness, aboutOutages, aboutStopped, aboutLate, aboutDeadLetters} {
		follow("a notice", "/docs/", "runbook.md#"+about)
	}
	for _, path := range []string{"/docs/", "/docs/nothing.md", "/docs/../go.mod", "/docs/pages.go"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		if answer.Code < 300 {
			t.Errorf("GET %s: %d", path, answer.Code)
		}
	}
}

// busyHour returns an hour with many partitions and many events.
func busyHour(partitions int) *View {
	v := idle()
	for i := range hourSamples {
		now := noon.Add(time.Duration(i-hourSamples+1) * sampleInterval)
		s := seen{at: now, generation: 1 + int32(i/100), done: pipeline.Totals{Stored: int64(i) * 10_000, DeadLetters: int64(i / 50)}}
		s.failing[pipeline.MongoDB] = i > 200 && i < 230
		for n := range int32(partitions) {
			age := time.Duration(i%4) * time.Second
			switch {
			case i > 200 && i < 240:
				age = time.Duration(i-200) * sampleInterval
			case int(n)%7 == i%40:
				age = 20 * time.Second
			}
			s.statuses = append(s.statuses, aged(n, now, age))
		}
		v.hour.note(s)
	}
	return v
}

func BenchmarkPageOf200Partitions(b *testing.B) {
	v := busyHour(200)
	view := busyView()
	view.At = noon
	for range b.N {
		answer := httptest.NewRecorder()
		render(answer, statusTemplate, v.page(&view))
		b.ReportMetric(float64(answer.Body.Len()), "bytes")
	}
}

// retrying makes the first partition retry something, and the others something else.
func retrying(partitions []Partition) []Partition {
	for i := range partitions {
		partitions[i].Retrying = []string{"dead letters: writing"}
	}
	partitions[0].Retrying = []string{"MongoDB: reading writes back"}
	return partitions
}
