package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// signs are a consumer's report of its progress, in one of three places.
type signs struct {
	lag, freshness float64
}

// signsOf reads the signs from the last progress line of the log, the page's JSON and the metrics.
func (s *stream) signsOf(c *harness.Consumer) map[string]signs {
	s.t.Helper()
	ctx := within(s.t, 10*time.Second)
	metrics, err := c.Metrics(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	_, body, err := c.Get(ctx, "/api/status")
	if err != nil {
		s.t.Fatal(err)
	}
	var page struct {
		Partitions []struct {
			Lag              *float64
			FreshnessSeconds *float64
		}
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		s.t.Fatal(err)
	}
	all := map[string]signs{}
	shown := signs{}
	for _, p := range page.Partitions {
		if p.Lag == nil || p.FreshnessSeconds == nil {
			shown.lag = -1
			break
		}
		shown.lag += *p.Lag
		shown.freshness = max(shown.freshness, *p.FreshnessSeconds)
	}
	all["the page"] = shown
	worst := 0.0
	for _, m := range metrics["waterwheel_freshness_seconds"].GetMetric() {
		worst = max(worst, m.GetGauge().GetValue())
	}
	all["the metrics"] = signs{metrics.Sum("waterwheel_lag_records"), worst}
	if line := lastLine(c, `"msg":"progress"`); line != "" {
		var progress struct {
			Lag       float64
			Freshness string
		}
		if err := json.Unmarshal([]byte(line), &progress); err != nil {
			s.t.Fatal(err)
		}
		fresh, err := time.ParseDuration(progress.Freshness)
		if err != nil {
			s.t.Errorf("freshness in %s: %v", line, err)
		}
		all["the log"] = signs{progress.Lag, fresh.Seconds()}
	}
	return all
}

// lastLine returns the last line of a consumer's log that contains a text. Empty means none.
func lastLine(c *harness.Consumer, with string) string {
	last := ""
	for line := range strings.Lines(c.Log()) {
		if strings.Contains(line, with) && strings.HasSuffix(line, "\n") {
			last = line
		}
	}
	return last
}

// awaitSigns waits until log, page and metrics agree on a lag, and a freshness between two bounds.
func (s *stream) awaitSigns(c *harness.Consumer, lag, fresh, stale float64) {
	s.t.Helper()
	ctx := within(s.t, 30*time.Second)
	for {
		all := s.signsOf(c)
		agree := len(all) == 3
		for _, of := range all {
			agree = agree && of.lag == lag && of.freshness >= fresh && of.freshness <= stale
		}
		if agree {
			return
		}
		if ctx.Err() != nil {
			s.t.Fatalf("the signs are %+v, want lag %g everywhere and a freshness from %g to %g s", all, lag, fresh, stale)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// sendReadings produces readings of several series. All are valid, so each counts as lag until it is stored.
func (s *stream) sendReadings(n int) {
	s.t.Helper()
	begin := time.Now().Add(-time.Hour).UnixMilli()
	readings := make([]events.Event, n)
	for i := range readings {
		readings[i] = s.book.Add(events.Of(events.Reading{
			Time: begin + int64(i), Meta: fmt.Sprintf("series-%d", i%8), Fields: bson.D{{Key: "n", Value: int32(i)}},
		}))
	}
	if err := s.producer.Send(within(s.t, 20*time.Second), readings...); err != nil {
		s.t.Fatal(err)
	}
}

// TestSignsOfAnOutage checks the log, the page and the metrics. While MongoDB is down they show the same lag and age of the data.
// Before, afterwards and after a rebalance they show no lag.
func TestSignsOfAnOutage(t *testing.T) {
	t.Parallel()
	s := newStream(t, 4)
	l, uri := world.servers.LinkMongo(t)
	progress := []string{"MONGODB_URI", uri, "LOG_PROGRESS", "1s", "LOG_FORMAT", "json"}
	c := s.start(progress...)
	s.sendReadings(40)
	s.awaitCommitted(c, time.Minute)
	s.awaitSigns(c, 0, 0, 0)

	l.Refuse()
	away := time.Now()
	s.sendReadings(30)
	time.Sleep(6 * time.Second)
	lasted := time.Since(away).Seconds()
	s.awaitSigns(c, 30, 5, lasted+10)
	if status, body, err := c.Get(t.Context(), "/readyz"); err != nil || status != 503 || strings.Count(body, "\n") != 1 {
		t.Errorf("/readyz: %d, %v, want one line for MongoDB:\n%s", status, err, body)
	}
	if n := strings.Count(c.Log(), "MongoDB is failing; retrying"); n != 1 {
		t.Errorf("%d lines about the outage, want one in ten seconds", n)
	}

	if err := l.Restore(); err != nil {
		t.Fatal(err)
	}
	s.awaitCommitted(c, time.Minute)
	s.awaitSigns(c, 0, 0, 0)
	if line := lastLine(c, "MongoDB answers again"); !strings.Contains(line, `"after":"`) {
		t.Errorf("the end of the outage: %q", line)
	}

	s.wantSignsThroughRebalance(c, progress)
	s.terminate(c)
	s.check()
}

// wantSignsThroughRebalance starts and ends another consumer. The series of the first one's partitions remain, and an idle topic
// stays fresh.
func (s *stream) wantSignsThroughRebalance(c *harness.Consumer, settings []string) {
	s.t.Helper()
	ended, watched := make(chan bool), make(chan []string)
	go func() {
		var wrong []string
		defer func() { watched <- wrong }()
		for {
			metrics, err := c.Metrics(s.t.Context())
			if n := len(metrics["waterwheel_lag_records"].GetMetric()); err == nil && n < 2 {
				wrong = append(wrong, "series vanish")
			}
			if fresh := metrics.Sum("waterwheel_freshness_seconds"); fresh > 3 {
				wrong = append(wrong, "stale")
			}
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	second := s.start(settings...)
	s.awaitAssigned(2, c, second)
	s.awaitSigns(c, 0, 0, 0)
	s.awaitSigns(second, 0, 0, 0)
	s.terminate(second)
	s.awaitAssigned(4, c)
	s.awaitSigns(c, 0, 0, 0)
	close(ended)
	if wrong := <-watched; len(wrong) > 0 {
		s.t.Errorf("through the rebalances, in %d scrapes: %v", len(wrong), wrong[:min(5, len(wrong))])
	}
}

// TestStopDuringAnOutageSaysWhatIsReadAgain checks the log about measurements that could not be written in time. The exit code is
// 0, or 1 after a second signal. The next consumer stores them.
func TestStopDuringAnOutageSaysWhatIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	l, uri := world.servers.LinkMongo(t)
	for _, hurried := range []bool{false, true} {
		c := s.start("MONGODB_URI", uri, "SHUTDOWN_TIMEOUT", "3s", "LOG_FORMAT", "json")
		s.awaitAssigned(2, c)
		s.sendReadings(20)
		s.awaitCommitted(c, time.Minute)
		l.Refuse()
		s.sendReadings(20)
		s.awaitRead(c, map[bool]float64{false: 40, true: 60}[hurried]) // the second consumer reads again what the first one left
		s.signal(c, syscall.SIGTERM)
		if hurried {
			time.Sleep(500 * time.Millisecond)
			s.signal(c, syscall.SIGINT)
		}
		code, err := c.Wait(within(t, 20*time.Second))
		want, says := 0, "stopped before all records were stored and committed"
		if hurried {
			want, says = 1, "a second signal ended the consumer before it stored and committed all records"
		}
		if err != nil || code != want || !strings.Contains(lastLine(c, says), s.topic+"/") {
			t.Errorf("ended with %d, %v, and %q; want %d", code, err, lastLine(c, says), want)
		}
		if err := l.Restore(); err != nil {
			t.Fatal(err)
		}
	}
	c := s.start()
	s.awaitCommitted(c, time.Minute)
	s.terminate(c)
	s.check()
}

// awaitRead waits until a consumer has read the given number of records.
func (s *stream) awaitRead(c *harness.Consumer, records float64) {
	s.t.Helper()
	ctx := within(s.t, 20*time.Second)
	for {
		metrics, err := c.Metrics(ctx)
		if err == nil && metrics.Sum("waterwheel_records_read_total") >= records {
			return
		}
		if ctx.Err() != nil {
			s.t.Fatalf("not %g records were read: %v", records, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestStoppedPartitionGoesOnLagging checks that a stopped partition still reports its lag, which grows with the log. Its age is
// that of the first record that is not stored.
func TestStoppedPartitionGoesOnLagging(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	c := s.start("DLQ_TOPIC", "", "LOG_PROGRESS", "1s", "LOG_FORMAT", "json")
	bad := s.book.Add(events.Bad("not_json", 1, time.Now().UnixMilli(), maxEventBytes))
	if err := s.producer.Send(within(t, 20*time.Second), bad); err != nil {
		t.Fatal(err)
	}
	sent := time.Now()
	s.awaitSigns(c, 1, 0, 30)
	for n := 1; n < 5; n++ {
		if err := s.producer.Send(within(t, 20*time.Second), bad); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitSigns(c, 5, time.Since(sent).Seconds()-3, 60)
	if status, body, err := c.Get(t.Context(), "/readyz"); err != nil || status != 503 || !strings.Contains(body, "has stopped (bad_record)") {
		t.Errorf("/readyz: %d, %v:\n%s", status, err, body)
	}
	s.terminate(c)
}
