package harness_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// TestClusterIsTriedAgain checks that a failed start of java is tried three times, and that the error has the output of each.
func TestClusterIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("kafka_2.13-0.jar", "")
	write("java", "#!/bin/sh\necho \"$@\" >>"+calls+"\necho out of luck\nexit 1\n")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))

	_, err := harness.StartCluster(within(t, 20*time.Second), harness.ClusterOptions{Jars: dir, Dir: filepath.Join(dir, "kafka"), Brokers: 1})
	if err == nil || strings.Count(err.Error(), "out of luck") != 3 {
		t.Errorf("got %v, want three tries with what java said", err)
	}
	if said, err := os.ReadFile(calls); err != nil || strings.Count(string(said), "\n") != 3 {
		t.Errorf("java was called so (%v):\n%s", err, said)
	}
	if _, err := os.Stat(filepath.Join(dir, "kafka")); !os.IsNotExist(err) {
		t.Errorf("the cluster's folder is left: %v", err)
	}
}

func TestClusterWithoutJars(t *testing.T) {
	_, err := harness.StartCluster(within(t, 20*time.Second), harness.ClusterOptions{Jars: t.TempDir(), Dir: t.TempDir(), Brokers: 1})
	if err == nil || !strings.Contains(err.Error(), "no jars of Kafka") {
		t.Errorf("got %v", err)
	}
}
