package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var listeningAt = regexp.MustCompile(`setting=SERVE_ADDR address=(\S+)`)

// serve starts waterwheel serve with MongoDB's settings and the given ones. It ends the process with SIGTERM at the end of the
// test.
func (s *stream) serve(pairs ...string) (address string) {
	s.t.Helper()
	run := exec.Command(world.binary, "serve")
	run.Env = append([]string{
		"MONGODB_URI=" + s.settings["MONGODB_URI"], "MONGODB_DATABASE=" + s.database, "SERVE_ADDR=127.0.0.1:0", "LOG_FORMAT=text",
	}, pairs...)
	stderr, err := run.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		s.t.Fatal(err)
	}
	log := bufio.NewScanner(stderr)
	var said strings.Builder
	for address == "" && log.Scan() {
		said.WriteString(log.Text() + "\n")
		if found := listeningAt.FindStringSubmatch(log.Text()); found != nil {
			address = found[1]
		}
	}
	if address == "" {
		s.t.Fatalf("serve does not listen (%v):\n%s", run.Wait(), said.String())
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		_, _ = io.Copy(io.Discard, stderr)
	}()
	s.t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		_ = run.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(20*time.Second, func() { _ = run.Process.Kill() })
		defer kill.Stop()
		<-rest
		if err := run.Wait(); err != nil {
			s.t.Errorf("serve ended with %v", err)
		}
	})
	return "http://" + address
}

// fetch reads a page.
func (s *stream) fetch(ctx context.Context, address string) (status int, body string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		s.t.Error(err)
		return 0, ""
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Error(err)
	}
	return answer.StatusCode, string(text)
}

// TestServe checks that HTTP answers have the measurements that query prints, with many clients at a time.
func TestServe(t *testing.T) {
	t.Parallel()
	s := newReadings(t)
	from := s.serve("SERVE_MAX_QUERIES=4")
	const march = "series=measurements&from=2026-03-01&to=2026-03-02"
	for path, want := range map[string]struct {
		rows int
		part string
	}{
		"/v1/collections":     {1, `"measurements"`},
		"/v1/series?" + march: {3, `{"meta.sensor":"s-17","meta.site":"north"}`},
		"/v1/measurements?" + march: {
			3 * readingsEach, `{"time":"2026-03-01T12:00:00.000Z","meta.sensor":"s-17","meta.site":"north","celsius":20,"humidity":40}`,
		},
		"/v1/measurements?" + march + "&match=site=north&match=sensor!=s-17":       {readingsEach, `"s-18"`},
		"/v1/measurements?" + march + "&match=sensor=s-17&fields=humidity":         {readingsEach, `"meta.site":"north","humidity":40}`},
		"/v1/measurements?series=measurements&latest=true":                         {3, `"celsius":22.25,"humidity":44}`},
		"/v1/measurements?series=measurements&from=1772366400000&to=1772366460000": {3, `"2026-03-01T12:00:00.000Z"`},
		"/v1/totals?" + march + "&every=15m&agg=max,count": {
			3 * 4, `{"time":"2026-03-01T12:00:00.000Z","meta.sensor":"s-17","meta.site":"north","count":15,"celsius.max":22.25,"celsius.count":15,"humidity.max":44,"humidity.count":15}`,
		},
		"/v1/measurements?series=measurements&to=1970-01-01": {1, `{"time":"1969-07-20T20:17:40.000Z","meta.sensor":"s-19","meta.site":"south","celsius":22}`},
	} {
		status, body := s.fetch(t.Context(), from+path)
		var rows []any
		if err := json.Unmarshal([]byte(body), &rows); err != nil || status != http.StatusOK || len(rows) != want.rows || !strings.Contains(body, want.part) {
			t.Errorf("GET %s: status %d, %d rows, %v, want %d with %s:\n%.600s", path, status, len(rows), err, want.rows, want.part, body)
		}
	}
	_, stdout, _ := s.query("measurements", "--from", "2026-03-01", "--to", "2026-03-02", "--format", "csv")
	if _, body := s.fetch(t.Context(), from+"/v1/measurements?format=csv&"+march); body != stdout {
		t.Errorf("CSV differs from that of query:\n%.300s\nquery:\n%.300s", body, stdout)
	}
	if status, body := s.fetch(t.Context(), from+"/v1/measurements?series=measurments"); status != http.StatusNotFound || !strings.Contains(body, "no such time series") {
		t.Errorf("a misspelt series: %d, %s", status, body)
	}

	// A hundred clients ask at a time. Each gets a complete answer, or is told to retry.
	var clients sync.WaitGroup
	counts := make([]string, 100)
	for i := range counts {
		clients.Go(func() {
			for range 200 {
				status, body := s.fetch(t.Context(), from+"/v1/measurements?"+march)
				if status == http.StatusTooManyRequests {
					time.Sleep(20 * time.Millisecond)
					continue
				}
				counts[i] = fmt.Sprint(status, strings.Count(body, "\n"))
				return
			}
		})
	}
	clients.Wait()
	for i, got := range counts {
		if want := fmt.Sprint(http.StatusOK, 3*readingsEach); got != want {
			t.Fatalf("client %d: status and lines are %q, want %q", i, got, want)
		}
	}
}

// TestServeTokenAndSettings checks that a configured token is required, and that wrong settings are named.
func TestServeTokenAndSettings(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	from := s.serve("SERVE_TOKEN=geheim")
	if status, body := s.fetch(t.Context(), from+"/v1/collections"); status != http.StatusUnauthorized || strings.Contains(body, "geheim") {
		t.Errorf("without the token: %d, %s", status, body)
	}
	if status, _ := s.fetch(t.Context(), from+"/healthz"); status != http.StatusOK {
		t.Errorf("health: %d", status)
	}
	for want, pair := range map[string]string{
		"SERVE_ADDR=9465: not an address to listen at": "SERVE_ADDR=9465", "SERVE_MAX_ROWS": "SERVE_MAX_ROWS=0", "SERVE_TLS_KEY_FILE must be set together": "SERVE_TLS_CERT_FILE=/c.pem",
	} {
		run := exec.CommandContext(within(t, 20*time.Second), world.binary, "serve")
		run.Env = []string{"MONGODB_URI=" + s.settings["MONGODB_URI"], pair}
		out, err := run.CombinedOutput()
		if run.ProcessState == nil || run.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s, want %s", pair, err, out, want)
		}
	}
}
