package e2e_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestRollingRestartLosesNothing restarts the three brokers of a real cluster one after the other under load. E2E_KAFKA_CLUSTER
// is a command and the cluster's folder. "COMMAND stop FOLDER --node 1" and "COMMAND up FOLDER --node 1" stop and start a broker.
// E2E_KAFKA_BROKERS are the brokers of this cluster. The test does not run in parallel with others.
func TestRollingRestartLosesNothing(t *testing.T) {
	words := strings.Fields(os.Getenv("E2E_KAFKA_CLUSTER"))
	if len(words) != 2 || !world.servers.GivenKafka {
		t.Skip("E2E_KAFKA_CLUSTER or E2E_KAFKA_BROKERS is not set: no rolling restart of a cluster is tried")
	}
	s := newStream(t, 6)
	load := s.startLoad(s.generator(100), 1500)
	first, second := s.start(), s.start()
	s.awaitAssigned(3, first, second)
	for node := 1; node <= 3; node++ {
		for _, action := range []string{"stop", "up"} {
			command := exec.CommandContext(within(t, 2*time.Minute), words[0], action, words[1], "--node", strconv.Itoa(node))
			if output, err := command.CombinedOutput(); err != nil {
				t.Fatalf("broker %d, %s: %v\n%s", node, action, err, output)
			}
		}
		t.Logf("broker %d is back", node)
	}
	load.stop()
	s.awaitCommitted(second, 90*time.Second)
	s.terminate(first)
	s.terminate(second)
	s.check()
}
