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

// memoryRoom is what a container must have beside MEMORY_LIMIT.
const memoryRoom = 64 << 20

// startWithin is start in a cgroup of MEMORY_LIMIT and memoryRoom, in which the kernel kills whoever takes more. Where the
// test may make none, staysWithin has to do.
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

// memoryGroup makes a cgroup, of version 1 or 2, that may use so many bytes. Empty means that it may not be made here.
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

// moves fails the test unless the consumer goes on committing until everything is, in a time that one pace allows for.
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

// fromEnv is a number that an environment variable makes larger than it is in CI.
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
