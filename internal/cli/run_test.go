package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/config"
)

// rotating returns a program whose MONGODB_URI is in a file. run is called with the URI and the context of each call of Run.
func rotating(t *testing.T, run func(ctx context.Context, uri string) error) (p *Program, c config.Config, write func(text string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "uri")
	write = func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mongodb://u:one@h/d")
	env := map[string]string{"KAFKA_BROKERS": "b:1", "KAFKA_TOPICS": "t", "MONGODB_URI_FILE": path, "MEMORY_LIMIT": "1GiB"}
	p = &Program{
		Lookup: func(name string) (string, bool) { text, ok := env[name]; return text, ok },
		Run: func(ctx context.Context, c config.Config, _ *slog.Logger) error {
			return run(ctx, c.MongoDB.URI.Reveal())
		},
	}
	c, err := config.Load(p.Lookup, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, c, write
}

// TestRunBeginsAgainWithAnotherSecret checks that Run restarts soon after a change, but not with a file that is invalid for a
// moment.
func TestRunBeginsAgainWithAnotherSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, signal := context.WithCancel(t.Context())
		var uris []string
		var write func(string)
		var changed time.Time
		p, c, write := rotating(t, func(running context.Context, uri string) error {
			switch uris = append(uris, uri); len(uris) {
			case 1:
				time.Sleep(5 * time.Minute)
				write("mongodb:/")
				time.Sleep(time.Minute)
				if running.Err() != nil {
					t.Error("it ended with settings that cannot be read")
				}
				write("mongodb://u:two@h/d\n")
				changed = time.Now()
				<-running.Done()
				if took := time.Since(changed); took > rotationInterval+rotationSpread {
					t.Errorf("it was noticed after %v", took)
				}
				if err := context.Cause(running); !errors.Is(err, ErrRotated) || !strings.Contains(err.Error(), "MONGODB_URI") || strings.Contains(err.Error(), "two") {
					t.Errorf("the cause: %v", err)
				}
			case 2:
				time.Sleep(5 * time.Minute)
				if running.Err() != nil {
					t.Errorf("it ends without another change: %v", context.Cause(running))
				}
				signal()
				<-running.Done()
			}
			return nil
		})
		var log strings.Builder
		err := p.rotate(ctx, rotation{config.Load, p.Run}, c, slog.New(slog.NewTextHandler(&log, nil)))
		if want := []string{"mongodb://u:one@h/d", "mongodb://u:two@h/d"}; err != nil || !slices.Equal(uris, want) {
			t.Errorf("%v; it ran with %v", err, uris)
		}
		if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "cannot be used") {
			t.Errorf("the log: %s", log.String())
		}
	})
}

// TestAFailureIsNoRotation checks that Run is not called again after it fails or ends by itself.
func TestAFailureIsNoRotation(t *testing.T) {
	for _, failure := range []error{nil, errors.New("no such topic")} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			p, c, _ := rotating(t, func(context.Context, string) error { calls++; return failure })
			if err := p.rotate(t.Context(), rotation{config.Load, p.Run}, c, slog.New(slog.NewTextHandler(io.Discard, nil))); !errors.Is(err, failure) || calls != 1 {
				t.Errorf("%v after %d calls", err, calls)
			}
			p, c, write := rotating(t, func(running context.Context, _ string) error { calls++; <-running.Done(); return failure })
			if failure != nil {
				write("mongodb://u:two@h/d")
				if err := p.rotate(t.Context(), rotation{config.Load, p.Run}, c, slog.New(slog.NewTextHandler(io.Discard, nil))); !errors.Is(err, failure) || calls != 2 {
					t.Errorf("a failure of the hand-over: %v after %d calls", err, calls)
				}
			}
		})
	}
}

// TestASecretThatVanishesStays checks that nothing runs without a login because a file was truncated.
func TestASecretThatVanishesStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := filepath.Join(t.TempDir(), "settings.yml")
		token := "SERVE_TOKEN: one\n"
		write := func() {
			if err := os.WriteFile(settings, []byte("LOG_FORMAT: json\n"+token), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write()
		env := map[string]string{"MONGODB_URI": "mongodb://h/d", "CONFIG_FILE": settings}
		p := &Program{Lookup: func(name string) (string, bool) { text, ok := env[name]; return text, ok }}
		c, err := config.LoadDatabase(p.Lookup, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var tokens []string
		r := rotation{config.LoadDatabase, func(running context.Context, c config.Config, _ *slog.Logger) error {
			tokens = append(tokens, c.Serve.Token.Reveal())
			if len(tokens) == 1 {
				time.Sleep(time.Minute)
				token = ""
				write()
				time.Sleep(time.Minute)
				if running.Err() != nil {
					t.Error("it ended without a token")
				}
				token = "SERVE_TOKEN: two\n"
				write()
				<-running.Done()
				return nil
			}
			stop()
			return nil
		}}
		var log strings.Builder
		err = p.rotate(ctx, r, c, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || !slices.Equal(tokens, []string{"one", "two"}) || !strings.Contains(log.String(), "SERVE_TOKEN is no longer set") {
			t.Errorf("%v, with the tokens %v; the log: %s", err, tokens, log.String())
		}
	})
}
