package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// memoryRoom is the memory that a container must have in addition to MEMORY_LIMIT.
const memoryRoom = 64 << 20

// startWithin calls start in a cgroup of MEMORY_LIMIT and memoryRoom, in which the kernel kills a process that uses more. Where
// the test may not make a cgroup, staysWithin is the only check.
func (r *trial) startWithin(limit int64, pairs ...string) *harness.Consumer {
	r.t.Helper()
	if group := memoryGroup(r.t, limit+memoryRoom); group != "" {
		r.binary = filepath.Join(r.t.TempDir(), "consumer")
		script := fmt.Sprintf("#!/bin/sh\necho $$ > %s/cgroup.procs && exec %s \"$@\"\n", group, world.binary)
		if err := os.WriteFile(r.binary, []byte(script), 0o700); err != nil { //nolint:gosec // it must be executable
			r.t.Fatal(err)
		}
	}
	return r.start(append(pairs, "MEMORY_LIMIT", fmt.Sprint(limit))...)
}

// memoryGroup makes a cgroup of version 1 or 2 with this limit in bytes. It returns an empty string if the test may not make one.
func memoryGroup(t *testing.T, bytes int64) string {
	t.Helper()
	for _, kind := range []struct{ parent, file string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"},
	} {
		dir, err := os.MkdirTemp(kind.parent, "waterwheel-") //nolint:usetesting // a control group is no folder of files
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) }) // by then its process has ended
		if os.WriteFile(filepath.Join(dir, kind.file), []byte(strconv.FormatInt(bytes, 10)), 0o600) == nil {
			return dir
		}
	}
	t.Log("no cgroup can be made here: only the resident memory is looked at")
	return ""
}

// moves waits until the consumer has committed everything, and fails the test if this takes longer than most, if the memory
// exceeds limit, or if a partition stopped.
func (r *trial) moves(c *harness.Consumer, limit int64, most time.Duration) {
	r.t.Helper()
	began := time.Now()
	r.awaitCommitted(c, most)
	r.t.Logf("all was committed after %v", time.Since(began).Round(time.Millisecond))
	r.staysWithin(c, limit)
	if log := c.Log(); strings.Contains(log, "partition stopped") {
		r.t.Error("a partition stopped")
	}
	r.terminate(c)
}

// fromEnv returns the value of an environment variable, or otherwise. The variables make tests larger than they are in CI.
func fromEnv(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s is not a number", name, text)
	}
	return n
}
