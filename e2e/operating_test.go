package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/harness"
	"waterwheel/internal/metrics"
)

// TestOperatingKitOnPrometheus has a real Prometheus that scrapes a consumer under load. Each query of the dashboard has a
// result, each rule works, the alert about the bad records fires, and no other alert pages.
func TestOperatingKitOnPrometheus(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed: Debian's package prometheus has it")
	}
	s := newStream(t, 2)
	c := s.start("FLUSH_INTERVAL", "500ms")
	server := startPrometheus(t, binary, c.Address())
	load, stop := context.WithCancel(within(t, 2*time.Minute))
	sent := make(chan error, 1)
	go func() {
		defer close(sent)
		sent <- s.load(load)
	}()
	defer func() {
		stop()
		<-sent
	}()
	server.await(t, `count(rate(waterwheel_measurements_per_write_count[10s]) > 0 and waterwheel_bucket_fill_ratio > 0)`)
	server.await(t, `waterwheel:measurements_stored:rate5m > 0`)

	for _, q := range dashboardQueries(t) {
		if q.mayBeEmpty {
			server.query(t, q.expression)
			continue
		}
		server.await(t, q.expression)
	}
	server.rulesAreWell(t)
	server.onlyDeadLettersFire(t)
	stop()
	if err := <-sent; err != nil {
		t.Errorf("sending: %v", err)
	}
	metricsAreOfTheTable(t, c)
	s.terminate(c)
}

// onlyDeadLettersFire checks the alerts. About one in a hundred events of the load cannot be stored. On a busy machine commits
// may be late too, and an alert warns about them.
func (s prometheusServer) onlyDeadLettersFire(t *testing.T) {
	t.Helper()
	s.await(t, `ALERTS{alertname="WaterwheelDeadLetters", severity="warning", alertstate="firing"}`)
	for _, alert := range s.query(t, `ALERTS{severity="page"}`) {
		if alert.Metric["alertname"] != "WaterwheelDeadLetters" {
			t.Errorf("an alert fires, or is about to: %v", alert.Metric)
		}
	}
}

// TestServiceManagerHearsOfTheConsumer checks the notifications to systemd of a service with Type=notify.
func TestServiceManagerHearsOfTheConsumer(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "socket")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	manager.SetReadDeadline(time.Now().Add(time.Minute))
	hear := func(part string) {
		t.Helper()
		for message := make([]byte, 4096); ; {
			n, err := manager.Read(message)
			if err != nil {
				t.Fatalf("%q was not heard: %v", part, err)
			}
			if strings.Contains(string(message[:n]), part) {
				return
			}
		}
	}
	s := newStream(t, 1)
	c := s.start("NOTIFY_SOCKET", socket, "WATCHDOG_USEC", "300000")
	hear("READY=1\n")
	hear("WATCHDOG=1\nSTATUS=ready\n")
	s.terminate(c)
	hear("STOPPING=1\n")
}

// load sends events until the context ends.
func (s *stream) load(ctx context.Context) error {
	g := s.generator(20)
	for ctx.Err() == nil {
		if err := s.send(ctx, g, 50); err != nil && ctx.Err() == nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// metricsAreOfTheTable compares a live /metrics with the table of metrics, and lets promtool check the names.
func metricsAreOfTheTable(t *testing.T, c *harness.Consumer) {
	t.Helper()
	families, err := c.Metrics(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for name, family := range families {
		m, known := metrics.Find(name)
		kind := strings.ToLower(family.GetType().String())
		if strings.HasPrefix(name, metrics.Prefix) && (!known || kind != string(m.Kind)) {
			t.Errorf("/metrics has the %s %s; the table: %t, %q", kind, name, known, m.Kind)
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		return // promtool comes with prometheus
	}
	_, text, err := c.Get(within(t, 10*time.Second), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	out, err := check.CombinedOutput()
	if about := regexp.MustCompile(`(?m)^waterwheel.*`).FindAllString(string(out), -1); len(about) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, strings.Join(about, "\n"))
	}
}

// dashboardQuery is a query with values for the dashboard's variables.
type dashboardQuery struct {
	expression string
	mayBeEmpty bool // an annotation without an event
}

func dashboardQueries(t *testing.T) []dashboardQuery {
	t.Helper()
	text, err := os.ReadFile("../deploy/grafana/waterwheel.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Annotations, Templating struct {
			List []struct {
				Expr  string
				Query any
			}
		}
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var all []dashboardQuery
	add := func(expression string, mayBeEmpty bool) {
		values := strings.NewReplacer("$job", ".+", "$topic", ".+", "$__rate_interval", "10s", "$__range", "1m")
		all = append(all, dashboardQuery{values.Replace(expression), mayBeEmpty})
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			add(target.Expr, false)
		}
	}
	for _, a := range dashboard.Annotations.List {
		add(a.Expr, true)
	}
	for _, v := range dashboard.Templating.List {
		if values, is := v.Query.(map[string]any); is {
			inner := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(fmt.Sprint(values["query"]))
			add(fmt.Sprintf("group by (%s) (%s)", inner[2], inner[1]), false)
		}
	}
	if len(all) < 40 {
		t.Fatalf("only %d queries were found", len(all))
	}
	return all
}

// prometheusServer is a running Prometheus.
type prometheusServer string

// startPrometheus starts a Prometheus that scrapes an address and evaluates the rules every second, until the test ends.
func startPrometheus(t *testing.T, binary, scraped string) prometheusServer {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs("../deploy/prometheus/waterwheel.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: waterwheel, static_configs: [{targets: [%q]}]}]\n", rules, scraped)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	var log strings.Builder
	command := exec.Command(binary, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
		if t.Failed() {
			t.Logf("log of Prometheus:\n%s", log.String())
		}
	})
	return prometheusServer("http://" + address)
}

// get requests a path of the server's API and decodes the data of the answer.
func (s prometheusServer) get(ctx context.Context, path string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, string(s)+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %q: %w", path, body, err)
	}
	if answer.Error != "" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// sample is one element of a query's result.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

func (s prometheusServer) ask(ctx context.Context, expression string) ([]sample, error) {
	var data struct{ Result []sample }
	err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expression), &data)
	return data.Result, err
}

func (s prometheusServer) query(t *testing.T, expression string) []sample {
	t.Helper()
	result, err := s.ask(within(t, 10*time.Second), expression)
	if err != nil {
		t.Error(err)
	}
	return result
}

// await waits until a query has a result. On a busy machine single scrapes fail, and their samples are missing until the next
// one.
func (s prometheusServer) await(t *testing.T, expression string) {
	t.Helper()
	for ctx := within(t, time.Minute); ; time.Sleep(200 * time.Millisecond) {
		result, err := s.ask(ctx, expression)
		if err == nil && len(result) > 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s has no result: %v", expression, err)
		}
	}
}

// rulesAreWell checks the state of each rule in Prometheus, and that recording rules record something.
func (s prometheusServer) rulesAreWell(t *testing.T) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Type, Health, LastError string }
		}
	}
	if err := s.get(within(t, 10*time.Second), "/api/v1/rules", &data); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			names = append(names, r.Name)
			if r.Health != "ok" {
				t.Errorf("the rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
			if r.Type == "recording" {
				s.await(t, r.Name)
			}
		}
	}
	if len(names) < 20 || !slices.Contains(names, "WaterwheelStale") {
		t.Errorf("only the rules %v were found", names)
	}
}
