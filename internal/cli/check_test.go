package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

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

// TestSampleIsPrinted checks each part of a printed sample.
func TestSampleIsPrinted(t *testing.T) {
	sample := check.Sample{
		Topic: "events", Records: 63, Tombstones: 1, Measurements: 61, Series: 4, Buckets: 5, Examples: []check.Document{check.Document("{}\x1b")},
		Bad:     []check.Bad{{Reason: "not_json", Count: 1, Example: "not_json: it ends too early", From: "events/0/7"}},
		Largest: []check.PreviewBucket{{From: "events/0", Meta: check.Document(`"a"`), Measurements: 40, Bytes: 900}}, Fields: []check.Field{{Path: "host", Values: 3}},
	}
	var out bytes.Buffer
	checkView{Samples: []check.Sample{sample, {Topic: "empty"}}}.print(&out)
	for _, line := range []string{
		"The newest 63 records of events: 61 measurements, 1 tombstone\n", `  {}\x1b`, "1             not_json  events/0/7  it ends too early",
		"They would become 4 series in 5 buckets, with 12.2 measurements per bucket", "3       meta.host",
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
	env["KAFKA_TOPICS"] = "^events" // the topics that match are unknown; MongoDB is checked all the same
	if code, again, _ := try(t, env, nil, "check"); code != exitFound || !strings.Contains(again, "wrong    MongoDB ") || !strings.Contains(again, "2 wrong") {
		t.Errorf("with a pattern: exit code %d\n%s", code, again)
	}
	if code, _, stderr := try(t, env, nil, "check", "--sample", "-1"); code != exitUsage {
		t.Errorf("a negative sample: exit code %d, %s", code, stderr)
	}
}

// TestInterruptedCheckFindsNothing checks that Ctrl-C is not reported as a fault of the servers.
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

// feed runs a command with text on standard input.
func feed(t *testing.T, env map[string]string, text string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return try(t, env, func(p *Program) { p.Stdin = strings.NewReader(text) }, args...)
}

// TestEventsFromStandardInputAreChecked needs neither servers nor their settings.
func TestEventsFromStandardInputAreChecked(t *testing.T) {
	now := time.Now().UTC().Format(time.RFC3339)
	telegraf := `{"fields":{"usage":1.5},"name":"cpu","tags":{"host":"a"},"timestamp":"` + now + `"}`
	code, stdout, stderr := feed(t, nil, telegraf, "check", "--sample", "-")
	for _, text := range []string{
		"The first record of standard input: 0 measurements", "missing_time  event 1",
		"These look like Telegraf's events. Proposed settings, confidence high:\n\n" +
			"  EVENT_TIME_FIELD=timestamp EVENT_META_FIELDS=name,tags EVENT_FIELDS=fields\n\n  Makes    1 measurement of 1 series, and 0 dead letters\n", `"usage":1.5}`,
		"  Loses    nothing that the sample shows\n",
	} {
		if code != exitFound || !strings.Contains(stdout, text) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", code, text, stdout, stderr)
		}
	}
	env := map[string]string{"EVENT_TIME_FIELD": "timestamp", "EVENT_META_FIELDS": "name,tags", "EVENT_FIELDS": "fields", "KAFKA_LEASE": "never"}
	code, stdout, stderr = feed(t, env, telegraf, "check", "--sample=-", "--output", "json")
	var view checkView
	if err := json.Unmarshal([]byte(stdout), &view); err != nil || code != exitDone || len(view.Samples) != 1 || view.Samples[0].Measurements != 1 || view.Samples[0].Proposal != nil {
		t.Errorf("with what was proposed: exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	code, stdout, _ = feed(t, nil, `{"resourceLogs":[]}`, "check", "--sample", "-")
	if code != exitFound || !strings.Contains(stdout, "No settings are proposed: each record is a request of OpenTelemetry's protocol") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

func TestStandardInputIsCheckedAsItShouldBe(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{nil, []string{"check", "--sample", "-"}, "standard input contains no events"},
		{nil, []string{"check", "--sample", "many"}, "must be 0 to 1000000 records, or - for standard input"},
		{map[string]string{"EVENT_FORMAT": "bson"}, []string{"check", "--sample", "-"}, "--sample - reads text, but EVENT_FORMAT is bson"},
		{map[string]string{"EVENT_DROP": "time"}, []string{"check", "--sample", "-"}, "EVENT_DROP=time: is the same field as EVENT_TIME_FIELD"},
	} {
		if code, _, stderr := feed(t, test.env, "", test.args...); code != exitUsage || !strings.Contains(stderr, test.want) {
			t.Errorf("%v: exit code %d, %s, want %q", test.args, code, stderr, test.want)
		}
	}
}

// TestCheckOfStandardInputIsInterrupted covers an input that neither brings anything nor ends.
func TestCheckOfStandardInputIsInterrupted(t *testing.T) {
	reader, writer := io.Pipe()
	defer writer.Close()
	ctx, stop := context.WithCancel(t.Context())
	var stderr strings.Builder
	p := &Program{Stdin: reader, Stdout: io.Discard, Stderr: &stderr, Lookup: func(string) (string, bool) { return "", false }}
	stop()
	if code := p.Execute(ctx, []string{"check", "--sample", "-"}); code != exitFailed || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
}

// TestQuestionsShowBothAnswers checks that a setting is not proposed if the sample cannot decide it.
func TestQuestionsShowBothAnswers(t *testing.T) {
	now := time.Now().UTC().Format(time.RFC3339)
	events := `{"id":"a","site":"n","time":"` + now + `","v":"1"}` + "\n" + `{"id":"b","site":"n","time":"` + now + `","v":"2"}`
	code, stdout, stderr := feed(t, nil, events, "check", "--sample", "-")
	for _, text := range []string{
		"No settings are proposed, because a person has to decide: id differs in each of 2 events: it may name the measured thing, or the event.\n\nA. 2 series in 2 events; choose it if id names",
		"\n  EVENT_META_FIELDS=id,site\n", "\nB. Without id in meta; choose it if id names the event, and never recurs.\n\n  EVENT_META_FIELDS=site\n\n  Makes    2 measurements of 1 series, and 0 dead letters\n",
		"  Loses    calculations with v: it is a number in a string in 2 of 2 events, such as \"1\", and is stored as a string\n", "→ choose between the settings above",
	} {
		if code != exitFound || !strings.Contains(stdout, text) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", code, text, stdout, stderr)
		}
	}
}
