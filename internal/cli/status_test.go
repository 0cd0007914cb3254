package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"waterwheel/internal/status"
)

// consumerPage returns the address of a server with the pages of a consumer.
func consumerPage(t *testing.T, report, hour string) string {
	t.Helper()
	pages := http.NewServeMux()
	for path, body := range map[string]string{"/api/status": report, "/api/hour": hour} {
		pages.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
	}
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	return server.URL
}

const (
	wellReport = `{"headline": {"text": "Ready: 1 partition stored up to the end of the log; 60 measurements stored in the last minute.", "state": "fresh"},
		"group": "g", "generation": 3, "version": "v1", "notReady": [], "partitions": [{"topic": "events", "partition": 2, "state": "running",
		"lag": 12, "freshnessSeconds": 1.5, "committed": 7, "pending": 4, "openBuckets": 5}]}`
	stoppedReport = `{"headline": {"text": "Not ready: reading has stopped", "state": "stopped", "runbook": "stopped-partitions"}, "notReady": [{"text": "reading has stopped"}, {"text": "and \u001b[2J"}]}`
	someHour      = `{"storedPerSecond": [null, 10, 20, 20], "freshnessSeconds": [null, 1, 100, 4], "lagRecords": [1, 2, 3, 4], "deadLetters": [0, 0, 0, null]}`
)

// TestStatusShowsEachConsumer covers consumers that are well, are not, or do not answer. The exit code is that of the worst.
func TestStatusShowsEachConsumer(t *testing.T) {
	well, stopped := consumerPage(t, wellReport, someHour), consumerPage(t, stoppedReport, someHour)
	foreign := consumerPage(t, "<html>", "")
	code, stdout, stderr := try(t, nil, nil, "status", "--of", well)
	if code != exitDone || strings.Contains(stdout, "What to do") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	for _, part := range []string{
		well + "  group g, generation 3, version v1\n", "Ready: 1 partition stored", "stored per second       20  |", "at most 20\n", "freshness            4.0 s  |", "at most 100 s\n",
		"events/2", "running  12", "1.5s",
	} {
		if !strings.Contains(stdout, part) {
			t.Errorf("the output lacks %q:\n%s", part, stdout)
		}
	}
	code, stdout, _ = try(t, nil, nil, "status", "--of", strings.Join([]string{well, stopped, foreign, "127.0.0.1:1"}, ","))
	if code != exitFound {
		t.Errorf("exit code %d, want %d", code, exitFound)
	}
	for _, part := range []string{
		"Not ready: reading has stopped\n  and \\x1b[2J\nWhat to do: " + stopped + "/docs/runbook.md#stopped-partitions\n", foreign + " does not answer: " + foreign + "/api/status is not the status of a consumer",
		"http://127.0.0.1:1 does not answer: dial tcp", "refused\n  Is the consumer running, and is this its HTTP_ADDR?",
	} {
		if !strings.Contains(stdout, part) {
			t.Errorf("the output lacks %q:\n%s", part, stdout)
		}
	}
	var all []consumerSeen
	code, stdout, _ = try(t, nil, nil, "status", "--output", "json", "--of", well+","+stopped)
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != exitFound || len(all) != 2 || all[0].Status.Partitions[0].Number != 2 || *all[0].Hour.Stored[1] != 10 {
		t.Errorf("exit code %d, %v, %s", code, err, stdout)
	}
}

// TestStatusAsksTheGroup checks that --group asks each other member once, and lists the members that it cannot reach.
func TestStatusAsksTheGroup(t *testing.T) {
	const member = `{"headline": {"text": "Ready: of %s"}, "notReady": [], "members": [
		{"name": "a", "this": %t, "host": "10.0.0.5", "page": %q, "partitions": {"events": [0, 1, 2, 5], "trades": [7]}},
		{"name": "b", "this": %t, "host": "10.0.0.6", "page": %q, "partitions": {}},
		{"name": "c", "host": "10.0.0.7", "foreign": true, "partitions": {"events": [4]}}]}`
	var a, b string
	pages := func(name string) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("/api/status", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, member, name, name == "a", a+"/", name == "b", b+"/")
		})
		mux.HandleFunc("/api/hour", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, someHour) })
		return mux
	}
	first, second := httptest.NewServer(pages("a")), httptest.NewServer(pages("b"))
	t.Cleanup(first.Close)
	t.Cleanup(second.Close)
	a, b = first.URL, second.URL
	for _, c := range []struct {
		args []string
		want map[string]int // how often each text is shown
	}{
		{[]string{"--of", a}, map[string]int{"Ready: of a": 1, "Ready: of b": 0, "MEMBER": 1, "a (this consumer)": 1}},
		{[]string{"--of", a, "--group"}, map[string]int{"Ready: of a": 1, "Ready: of b": 1, "MEMBER": 1, "(this consumer)": 0}},
		{[]string{"--of", a + "," + b, "--group"}, map[string]int{"Ready: of a": 1, "Ready: of b": 1, "MEMBER": 1}},
	} {
		code, stdout, stderr := try(t, nil, nil, append([]string{"status"}, c.args...)...)
		for part, times := range c.want {
			if strings.Count(stdout, part) != times || code != exitDone {
				t.Errorf("%v: exit code %d, %q is not shown %d times:\n%s%s", c.args, code, part, times, stdout, stderr)
			}
		}
		for _, row := range []string{"  " + a + "/", "5      events 0–2, 5; trades 7\n", "c (another program)  10.0.0.7"} {
			if !strings.Contains(stdout, row) {
				t.Errorf("%v: the output lacks %q:\n%s", c.args, row, stdout)
			}
		}
	}
}

// TestStatusIsAskedWhereTheConsumerAnswers checks the address, which is HTTP_ADDR unless --of names another.
func TestStatusIsAskedWhereTheConsumerAnswers(t *testing.T) {
	for address, want := range map[string]string{
		"": "http://127.0.0.1:9464", ":9000": "http://127.0.0.1:9000", "0.0.0.0:1": "http://127.0.0.1:1", "[::]:2": "http://127.0.0.1:2", "10.0.0.7:3": "http://10.0.0.7:3",
	} {
		p := &Program{Lookup: func(string) (string, bool) { return address, address != "" }}
		if got, err := p.consumerURLs(nil); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("HTTP_ADDR=%s: %v, %v, want %s", address, got, err, want)
		}
	}
	for address, want := range map[string]string{"": "HTTP_ADDR is empty", "9464": "not an address such as"} {
		for _, command := range []string{"status", "health"} {
			if code, _, stderr := try(t, map[string]string{"HTTP_ADDR": address}, nil, command); code != exitUsage || !strings.Contains(stderr, want) {
				t.Errorf("%s with HTTP_ADDR=%s: exit code %d, %s", command, address, code, stderr)
			}
		}
	}
	for _, args := range [][]string{{"status", "--of", "ftp://host"}, {"status", "--of", "http://"}, {"status", "--watch", "--output", "json"}, {"status", "more"}} {
		if code, _, stderr := try(t, nil, nil, args...); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// TestHoursOfAnyLengthAreDrawn also covers an empty hour, as an earlier version may answer.
func TestHoursOfAnyLengthAreDrawn(t *testing.T) {
	p := &Program{Lookup: func(string) (string, bool) { return "", false }}
	for n := range 130 {
		h := &status.Hour{}
		for i := range n {
			h.Stored = append(h.Stored, new(float64(i)))
		}
		var out strings.Builder
		p.printHour(&out, h)
		if lines := strings.Split(out.String(), "\n"); len(lines) != 7 || len([]rune(lines[1])) < 80 {
			t.Fatalf("%d values:\n%s", n, out.String())
		}
	}
}

// TestHealthAsksTheConsumer checks the exit code for supervisors.
func TestHealthAsksTheConsumer(t *testing.T) {
	consumer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "MongoDB has not answered")
			return
		}
		fmt.Fprintln(w, "ok", r.URL.Path)
	}))
	address := strings.TrimPrefix(consumer.URL, "http://")
	_, port, _ := strings.Cut(address, ":")
	with := func(address string) map[string]string { return map[string]string{"HTTP_ADDR": address} }
	for _, one := range []string{address, ":" + port} {
		if code, out, errs := try(t, with(one), nil, "health"); code != exitDone || out != "ok /healthz\n" {
			t.Errorf("HTTP_ADDR=%s: exit code %d, %q, %q", one, code, out, errs)
		}
	}
	if code, out, errs := try(t, with(address), nil, "health", "--ready"); code != exitFailed || out != "" || !strings.Contains(errs, "/readyz answers 503: MongoDB has not answered") {
		t.Errorf("not ready: exit code %d, %q, %q", code, out, errs)
	}
	consumer.Close()
	if code, _, errs := try(t, with(address), nil, "health"); code != exitFailed || !strings.Contains(errs, "refused") {
		t.Errorf("no consumer: exit code %d, %q", code, errs)
	}
}
