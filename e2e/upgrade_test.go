package e2e_test

import (
	"os"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// TestRollingUpgradeAndBack replaces three consumers one after the other under load. It replaces a former version by this one,
// and this one by the former. Both are in the group at the same time. E2E_FORMER_CONSUMER is the program of the former version.
func TestRollingUpgradeAndBack(t *testing.T) {
	former := os.Getenv("E2E_FORMER_CONSUMER")
	if former == "" {
		t.Skip("E2E_FORMER_CONSUMER is not set: no rolling upgrade from a former version is tried")
	}
	t.Parallel()
	s, load := underLoad(t, 6)
	consumers := []*harness.Consumer{s.startAs(former), s.startAs(former), s.startAs(former)}
	s.awaitAssigned(2, consumers...)
	for _, binary := range []string{world.binary, former} {
		for i, c := range consumers {
			s.terminate(c)
			consumers[i] = s.startAs(binary)
			s.awaitAssigned(2, consumers...)
		}
		s.awaitStored(consumers[0], time.Minute)
	}
	load.stop()
	s.awaitCommitted(consumers[0], 90*time.Second)
	for _, c := range consumers {
		s.terminate(c)
	}
	s.check()
}
