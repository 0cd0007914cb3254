package cli

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
	return try(t, env, func(p *Program) { p.Stdin = strings.NewReader(text) }, args...)
}

// TestEventsFromStandardInputAreChecked: without servers, or settings of them.
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
	p := &Program{Stdin: reader, Stdout: io.Discard, Stderr: &stderr, Lookup: func(string) (string, bool) { return "", false }}
	stop()
	if code := p.Execute(ctx, []string{"check", "--sample", "-"}); code != exitFailed || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
}

// TestQuestionsShowBothAnswers: what a sample does not show is not proposed.
func TestQuestionsShowBothAnswers(t *testing.T) {
	now := time.Now().UTC().Format(time.RFC3339)
	events := `{"id":"a","site":"n","time":"` + now + `","v":"1"}` + "\n" + `{"id":"b","site":"n","time":"` + now + `","v":"2"}`
	code, stdout, stderr := feed(t, nil, events, "check", "--sample", "-")
	for _, text := range []string{
		"No settings are proposed, because a person has to decide: id differs in each of 2 events: it may name what is measured, or the event.\n\nA. 2 series in 2 events; choose it if id names",
		"\n  EVENT_META_FIELDS=id,site\n", "\nB. Without id in meta; choose it if id names the event, and never comes again.\n\n  EVENT_META_FIELDS=site\n\n  Makes    2 measurements of 1 series, and 0 dead letters\n",
		"  Loses    calculating with v: it is a number in a text in 2 of 2 events, as \"1\", and is stored as a text\n", "→ decide between the settings above",
	} {
		if code != exitFound || !strings.Contains(stdout, text) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", code, text, stdout, stderr)
		}
	}
}
