package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"waterwheel/config"
	"waterwheel/internal/check"
)

// try runs a command line in an environment and returns the exit code and both outputs.
func try(t *testing.T, env map[string]string, change func(*Program), args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	p := &Program{
		Stdout:  &out,
		Stderr:  &err,
		Lookup:  func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Version: "dev",
		Run:     func(context.Context, config.Config, *slog.Logger) error { return nil },
		initialize: func(_ context.Context, _ config.Config, _ *slog.Logger, w io.Writer) error {
			_, err := fmt.Fprintln(w, "created")
			return err
		},
	}
	for name, value := range env {
		p.Environ = append(p.Environ, name+"="+value)
	}
	if change != nil {
		change(p)
	}
	code = p.Execute(t.Context(), args)
	return code, out.String(), err.String()
}

func settings() map[string]string {
	return map[string]string{
		"KAFKA_BROKERS": "kafka:9092", "KAFKA_TOPICS": "events", "MONGODB_URI": "mongodb://u:geheim@mongo/db", "MEMORY_LIMIT": "1GiB",
	}
}

func TestRunIsTheDefault(t *testing.T) {
	for _, args := range [][]string{nil, {"run"}} {
		var got config.Config
		code, _, stderr := try(t, settings(), func(p *Program) {
			p.Run = func(_ context.Context, c config.Config, _ *slog.Logger) error { got = c; return nil }
		}, args...)
		if code != exitDone || got.Kafka.GroupID != "waterwheel" {
			t.Errorf("%v: exit code %d, group %q, %s", args, code, got.Kafka.GroupID, stderr)
		}
	}
}

func TestExitCodes(t *testing.T) {
	failing := func(err error) func(*Program) {
		return func(p *Program) { p.Run = func(context.Context, config.Config, *slog.Logger) error { return err } }
	}
	cases := map[string]struct {
		change func(*Program)
		args   []string
		code   int
		stderr string
	}{
		"failure":         {failing(errors.New("no brokers")), nil, exitFailed, `"level":"ERROR","msg":"the consumer stopped because of an error","err":"no brokers"}`},
		"finding":         {failing(fmt.Errorf("checking: %w", errFound)), nil, exitFound, ""},
		"unknown command": {nil, []string{"rnu"}, exitUsage, `no such command: "rnu": did you mean run?`},
		"unknown flag":    {nil, []string{"run", "--fast"}, exitUsage, "--fast"},
		"near flag":       {nil, []string{"dlq", "list", "--form", "now"}, exitUsage, "unknown flag: --form: did you mean --from?"},
		"near word":       {nil, []string{"config", "--output", "jsn"}, exitUsage, `--output is "jsn": must be text or json: did you mean json?`},
		"near argument":   {nil, []string{"collection", "set-granularity", "minuts"}, exitUsage, `"minuts" is not seconds, minutes or hours: did you mean minutes?`},
		"no number":       {nil, []string{"dlq", "list", "--limit", "abc"}, exitUsage, `--limit is "abc": must be a whole number`},
		"no length":       {nil, []string{"collection", "create-index", "{}", "--expire-after", "30"}, exitUsage, `--expire-after is "30": must be a length of time`},
		"no shell":        {nil, []string{"completion", "bahs"}, exitUsage, `no such command: "bahs": did you mean bash?`},
		"which shell":     {nil, []string{"completion"}, exitUsage, "which shell?"},
		"help misspelt":   {nil, []string{"help", "dlq", "lst"}, exitUsage, `no such command: "lst": did you mean list?`},
		"argument":        {nil, []string{"init", "x"}, exitUsage, `"waterwheel init" takes no arguments`},
		"output":          {nil, []string{"config", "--output", "yaml"}, exitUsage, `--output is "yaml": must be text or json`},
		"init":            {nil, []string{"init"}, exitDone, ""},
		"help":            {nil, []string{"help"}, exitDone, ""},
		"completion":      {nil, []string{"completion", "bash"}, exitDone, ""},
	}
	for name, c := range cases {
		code, _, stderr := try(t, settings(), c.change, c.args...)
		if code != c.code || !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
			t.Errorf("%s: exit code %d and %q, want %d and %q", name, code, stderr, c.code, c.stderr)
		}
	}
}

// TestLastWordOfRunIsALineOfItsLog checks that a collected log has the reason why the consumer ended. Other commands, and a log
// for people, have it in plain words.
func TestLastWordOfRunIsALineOfItsLog(t *testing.T) {
	failing := func(p *Program) {
		p.Run = func(context.Context, config.Config, *slog.Logger) error { return errors.New("no brokers") }
		p.initialize = func(context.Context, config.Config, *slog.Logger, io.Writer) error { return errors.New("no brokers") }
	}
	for name, c := range map[string]struct {
		args    []string
		format  string // LOG_FORMAT
		wrong   bool   // the settings are wrong
		want    string
		notJSON bool
	}{
		"a failure":                         {nil, "", false, `"level":"ERROR","msg":"the consumer stopped because of an error","err":"no brokers"`, false},
		"a failure, the command named":      {[]string{"run"}, "json", false, `"err":"no brokers"`, false},
		"a failure, for people":             {[]string{"run"}, "text", false, `level=ERROR msg="the consumer stopped because of an error" err="no brokers"`, true},
		"wrong settings":                    {nil, "", true, `"way_out":"all settings: docs/configuration.md`, false},
		"wrong settings, for people":        {nil, "text", true, "waterwheel: ", true},
		"a failure of another command":      {[]string{"init"}, "", false, "waterwheel: no brokers\n", true},
		"wrong settings of another command": {[]string{"init"}, "json", true, "All settings: docs/configuration.md", true},
	} {
		env := settings()
		env["LOG_FORMAT"] = c.format
		if c.wrong {
			env["KAFKA_BROKERS"] = ""
		}
		code, _, stderr := try(t, env, failing, c.args...)
		if want := map[bool]int{false: exitFailed, true: exitUsage}[c.wrong]; code != want || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d and %q, want %q", name, code, stderr, c.want)
		}
		for line := range strings.Lines(stderr) {
			if json.Valid([]byte(line)) == c.notJSON {
				t.Errorf("%s: the line %q", name, line)
			}
		}
	}
}

// TestLogLinesDoNotStandWithinTheOutput covers a command whose log and output go to one file. On a terminal log lines appear at
// once.
func TestLogLinesDoNotStandWithinTheOutput(t *testing.T) {
	for _, onTerminal := range []bool{false, true} {
		var both bytes.Buffer
		code, _, _ := try(t, settings(), func(p *Program) {
			p.Stdout, p.Stderr, p.onTerminal = &both, &both, onTerminal
			p.initialize = func(_ context.Context, _ config.Config, log *slog.Logger, w io.Writer) error {
				log.Warn("before")
				fmt.Fprintln(w, "first row")
				log.Warn("between")
				fmt.Fprintln(w, "last row")
				return errors.New("the end")
			}
		}, "init")
		want := []string{"msg=before", "first row", "last row", "msg=between", "waterwheel: the end"}
		if onTerminal {
			want = []string{"msg=before", "first row", "msg=between", "last row", "waterwheel: the end"}
		}
		lines := strings.Split(strings.TrimSpace(both.String()), "\n")
		for i := range want {
			if code != exitFailed || len(lines) != len(want) || !strings.Contains(lines[i], want[i]) {
				t.Fatalf("on a terminal %v: exit code %d, the lines are\n%s\nwant %q", onTerminal, code, both.String(), want)
			}
		}
	}
}

// TestWhatASignalCutsOffIsNoOutage checks this because otherwise Ctrl-C would leave the driver's message about a closed
// connection.
func TestWhatASignalCutsOffIsNoOutage(t *testing.T) {
	signal := errors.New("interrupt signal received")
	for of, want := range map[error]string{
		errors.New("the connection was closed"):  "waterwheel: interrupted: interrupt signal received: the connection was closed\n",
		fmt.Errorf("listing series: %w", signal): "waterwheel: listing series: interrupt signal received\n",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var stderr bytes.Buffer
		env := settings()
		p := &Program{
			Stdout: io.Discard, Stderr: &stderr, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
			initialize: func(context.Context, config.Config, *slog.Logger, io.Writer) error { cancel(signal); return of },
		}
		if code := p.Execute(ctx, []string{"init"}); code != exitFailed || stderr.String() != want {
			t.Errorf("exit code %d, %q, want %q", code, stderr.String(), want)
		}
	}
}

func TestWrongSettingsAreAllNamed(t *testing.T) {
	env := settings()
	delete(env, "KAFKA_BROKERS")
	env["KAFKA_TOPIC"] = "x"
	for _, args := range [][]string{{"run"}, {"init"}, {"config"}} {
		code, _, stderr := try(t, env, nil, args...)
		if code != exitUsage || !strings.Contains(stderr, "KAFKA_BROKERS: is required") || !strings.Contains(stderr, "did you mean KAFKA_TOPICS?") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

func TestConfigPrintsWhatIsInEffect(t *testing.T) {
	_, text, _ := try(t, settings(), nil, "config")
	for _, line := range []string{"KAFKA_TOPICS=events\n", "MONGODB_URI=mongodb://u:***@mongo/db\n", "MONGODB_DATABASE=db\n", "FLUSH_INTERVAL=5s\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in:\n%s", line, text)
		}
	}
	_, output, _ := try(t, settings(), nil, "config", "--output", "json")
	var list []config.Setting
	if err := json.Unmarshal([]byte(output), &list); err != nil || len(list) != strings.Count(text, "\n") {
		t.Errorf("as JSON: %v, %d settings for %d lines", err, len(list), strings.Count(text, "\n"))
	}
	if strings.Contains(text+output, "geheim") {
		t.Error("the password is shown")
	}
	code, reference, _ := try(t, nil, nil, "config", "--markdown")
	if code != exitDone || reference != config.Markdown() {
		t.Errorf("the reference: exit code %d", code)
	}
}

func TestVersionNamesProgramAndGo(t *testing.T) {
	code, out, _ := try(t, nil, nil, "version")
	if code != exitDone || !strings.HasPrefix(out, "waterwheel dev (commit ") || !strings.Contains(out, "go1.") {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// TestStartMentionsWhatMayNotBeMeant covers weak security, and variables that resemble settings. check mentions them too.
func TestStartMentionsWhatMayNotBeMeant(t *testing.T) {
	env := settings()
	for name, value := range map[string]string{
		"KAFKA_SECURITY": "sasl_plaintext", "KAFKA_SASL_MECHANISM": "PLAIN", "KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "hIdDeN",
		"COMMIT_SHA": "1234", "LOG_FILE": "/var/log/x", "EVENT_SOURCE": "ci", "LOG_FORMAT": "text",
	} {
		env[name] = value
	}
	var environ []string
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	nothing := func(context.Context, config.Config, *slog.Logger) error { return nil }
	for _, command := range []string{"run", "init", "check"} {
		var out bytes.Buffer
		p := &Program{
			Stdout: &out, Stderr: &out, Environ: environ, Run: nothing,
			Lookup:     func(name string) (string, bool) { v, ok := env[name]; return v, ok },
			initialize: func(context.Context, config.Config, *slog.Logger, io.Writer) error { return nil },
		}
		var found check.Findings
		if command == "check" {
			c, err := config.Load(p.Lookup, environ)
			if err != nil {
				t.Fatal(err)
			}
			p.checkSettings(c, &found)
			printFindings(&out, found)
		} else if code := p.Execute(t.Context(), []string{command}); code != exitDone {
			t.Errorf("%s: exit code %d", command, code)
		}
		for _, part := range []string{"KAFKA_SECURITY=sasl_plaintext", "use sasl_tls", "COMMIT_SHA", "EVENT_SOURCE", "LOG_FILE"} {
			if strings.Count(out.String(), part) != 1 {
				t.Errorf("%s does not say %q once:\n%s", command, part, out.String())
			}
		}
		if strings.Contains(out.String(), "hIdDeN") || strings.Contains(out.String(), "1234") {
			t.Errorf("%s shows values:\n%s", command, out.String())
		}
	}
}
