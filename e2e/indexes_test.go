package e2e_test

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// command runs a command of the consumer with the stream's settings and additional ones.
func (s *stream) command(more []string, args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	run := exec.CommandContext(within(s.t, 60*time.Second), world.binary, args...)
	for name, value := range s.settings {
		run.Env = append(run.Env, name+"="+value)
	}
	run.Env = append(run.Env, more...)
	var out, errs bytes.Buffer
	run.Stdout, run.Stderr = &out, &errs
	err := run.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		s.t.Fatal(err)
	}
	return run.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestIndexes runs an operator's work with indexes, from init to dropping one. Queries find the same with every index.
func TestIndexes(t *testing.T) {
	t.Parallel()
	s := newReadings(t)
	asked := []string{"META_INDEXES=meta.sensor"}
	ok := func(more []string, says string, args ...string) {
		t.Helper()
		code, stdout, stderr := s.command(more, args...)
		if code != 0 || !strings.Contains(stdout, says) {
			t.Errorf("%v: exit code %d, %q is not in:\n%s%s", args, code, says, stdout, stderr)
		}
	}
	fails := func(want int, says string, args ...string) {
		t.Helper()
		if code, stdout, stderr := s.command(nil, args...); code != want || !strings.Contains(stderr, says) {
			t.Errorf("%v: exit code %d, %q is not in:\n%s%s", args, code, says, stdout, stderr)
		}
	}
	found := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := s.query(append([]string{"measurements", "--format", "json"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit code %d, %s", args, code, stderr)
		}
		return stdout
	}
	queries := [][]string{{"sensor=s-17"}, {"site=north", "--from", "2026-03-01", "--to", "2026-03-02"}, {"--filter", `{"meta.sensor": {"$gt": "s-17"}}`}}
	var before []string
	for _, q := range queries {
		before = append(before, found(q...))
	}

	unserved := "no index supports the filter: the filter reads every bucket"
	if _, checked, _ := s.command(nil, "check", "--filter", `{"meta.sensor": "s-17"}`); strings.Contains(checked, "; in a test MongoDB examined ") {
		unserved = "no index supports the filter on meta.sensor, but at present the filter reads few buckets" // this server explains queries
	}
	ok(nil, unserved, "check", "--filter", `{"meta.sensor": "s-17"}`)
	ok(asked, "META_INDEXES asks for meta.sensor, but no index supports queries on it", "check")
	ok(asked, "created the index meta.sensor_1_time_-1 for META_INDEXES", "init")
	ok(asked, "1 of 1 index of META_INDEXES exists", "check")
	ok(nil, "the index meta.sensor_1_time_-1 supports the filter on meta.sensor", "check", "--filter", `{"meta.sensor": "s-17"}`)
	ok(nil, `created the index meta.site_1_time_-1 on {"meta.site":1,"time":-1}`, "collection", "create-index", `{"meta.site": 1, "time": -1}`)
	ok(nil, `created the index warm on {"celsius":1}`, "collection", "create-index", `{"celsius": 1}`, "--name", "warm")
	ok(nil, "exists already", "collection", "create-index", `{"celsius": 1}`, "--name", "warm")
	ok(nil, "META_INDEXES no longer asks for meta.sensor_1_time_-1", "collection", "indexes")
	if code, stdout, stderr := s.query("measurements", "sensor=s-17", "--explain"); code != 0 || !strings.Contains(stdout, "meta.sensor_1_time_-1 supports the filter on meta.sensor") {
		t.Errorf("--explain: exit code %d, %s%s", code, stdout, stderr)
	}
	for i, q := range queries {
		if after := found(q...); after != before[i] || after == "" {
			t.Errorf("%v finds %d bytes with the indexes, %d without", q, len(after), len(before[i]))
		}
	}

	fails(1, "InvalidOptions", "collection", "create-index", `{"meta.site": "text"}`)
	fails(1, "CannotCreateIndex", "collection", "create-index", `{"celsius": "hashed"}`)
	fails(1, `an index "warm" exists already`, "collection", "create-index", `{"humidity": 1}`, "--name", "warm")
	fails(2, "is not a JSON object", "collection", "create-index", `meta.site`)
	fails(1, "is needed", "collection", "drop-index", "meta_1_control.min.time_1")
	fails(1, "is needed", "collection", "hide-index", "meta_1_control.min.time_1")
	fails(1, "there is no index", "collection", "drop-index", "nothing")
	if code, stdout, stderr := s.command(nil, "collection", "hide-index", "warm"); code == 0 {
		ok(nil, "hidden", "collection", "indexes")
		ok(nil, "is shown to queries", "collection", "unhide-index", "warm")
	} else if code != 1 || !strings.Contains(stderr, "this MongoDB cannot hide indexes") {
		t.Errorf("hide-index: exit code %d, %s%s", code, stdout, stderr)
	} else {
		t.Log("this MongoDB cannot hide indexes: hiding is not tried")
	}
	for _, name := range []string{"warm", "meta.site_1_time_-1", "meta.sensor_1_time_-1"} {
		ok(nil, "is dropped", "collection", "drop-index", name, "--yes")
	}
	for i, q := range queries {
		if after := found(q...); after != before[i] {
			t.Errorf("%v finds something else once the indexes are dropped", q)
		}
	}
}

// TestReadingIndexes runs the commands about indexes of docs/reading.md.
func TestReadingIndexes(t *testing.T) {
	t.Parallel()
	s := newReadings(t)
	commands := 0
	for _, block := range codeBlocks(t, "../docs/reading.md", "## Indexes") {
		for command := range strings.Lines(block) {
			commands++
			command = strings.TrimSpace(command)
			code, out := s.shell(command, map[string][]string{"waterwheel": {world.binary}})
			if cannot := strings.Contains(out, "cannot hide") || strings.Contains(out, "NotImplemented"); code == 1 && cannot {
				t.Logf("this server cannot: %s", out)
			} else if code != 0 {
				t.Errorf("%s ended with code %d:\n%s", command, code, out)
			}
		}
	}
	if commands != 7 {
		t.Errorf("%d commands were found", commands)
	}
}
