package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/dlq/redrive"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

func foundDeadLetter(offset int64) *dlq.Found {
	place := record.Place{Partition: record.Partition{Topic: "events.dlq"}, Offset: offset}
	return &dlq.Found{Place: place, Attempt: 1, Letter: record.DeadLetter{
		Place: record.Place{Partition: record.Partition{Topic: "events", Number: 3}, Offset: 100 + offset}, Part: record.WholeRecord,
		Reason: "bad_time", Message: "bad_time at time: \"\x1b[1m\" is no time", Timestamp: 1_700_000_000_000,
	}}
}

// TestLetterOfAFarTimestampIsListed checks a timestamp in microseconds.
func TestLetterOfAFarTimestampIsListed(t *testing.T) {
	var out bytes.Buffer
	far := foundDeadLetter(1)
	far.Letter.Timestamp = 1772366400250000
	list := newDeadLetterList(&out, 3, true)
	if err := errors.Join(list.add(newDeadLetterRow(far)), list.add(newDeadLetterRow(foundDeadLetter(2))), list.end()); err != nil || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestListShowsTheLastLetters(t *testing.T) {
	for _, c := range []struct{ deadLetters, limit, first, shown int }{{7, 3, 4, 3}, {2, 3, 0, 2}, {7, 0, 0, 7}, {0, 3, 0, 0}, {6, 3, 3, 3}} {
		var out bytes.Buffer
		list := newDeadLetterList(&out, c.limit, true)
		for i := range c.deadLetters {
			if err := list.add(newDeadLetterRow(foundDeadLetter(int64(i)))); err != nil {
				t.Fatal(err)
			}
		}
		if err := list.end(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var row DeadLetterRow
		if c.shown > 0 {
			if err := json.Unmarshal([]byte(lines[0]), &row); err != nil || row.DeadLetter != fmt.Sprintf("events.dlq/0/%d", c.first) {
				t.Errorf("%+v: the first row is %+v, %v", c, row, err)
			}
		}
		if list.written != c.shown || strings.Count(out.String(), "\n") != c.shown {
			t.Errorf("%+v: %d rows", c, list.written)
		}
	}
}

func TestListIsHarmlessForATerminal(t *testing.T) {
	var out bytes.Buffer
	list := newDeadLetterList(&out, 5, false)
	f := foundDeadLetter(1)
	f.Letter.Part, f.Letter.Cut = 4, "value of 9 bytes"
	if err := list.add(newDeadLetterRow(f)); err != nil {
		t.Fatal(err)
	}
	if err := list.end(); err != nil {
		t.Fatal(err)
	}
	const want = "LETTER          FROM             TIME                      REASON    ATTEMPT  MESSAGE\n" +
		`events.dlq/0/1  events/3/101[4]  2023-11-14T22:13:20.000Z  bad_time  1        (truncated) at time: "\x1b[1m" is no time` + "\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTimesOfFlags(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "-2h": now.Add(-2 * time.Hour), "2026-02-01": time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
		"now": now, "-7d": now.Add(-168 * time.Hour), "2026-02-01 10:00 +0200": time.Date(2026, 2, 1, 8, 0, 0, 0, time.UTC),
		"2026-02-01T10:00:00+02:00": time.Date(2026, 2, 1, 8, 0, 0, 0, time.UTC),
		"2026-02-01T10:00:00":       time.Date(2026, 2, 1, 10, 0, 0, 0, time.UTC),
		"2026-02-01 10:00":          time.Date(2026, 2, 1, 10, 0, 0, 0, time.UTC),
		"2026-02-01 10:00:00.250":   time.Date(2026, 2, 1, 10, 0, 0, 250_000_000, time.UTC),
	} {
		if got, err := parseWhen("--from", text, now, time.UTC); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"yesterday", "7d", "10:00", "2026-02-30", "2026-02-01 25:00"} {
		if _, err := parseWhen("--from", text, now, time.UTC); err == nil || !strings.Contains(err.Error(), whenExamples) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestWrongUseOfDLQCommands(t *testing.T) {
	off := settings()
	off["DLQ_TOPIC"] = ""
	for name, c := range map[string]struct {
		env    map[string]string
		args   []string
		stderr string
	}{
		"no command":        {settings(), []string{"dlq"}, "list, show, stats or redrive"},
		"unknown command":   {settings(), []string{"dlq", "lst"}, `did you mean list?`},
		"no place":          {settings(), []string{"dlq", "show"}, "TOPIC/PARTITION/OFFSET"},
		"near topic":        {settings(), []string{"dlq", "list", "--topic", "event"}, "did you mean events?"},
		"no such topic":     {settings(), []string{"dlq", "list", "--topic", "x"}, "not one of KAFKA_TOPICS: events"},
		"output":            {settings(), []string{"dlq", "stats", "--output", "x"}, "table or json"},
		"attempts":          {settings(), []string{"dlq", "redrive", "--max-attempts", "0"}, "--max-attempts"},
		"letter and more":   {settings(), []string{"dlq", "redrive", "--letter", "events.dlq/0/1", "--limit", "1"}, "it cannot be combined with --limit"},
		"no letter's place": {settings(), []string{"dlq", "redrive", "--letter", "events.dlq"}, "TOPIC/PARTITION/OFFSET"},
		"moving selection":  {settings(), []string{"dlq", "redrive", "--from", "-2h"}, "must select the same dead letters"},
		"no dead letters":   {off, []string{"dlq", "list"}, "DLQ_TOPIC is empty"},
		"wrong settings":    {map[string]string{}, []string{"dlq", "list"}, "KAFKA_BROKERS: is required"},
		"negative limit":    {settings(), []string{"dlq", "list", "--limit", "-1"}, "--limit is -1"},
		"time of no format": {settings(), []string{"dlq", "list", "--from", "noon"}, `--from is "noon"`},
	} {
		if code, _, stderr := try(t, c.env, nil, c.args...); code != exitUsage || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
	}
}

// TestCommandLineSelectsTheSame checks that the printed command line continues an interrupted run.
func TestCommandLineSelectsTheSame(t *testing.T) {
	s := redrive.Selection{MaxAttempts: 5, Filter: dlq.Filter{
		Reasons: []string{"bad_time", "not_json"}, Topics: []string{"events"},
		From: time.Unix(1_700_000_000, 0).UTC(), To: time.Unix(1_700_000_001, 5).UTC(),
	}}
	const want = "waterwheel dlq redrive --reason bad_time,not_json --topic events --from 2023-11-14T22:13:20Z --to 2023-11-14T22:13:21.000000005Z --max-attempts 5 --yes"
	for range 20 { // always in the same order
		if line := redriveCommandLine(s); line != want {
			t.Fatalf("the command line is %q, want %q", line, want)
		}
	}
}

// TestRedriveRefusesDistancesFromNow checks this because the command that continues a run must select the same letters.
func TestRedriveRefusesDistancesFromNow(t *testing.T) {
	for _, args := range [][]string{{"--from=-2h"}, {"--from=+2h"}, {"--to=-2h"}, {"--to=+1h"}, {"--from=now"}, {"--to", "now"}} {
		code, _, stderr := try(t, settings(), nil, append([]string{"dlq", "redrive"}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, "must not be now or relative to now") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
	if _, help, _ := try(t, nil, nil, "help", "dlq", "redrive"); strings.Contains(help, "-2h") {
		t.Errorf("the help offers a distance:\n%s", help)
	}
	if _, help, _ := try(t, nil, nil, "help", "dlq", "list"); !strings.Contains(help, "-2h") {
		t.Errorf("the help of list offers none:\n%s", help)
	}
}

func TestMisspelledReasonIsAnError(t *testing.T) {
	for reason, want := range map[string]string{
		"bad_tme": `--reason is "bad_tme": did you mean bad_time? The reasons are not_json, `, "bad-time": "did you mean bad_time?",
		"Missing_Meta": "did you mean missing_meta?", "toolarge": "did you mean too_large?", "": "--reason is empty: give one or more of not_json",
		"bad_time": "", "empty": "", "org.example.BadTime": "", "theirs": "",
	} {
		err := checkReasons([]string{"too_deep", reason})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", reason, err, want)
		}
	}
	for _, command := range []string{"list", "stats", "redrive"} {
		code, _, stderr := try(t, settings(), nil, "dlq", command, "--reason", "bad_tme")
		if code != exitUsage || !strings.Contains(stderr, "did you mean bad_time?") {
			t.Errorf("%s: exit code %d, %s", command, code, stderr)
		}
	}
}

func TestRedriveSaysWhatWouldComeBack(t *testing.T) {
	var out bytes.Buffer
	r := redrive.Report{Driven: 7, Reasons: map[string]int64{"bad_time": 7}, Again: map[string]int64{"bad_time": 2, "bad_meta": 1}, Read: 7, Total: 7}
	printReport(&out, redrive.Options{DryRun: true}, "", r)
	if want := "3  of these would become dead letters again"; !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "bad_meta: 1") {
		t.Errorf("want …%s… in\n%s", want, out.String())
	}
}

// TestReasonsThatNoLetterHasAreTold also checks that they are an error if nothing is selected because of them.
func TestReasonsThatNoLetterHasAreTold(t *testing.T) {
	for _, c := range []struct {
		asked []string
		want  string // the reason in the warning. Empty means none.
	}{
		{nil, ""}, {[]string{"bad_time", "internal_error"}, ""}, {[]string{"theirs"}, ""}, {[]string{"bad_time", "bad-time"}, `"bad-time"`},
	} {
		for _, selected := range []bool{true, false} {
			var stderr bytes.Buffer
			p := &Program{Stderr: &stderr}
			wrong := p.warnOfReasons(c.asked, map[string]int64{"theirs": 2}, selected)
			if (c.want == "") != (stderr.Len() == 0) || !strings.Contains(stderr.String(), c.want) {
				t.Errorf("%v: %q", c.asked, stderr.String())
			}
			if usage := errors.As(wrong, &usageError{}); usage != (c.want != "" && !selected) {
				t.Errorf("%v, letters selected: %t: %v", c.asked, selected, wrong)
			}
		}
	}
}

// TestMessagesAreWholeInAPipe checks that only a terminal truncates them, at its width.
func TestMessagesAreWholeInAPipe(t *testing.T) {
	long := strings.Repeat("long ", 100) + "end"
	for _, onTerminal := range []bool{false, true} {
		var out bytes.Buffer
		list := newDeadLetterList(&text.Output{Writer: &out, Terminal: onTerminal}, 5, false)
		f := foundDeadLetter(1)
		f.Letter.Message = f.Letter.Reason + ": " + long
		if err := errors.Join(list.add(newDeadLetterRow(f)), list.end()); err != nil {
			t.Fatal(err)
		}
		if whole := strings.Contains(out.String(), long); whole == onTerminal {
			t.Errorf("on a terminal: %t\n%s", onTerminal, out.String())
		}
	}
}

func TestStraysAreToldInOneLine(t *testing.T) {
	var out bytes.Buffer
	var s foreign
	s.tell(&out)
	if out.Len() != 0 {
		t.Errorf("without any: %q", out.String())
	}
	for i := range 5 {
		s.add(redrive.Foreign{Place: record.Place{Partition: record.Partition{Topic: "events.dlq"}, Offset: int64(i)}, Wrong: "letters of \"or\nders\" stand elsewhere"})
	}
	s.tell(&out)
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "events.dlq/0/2 (") || !strings.Contains(got, " and 2 more. ") {
		t.Errorf("%q", got)
	}
}

func TestRetrialOutlastsARecordThatMakesTheDecoderFail(t *testing.T) {
	wrong, _ := retrial{}.of(&dlq.Found{Letter: record.DeadLetter{Place: record.Place{Offset: 7}, Value: []byte(`{"time":1700000000}`)}})
	if wrong == nil || wrong.Reason != measurement.InternalError {
		t.Errorf("%v", wrong)
	}
}

// TestRetrialReadsHeaders checks that a letter is tried with the headers of its record.
func TestRetrialReadsHeaders(t *testing.T) {
	env := map[string]string{"EVENT_META_FIELD": "header:sensor"}
	c, err := config.LoadEvents(func(name string) (string, bool) { value, ok := env[name]; return value, ok }, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRetrial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	f := &dlq.Found{Letter: record.DeadLetter{Timestamp: 1_700_000_000_000, Value: []byte(`{"time":1700000000}`)}}
	var failed error
	if got := r.reasons(&failed)(f); got != string(measurement.MissingMeta) || failed != nil {
		t.Errorf("without the header the reason is %q, want %q", got, measurement.MissingMeta)
	}
	f.Headers = []record.Header{{Key: "sensor", Value: []byte("s-17")}}
	if wrong, err := r.of(f); wrong != nil || err != nil {
		t.Errorf("with the header: %v, %v", wrong, err)
	}
}
