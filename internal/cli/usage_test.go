package cli

import (
	"strings"
	"testing"
)

// TestHelpIsPointedToWhereItIs checks that an error names the help of the intended command, not that of the whole program.
func TestHelpIsPointedToWhereItIs(t *testing.T) {
	for hint, args := range map[string][]string{
		`Run "waterwheel help" for usage.`:                            {"qery"},
		`Run "waterwheel help dlq" for usage.`:                        {"dlq", "lst"},
		`Run "waterwheel help dlq list" for usage.`:                   {"dlq", "list", "--limt", "5"},
		`Run "waterwheel help dlq show" for usage.`:                   {"dlq", "show"},
		`Run "waterwheel help query" for usage.`:                      {"query", "m", "--last", "5"},
		`Run "waterwheel help collection set-granularity" for usage.`: {"collection", "set-granularity"},
	} {
		if code, _, stderr := try(t, settings(), nil, args...); code != exitUsage || !strings.HasSuffix(stderr, "\n"+hint+"\n") {
			t.Errorf("%v: exit code %d, %s, want %s", args, code, stderr, hint)
		}
		// The named help must exist.
		words := strings.Fields(strings.Trim(strings.TrimSuffix(strings.TrimPrefix(hint, "Run "), " for usage."), `"`))
		if code, stdout, stderr := try(t, nil, nil, words[1:]...); code != exitDone || !strings.Contains(stdout, "Usage:\n  waterwheel "+strings.Join(words[2:], " ")) {
			t.Errorf("%v: exit code %d, %s%s", words, code, stdout, stderr)
		}
	}
}

// TestHelpOfNoCommandPointsToThoseThereAre covers both orders of the words.
func TestHelpOfNoCommandPointsToThoseThereAre(t *testing.T) {
	for hint, args := range map[string][]string{`Run "waterwheel help" for usage.`: {"help", "dlq", "lst"}, `Run "waterwheel help dlq" for usage.`: {"dlq", "help", "lst"}} {
		code, _, stderr := try(t, nil, nil, args...)
		if code != exitUsage || !strings.Contains(stderr, `no such command: "lst": did you mean list?`) || !strings.HasSuffix(stderr, hint+"\n") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// TestHelpOfACommandIsFoundFromBothSides checks that "help dlq list" and "dlq help list" print the same.
func TestHelpOfACommandIsFoundFromBothSides(t *testing.T) {
	_, want, _ := try(t, nil, nil, "dlq", "list", "--help")
	for _, args := range [][]string{{"help", "dlq", "list"}, {"dlq", "help", "list"}} {
		if code, stdout, stderr := try(t, nil, nil, args...); code != exitDone || stdout != want || want == "" {
			t.Errorf("%v: exit code %d, %s%s\nwant\n%s", args, code, stdout, stderr, want)
		}
	}
	_, family, _ := try(t, nil, nil, "dlq", "--help")
	if code, stdout, _ := try(t, nil, nil, "dlq", "help"); code != exitDone || stdout != family {
		t.Errorf("exit code %d\n%s\nwant\n%s", code, stdout, family)
	}
}

// TestHelpSaysWhatTimesAreTaken checks that a flag accepts the times in its help.
func TestHelpSaysWhatTimesAreTaken(t *testing.T) {
	for _, command := range [][]string{{"dlq", "list"}, {"dlq", "stats"}, {"query"}, {"verify"}, {"collection", "expire"}} {
		if _, help, _ := try(t, nil, nil, append([]string{"help"}, command...)...); !strings.Contains(help, whenForms) {
			t.Errorf("%v:\n%s", command, help)
		}
	}
	for _, args := range [][]string{
		{"dlq", "list", "--from", "noon"}, {"verify", "--from", "noon"}, {"query", "m", "--from", "noon"}, {"collection", "expire", "--before", "noon"},
	} {
		if code, _, stderr := try(t, settings(), nil, args...); code != exitUsage || !strings.Contains(stderr, whenExamples) {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// TestShellsAreToldTheWords covers the completion of flags and their values, topics, reasons and time series. It needs no server,
// and no setting but KAFKA_TOPICS.
func TestShellsAreToldTheWords(t *testing.T) {
	env := map[string]string{"KAFKA_TOPICS": "events, meters", "MONGODB_COLLECTION": "ts_{topic}"}
	for _, c := range []struct {
		args []string
		want []string
		not  string
	}{
		{[]string{"dlq", "list", "--"}, []string{"--from", "--reason", "--limit"}, "--raw"},
		{[]string{"dlq", "list", "--reason", ""}, []string{"bad_time", "not_json"}, ""},
		{[]string{"dlq", "redrive", "--topic", ""}, []string{"events", "meters"}, "ts_events"},
		{[]string{"query", "m", "--format", ""}, []string{"table", "csv", "json"}, ""},
		{[]string{"config", "--output", ""}, []string{"text", "json"}, "table"},
		{[]string{"query", ""}, []string{"ts_events", "ts_meters"}, ""},
		{[]string{"query", "ts_events", ""}, nil, "ts_meters"},
		{[]string{"collection", "set-granularity", ""}, []string{"seconds", "minutes", "hours"}, ""},
		{[]string{"collection", ""}, []string{"show", "set-span"}, "help"},
		{[]string{"help", "dlq", ""}, []string{"list", "redrive"}, "help"},
		{[]string{"help", ""}, []string{"dlq", "verify"}, ""},
		{[]string{"completion", ""}, []string{"bash", "fish"}, ""},
	} {
		code, stdout, stderr := try(t, env, nil, append([]string{"__complete"}, c.args...)...)
		var offered []string
		for line := range strings.Lines(stdout) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			offered = append(offered, word)
		}
		all := "\n" + strings.Join(offered, "\n") + "\n"
		for _, word := range c.want {
			if code != exitDone || !strings.Contains(all, "\n"+word+"\n") {
				t.Errorf("%v: exit code %d, %s is not offered:%s%s", c.args, code, word, all, stderr)
			}
		}
		if c.not != "" && strings.Contains(all, "\n"+c.not+"\n") {
			t.Errorf("%v: %s is offered:%s", c.args, c.not, all)
		}
		const withoutFiles = ":4"
		if offered[len(offered)-1] != withoutFiles {
			t.Errorf("%v: files are offered:%s", c.args, all)
		}
	}
}
