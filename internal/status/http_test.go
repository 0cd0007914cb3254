package status

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

func busyView() Snapshot {
	fresh := 1.25
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return Snapshot{
		At: now, Version: "v1", Group: "g", Member: "m", Generation: 4, NotReady: []Notice{{"events/1: stopped: offset out of range", aboutStopped}},
		Memory: Memory{Used: 3 << 20, Budget: 4 << 20, Limit: 8 << 20},
		Partitions: []Partition{
			{Partition: record.Partition{Topic: "events"}, State: "running", Working: true, Position: new(int64(20)), End: new(int64(22)), Committed: new(int64(10)), Lag: new(int64(12)), FreshnessSeconds: &fresh, LastFlush: now.Add(-3 * time.Second), OpenBuckets: 7},
			{Partition: record.Partition{Topic: "events", Number: 1}, State: "stopped", Stopped: "<script>alert(1)</script>", StopReason: "<script>"},
		},
		Members: []Member{
			{Name: "m", This: true, Host: "10.0.0.5", Partitions: map[string][]int32{"events": {0, 1}}},
			{Name: "<b>", Foreign: true, Host: "10.0.0.6", Partitions: map[string][]int32{"events": {2}}},
		},
		MembersAt:   now.Add(-3 * time.Minute),
		DeadLetters: []RecentDeadLetter{{At: now, Place: record.Place{Partition: record.Partition{Topic: "events", Number: 1}, Offset: 99}, Part: -1, Reason: "not_json"}},
	}
}

// idle returns a view of a consumer that is not connected.
func idle() *View {
	return New(Options{
		Budget: pipeline.NewBudget(4 << 20), Metrics: pipeline.NewMetrics(prometheus.NewRegistry()), MaxCount: 1000,
		Log: slog.New(slog.DiscardHandler),
	})
}

func get(t *testing.T, view Snapshot, path string) *httptest.ResponseRecorder {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(idle())
	recorder := httptest.NewRecorder()
	idle().pages(func() Snapshot { return view }, reg).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder
}

func TestPages(t *testing.T) {
	for _, c := range []struct {
		path string
		view Snapshot
		code int
		part string
	}{
		{"/healthz", busyView(), 200, "ok"},
		{"/readyz", Snapshot{}, 200, "ready"},
		{"/readyz", busyView(), 503, "events/1: stopped: offset out of range"},
		{"/metrics", Snapshot{}, 200, `waterwheel_outage_seconds_total{dependency="mongodb"} 0`},
		{"/api/status", Snapshot{}, 200, `"notReady": [],`},
		{"/api/status", Snapshot{}, 200, `"deadLetters": []`},
		{"/", Snapshot{}, 200, "none assigned"},
		{"/", busyView(), 200, `value="75"`},
		{"/", busyView(), 200, "1.3s"},
		{"/", busyView(), 200, "not_json"},
		{"/", busyView(), 200, "m <b>(this consumer)</b>"},
		{"/", busyView(), 200, "events 0–1"},
		{"/", busyView(), 200, "&lt;b&gt; <a class=\"word stopped\""},
		{"/", busyView(), 200, "Kafka described them 3 min ago, and does not answer now."},
		{"/", Snapshot{}, 200, "not known: Kafka has not answered"},
		{"/api/status", Snapshot{}, 200, `"members": [],`},
		{"/", busyView(), 200, "&lt;script&gt;"},
		{"/nothing", Snapshot{}, 404, ""},
	} {
		r := get(t, c.view, c.path)
		if r.Code != c.code || !strings.Contains(r.Body.String(), c.part) {
			t.Errorf("GET %s: %d, want %d with %q:\n%s", c.path, r.Code, c.code, c.part, r.Body)
		}
	}
}

func TestStatusPageNeedsNothingFromOutside(t *testing.T) {
	page := get(t, busyView(), "/").Body.String()
	for _, outside := range []string{"http://", "https://", "src=\"/", "src=\"//", "url(", "@import", "<link"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
}

func TestStatusAsJSONSaysTheSame(t *testing.T) {
	want := busyView()
	var got Snapshot
	if err := json.Unmarshal(get(t, want, "/api/status").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Partitions) != 2 || *got.Partitions[0].Lag != 12 || got.Partitions[1].Lag != nil || *got.Partitions[0].FreshnessSeconds != 1.25 || got.DeadLetters[0].Offset != 99 {
		t.Errorf("read back %+v", got)
	}
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	for _, path := range []string{"/", "/api/status", "/metrics", "/readyz", "/nothing"} {
		header := get(t, busyView(), path).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "frame-ancestors 'none'", "Cache-Control": "no-store",
		} {
			if got := header.Get(name); !strings.Contains(got, want) {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
}

func TestServerEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	s := idle().Pages(address, prometheus.NewRegistry())
	if err := s.Run(t.Context(), t.Context()); err == nil || !strings.Contains(err.Error(), "HTTP_ADDR") || !strings.Contains(err.Error(), address) ||
		!strings.Contains(err.Error(), "choose another HTTP_ADDR") {
		t.Errorf("the address is taken: %v, want an error that names it, its setting and the way out", err)
	}
	listener.Close()

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, t.Context()) }()
	for {
		response, err := http.Get("http://" + address + "/healthz")
		if err == nil {
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if string(body) != "ok\n" {
				t.Errorf("healthz says %q", body)
			}
			break
		}
		select {
		case err := <-done:
			t.Fatalf("ended early: %v", err)
		default:
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := Profiles("", nil).Run(t.Context(), t.Context()); err != nil {
		t.Errorf("without an address: %v", err)
	}
}
