package e2e_test

import (
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// TestASlowMongoDBIsNoOutage has a MongoDB that needs longer than MONGODB_WRITE_TIMEOUT for all writes of a flush. Writes without
// time left are sent later, and none is unknown. If even the first calls time out, the consumer sends less at a time until it
// gets answers, and hardly any write is sent twice.
func TestASlowMongoDBIsNoOutage(t *testing.T) {
	const parallel, callWrites = 4, 1000
	const answer, write = 700 * time.Millisecond, 250 * time.Microsecond
	for _, test := range []struct {
		name   string
		series int
		pace   pace
		ideal  time.Duration // time that MongoDB needs for one write of each series, without pauses
		learns bool          // the first send is too much for the server
	}{
		{"each answer is late", 24_000, pace{Answer: answer}, 24_000 / callWrites / parallel * answer, false},
		{"writes wait for each other", 24_000, pace{Write: write}, 24_000 * write, false},
		{"and take twenty times as long", 4000, pace{Write: 20 * write}, 4000 * 20 * write, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, series := newStream(t, 1).inBuckets(), test.series
			server := slowed(t)
			s.sendPlain(series, series)
			server.Slow(test.pace)
			began := time.Now()
			c := s.start("MONGODB_URI", server.URI(), "MONGODB_WRITE_TIMEOUT", "3s", "KAFKA_REBALANCE_TIMEOUT", "20s")
			s.awaitCommitted(c, 2*time.Minute)
			took := time.Since(began)
			if !test.learns {
				s.sawNoOutage(c, series)
			}
			t.Logf("%d series: %.1fs; the MongoDB needs %.1fs", series, took.Seconds(), test.ideal.Seconds())
			switch commands, writes := server.Slowed(); {
			case writes < series || took < test.ideal:
				t.Errorf("%d commands and %d writes were slowed, in %v: nothing was tested", commands, writes, took)
			case writes > series+series/10:
				t.Errorf("%d writes of %d series reached the MongoDB: some were sent in circles", writes, series)
			}
			s.terminate(c)
			s.verify(t, series)
		})
	}
}

// slowed puts a proxy in front of the MongoDB of this run, which can slow it down.
func slowed(t *testing.T) *late {
	t.Helper()
	l, err := newLate(world.servers.MongoURI)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// sawNoOutage checks in a consumer's metrics that each write was answered or not sent, with at least as many writes as
// measurements, and that hardly a second counts as an outage.
func (s *stream) sawNoOutage(c *harness.Consumer, atLeast int) {
	s.t.Helper()
	m, err := c.Metrics(within(s.t, 10*time.Second))
	if err != nil {
		s.t.Fatal(err)
	}
	const attempts, outages = "waterwheel_mongodb_write_attempts_total", "waterwheel_outage_seconds_total"
	acked, notExecuted := m.Sum(attempts, "result", "acked"), m.Sum(attempts, "result", "not_executed")
	unknown, refused := m.Sum(attempts, "result", "unknown"), m.Sum(attempts, "result", "refused")
	outage := m.Sum(outages, "dependency", "mongodb")
	s.t.Logf("attempts: %v acknowledged, %v not executed, %v unknown, %v refused; %v seconds of outage", acked, notExecuted, unknown, refused, outage)
	if unknown > 0 || refused > 0 || outage > 10 { // a busy server may send a sign of life late
		s.t.Error("a slow MongoDB was taken for one that fails")
	}
	if int(acked) < atLeast {
		s.t.Errorf("%v attempts are acknowledged, want %d at least", acked, atLeast)
	}
}
