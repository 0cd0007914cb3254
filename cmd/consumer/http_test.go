package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func busyView() StatusView {
	fresh := 1.25
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return StatusView{
		At: now, Version: "v1", Group: "g", Member: "m", Generation: 4, NotReady: []string{"events/1: stopped: offset out of range"},
		Memory: MemoryView{Used: 3 << 20, Budget: 4 << 20, Limit: 8 << 20},
		Partitions: []PartitionView{
			{Topic: "events", Partition: 0, State: "running", Working: true, Position: new(int64(20)), End: new(int64(22)), Committed: new(int64(10)), Lag: new(int64(12)), FreshnessSeconds: &fresh, LastFlush: now.Add(-3 * time.Second), OpenBuckets: 7},
			{Topic: "events", Partition: 1, State: "stopped", Stopped: "<script>alert(1)</script>", StopReason: "<script>"},
		},
		Letters: []LetterView{{At: now, Topic: "events", Partition: 1, Offset: 99, Part: -1, Reason: "not_json"}},
	}
}

func get(t *testing.T, view StatusView, path string) *httptest.ResponseRecorder {
	t.Helper()
	reg := prometheus.NewRegistry()
	registerBuildInfo(reg)
	s := newPages(":0", func() StatusView { return view }, reg, slog.New(slog.DiscardHandler))
	recorder := httptest.NewRecorder()
	s.handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder
}

func TestPages(t *testing.T) {
	for _, c := range []struct {
		path string
		view StatusView
		code int
		part string
	}{
		{"/healthz", busyView(), 200, "ok"},
		{"/readyz", StatusView{}, 200, "ready"},
		{"/readyz", busyView(), 503, "events/1: stopped: offset out of range"},
		{"/metrics", StatusView{}, 200, `waterwheel_build_info{goversion="go`},
		{"/api/status", StatusView{}, 200, `"notReady": [],`},
		{"/api/status", StatusView{}, 200, `"letters": []`},
		{"/", StatusView{}, 200, "none assigned"},
		{"/", busyView(), 200, `value="75"`},
		{"/", busyView(), 200, "1.3s"},
		{"/", busyView(), 200, "not_json"},
		{"/", busyView(), 200, "&lt;script&gt;"},
		{"/nothing", StatusView{}, 404, ""},
	} {
		r := get(t, c.view, c.path)
		if r.Code != c.code || !strings.Contains(r.Body.String(), c.part) {
			t.Errorf("GET %s: %d, want %d with %q:\n%s", c.path, r.Code, c.code, c.part, r.Body)
		}
	}
}

func TestStatusPageNeedsNothingFromOutside(t *testing.T) {
	page := get(t, busyView(), "/").Body.String()
	for _, outside := range []string{"http://", "https://", "src=", "url(", "@import", "<link"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
}

func TestStatusAsJSONSaysTheSame(t *testing.T) {
	want := busyView()
	var got StatusView
	if err := json.Unmarshal(get(t, want, "/api/status").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Partitions) != 2 || *got.Partitions[0].Lag != 12 || got.Partitions[1].Lag != nil || *got.Partitions[0].FreshnessSeconds != 1.25 || got.Letters[0].Offset != 99 {
		t.Errorf("read back %+v", got)
	}
}

// TestRequestsAreLimited: those beyond the limit are sent away, while whoever asks for health is answered.
func TestRequestsAreLimited(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	handler := limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			entered <- true
			<-leave
		}
	}), 2)
	ask := func(path string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder
	}
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() { ask("/") })
		<-entered
	}
	if r := ask("/metrics"); r.Code != http.StatusServiceUnavailable || r.Header().Get("Retry-After") == "" {
		t.Errorf("one too many: %d, %v", r.Code, r.Header())
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if r := ask(path); r.Code != http.StatusOK {
			t.Errorf("%s: %d", path, r.Code)
		}
	}
	close(leave)
	asking.Wait()
	if r := ask("/metrics"); r.Code != http.StatusOK {
		t.Errorf("afterwards: %d", r.Code)
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
	var log bytes.Buffer
	s := newPages(address, func() StatusView { return StatusView{} }, prometheus.NewRegistry(), newLogger(&log, "info", "text", false))
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "HTTP_ADDR") || !strings.Contains(err.Error(), address) ||
		!strings.Contains(err.Error(), "choose another HTTP_ADDR") {
		t.Errorf("the address is taken: %v, want an error that names it, its setting and the way out", err)
	}
	listener.Close()

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
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
	if err := newProfiles("", nil).Run(t.Context()); err != nil {
		t.Errorf("without an address: %v", err)
	}
}

func TestRecentLettersAreTheLastOnes(t *testing.T) {
	var r recentLetters
	if got := r.list(); len(got) != 0 {
		t.Errorf("%d letters at first", len(got))
	}
	for i := range 25 {
		r.add(LetterView{Offset: int64(i)})
	}
	got := r.list()
	if len(got) != shownLetters || got[0].Offset != 24 || got[shownLetters-1].Offset != 15 {
		t.Errorf("letters %v, want offsets 24 to 15", got)
	}
}
