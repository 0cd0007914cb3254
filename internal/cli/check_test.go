package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"waterwheel/internal/check"
)

func TestFindingsPrintTheirWaysOut(t *testing.T) {
	var found check.Findings
	found.OK("Kafka", "connected")
	found.Wrong("topic events", "create it", "does not exist\x1b[1m")
	var out bytes.Buffer
	printFindings(&out, found)
	const want = "ok       Kafka         connected\nwrong    topic events  does not exist\\x1b[1m\n                       → create it\n\n1 wrong, 0 warnings.\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestSampleIsPrinted: what there is of it.
func TestSampleIsPrinted(t *testing.T) {
	sample := check.Sample{
		Topic: "events", Records: 63, Tombstones: 1, Measurements: 61, Series: 4, Buckets: 5, Examples: []check.Document{check.Document("{}\x1b")},
		Bad:     []check.Bad{{Reason: "not_json", Count: 1, Example: "not_json: it ends too early", From: "events/0/7"}},
		Largest: []check.Bucket{{From: "events/0", Meta: check.Document(`"a"`), Measurements: 40, Bytes: 900}}, Fields: []check.Field{{Path: "host", Values: 3}},
	}
	var out bytes.Buffer
	checkView{Samples: []check.Sample{sample, {Topic: "empty"}}}.print(&out)
	for _, line := range []string{
		"The newest 63 records of events: 61 measurements, 1 tombstone\n", `  {}\x1b`, "1        not_json  events/0/7  it ends too early",
		"They would be 4 series in 5 buckets, 12.2 measurements in each", "3       meta.host",
	} {
		if !strings.Contains(out.String(), line) || strings.Contains(out.String(), "empty") {
			t.Errorf("%q is missing in:\n%s", line, out.String())
		}
	}
}

func TestCheckOfServersThatAreNotThere(t *testing.T) {
	env := settings()
	env["KAFKA_BROKERS"], env["MONGODB_URI"] = "127.0.0.1:1", "mongodb://127.0.0.1:1/db?serverSelectionTimeoutMS=100"
	code, stdout, _ := try(t, env, nil, "check")
	if code != exitFound || !strings.Contains(stdout, "wrong    Kafka ") || !strings.Contains(stdout, "wrong    MongoDB ") || !strings.Contains(stdout, "2 wrong") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	if code, _, stderr := try(t, env, nil, "check", "--sample", "-1"); code != exitUsage {
		t.Errorf("a negative sample: exit code %d, %s", code, stderr)
	}
}

// TestInterruptedCheckFindsNothing: Ctrl-C is no fault of the servers.
func TestInterruptedCheckFindsNothing(t *testing.T) {
	env := settings()
	env["KAFKA_BROKERS"], env["MONGODB_URI"] = "127.0.0.1:1", "mongodb://127.0.0.1:1/db?serverSelectionTimeoutMS=100"
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, stderr bytes.Buffer
	p := &Program{Stdout: &out, Stderr: &stderr, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	if code := p.Execute(ctx, []string{"check"}); code != exitFailed || out.Len() > 0 || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit code %d, %q, %q", code, out.String(), stderr.String())
	}
}
