package e2e_test

import (
	"testing"
	"time"
)

// TestABacklogIsStoredBeforeTheInterval checks that no part of a backlog larger than a fetch waits for FLUSH_INTERVAL, even if it
// is read quickly.
func TestABacklogIsStoredBeforeTheInterval(t *testing.T) {
	t.Parallel()
	const records, series = 100_000, 20 // more than one fetch returns
	s := newStream(t, 1)
	s.sendPlain(records, series)
	c := s.start("FLUSH_INTERVAL", "10m")
	s.awaitCommitted(c, 4*time.Minute) // a busy FerretDB needs a minute
	m, err := c.Metrics(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if flushes := m.Sum("waterwheel_flushes_total", "trigger", "caught_up"); flushes != 1 {
		t.Errorf("%v flushes because the end was reached, want 1", flushes)
	}
	s.terminate(c)
	s.verify(t, records)
}
