package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
)

// feed runs a command with something on standard input.
func feed(t *testing.T, env map[string]string, text string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return try(t, env, func(p *program) { p.stdin = strings.NewReader(text) }, args...)
}

// TestEventsFromStandardInputAreChecked: without servers, or settings of them.
func TestEventsFromStandardInputAreChecked(t *testing.T) {
	now := time.Now().UTC().Format(time.RFC3339)
	telegraf := `{"fields":{"usage":1.5},"name":"cpu","tags":{"host":"a"},"timestamp":"` + now + `"}`
	code, stdout, stderr := feed(t, nil, telegraf, "check", "--sample", "-")
	for _, text := range []string{
		"The first 1 record of standard input: 0 measurements", "missing_time  event 1",
		"These look like Telegraf's events. With these settings 1 of the first 1 would be measurements, of 1 series:\n\n" +
			"  EVENT_TIME_FIELD=timestamp EVENT_META_FIELDS=name,tags EVENT_FIELDS=fields\n\n  {\"time\":", `"usage":1.5}`,
	} {
		if code != exitFound || !strings.Contains(stdout, text) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", code, text, stdout, stderr)
		}
	}
	env := map[string]string{"EVENT_TIME_FIELD": "timestamp", "EVENT_META_FIELDS": "name,tags", "EVENT_FIELDS": "fields", "KAFKA_LEASE": "never"}
	code, stdout, stderr = feed(t, env, telegraf, "check", "--sample=-", "--output", "json")
	var view checkView
	if err := json.Unmarshal([]byte(stdout), &view); err != nil || code != exitDone || len(view.Samples) != 1 || view.Samples[0].Measurements != 1 || view.Samples[0].Proposals != nil {
		t.Errorf("with what was proposed: exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	code, stdout, _ = feed(t, nil, `{"resourceMetrics":[]}`, "check", "--sample", "-")
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
		{nil, []string{"check", "--sample", "-"}, "there are no events on standard input"},
		{nil, []string{"check", "--sample", "many"}, "it must be 0 to 1000000 records, or - for standard input"},
		{map[string]string{"EVENT_FORMAT": "bson"}, []string{"check", "--sample", "-"}, "--sample - reads text, and EVENT_FORMAT is bson"},
		{map[string]string{"EVENT_DROP": "time"}, []string{"check", "--sample", "-"}, "EVENT_DROP=time: is EVENT_TIME_FIELD as well"},
	} {
		if code, _, stderr := feed(t, test.env, "", test.args...); code != exitUsage || !strings.Contains(stderr, test.want) {
			t.Errorf("%v: exit code %d, %s, want %q", test.args, code, stderr, test.want)
		}
	}
}

// TestCheckOfStandardInputIsInterrupted, though nothing comes and nothing ends.
func TestCheckOfStandardInputIsInterrupted(t *testing.T) {
	reader, writer := io.Pipe()
	defer writer.Close()
	ctx, stop := context.WithCancel(t.Context())
	var stderr strings.Builder
	p := &program{stdin: reader, stdout: io.Discard, stderr: &stderr, lookup: func(string) (string, bool) { return "", false }}
	stop()
	if code := p.execute(ctx, []string{"check", "--sample", "-"}); code != exitFailed || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
}
