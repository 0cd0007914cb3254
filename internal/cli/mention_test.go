package cli

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"waterwheel/config"
	"waterwheel/internal/check"
)

// TestStartMentionsWhatMayNotBeMeant: weak security, and variables that begin like settings; check does too.
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
