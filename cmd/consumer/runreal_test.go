package main

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// metricsOf reads /metrics of a running consumer and returns the values by the rest of their lines. It returns an empty map while
// the consumer does not answer.
func metricsOf(t *testing.T, addr string) map[string]float64 {
	t.Helper()
	samples := map[string]float64{}
	response, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return samples
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if end := strings.LastIndexByte(line, ' '); end >= 0 && !strings.HasPrefix(line, "#") { // labels may contain spaces
			samples[line[:end]], _ = strconv.ParseFloat(line[end+1:], 64) // no metric of ours has a value that is not a number
		}
	}
	return samples
}

// sumOf returns the sum of the samples of a metric that have a label.
func sumOf(samples map[string]float64, metric, label string) (sum float64) {
	for name, value := range samples {
		if strings.HasPrefix(name, metric+"{") && strings.Contains(name, label) {
			sum += value
		}
	}
	return sum
}

// TestSteadyStateCostsNoReadsOnServers checks on real servers too that nothing is read after the partitions are claimed.
func TestSteadyStateCostsNoReadsOnServers(t *testing.T) {
	s := newStage(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close() // so that the consumer can use the port
	s.env["HTTP_ADDR"], s.env["BUCKET_REOPEN"] = addr, "false"
	const reads = `waterwheel_mongodb_command_duration_seconds_count{command="find"}`
	stored := func() map[string]float64 {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			samples := metricsOf(t, addr)
			stored := sumOf(samples, "waterwheel_measurements_stored_total", "topic")
			if int(stored) == s.valid {
				return samples
			}
			if time.Now().After(deadline) {
				t.Fatalf("%v of %d measurements are stored", stored, s.valid)
			}
		}
	}
	s.produce(400)
	s.consume()
	before := stored()
	s.produce(2000)
	after := stored()
	if before[reads] == 0 || after[reads] != before[reads] {
		t.Errorf("%v reads until the first measurements were stored, then %v more", before[reads], after[reads]-before[reads])
	}
	if claims := sumOf(after, "waterwheel_claims_total", `outcome="cold"`); claims != 2 {
		t.Errorf("%v claims of 2 partitions", claims)
	}
}
