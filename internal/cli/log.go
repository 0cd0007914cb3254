package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// RepeatAfter is how long a repeated warning or error is suppressed.
const RepeatAfter = 10 * time.Second

// maxRemembered bounds the number of distinct lines that are remembered. Beyond it all are forgotten, so at worst lines are
// written once more.
const maxRemembered = 1000

// newLogger returns a logger of at least the level (debug, info, warn, error), in the format text or json. An empty format means
// text for a person, and json for a machine.
func newLogger(w io.Writer, level, format string, onTerminal bool) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		least = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: least, ReplaceAttr: inWords}
	var handler slog.Handler
	if format == "text" || format == "" && onTerminal {
		handler = slog.NewTextHandler(w, options)
	} else {
		handler = slog.NewJSONHandler(w, options)
	}
	return slog.New(&limiter{Handler: handler, seen: &seen{lines: map[string]*repeats{}}})
}

// mostHeld bounds the size in bytes of waiting lines.
const mostHeld = 1 << 20

// aside receives the log lines of a command with output for people. It delays them while the output is printed, because stderr
// and stdout may be the same file. It is safe for concurrent use.
type aside struct {
	out  io.Writer
	wait func() bool // output has begun, and stderr is not a terminal

	mu   sync.Mutex
	held []byte
}

// Write writes a line, or keeps it for later.
func (a *aside) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wait() && len(a.held) < mostHeld {
		a.held = append(a.held, line...)
		return len(line), nil
	}
	return a.out.Write(line)
}

// release writes the waiting lines, after the output.
func (a *aside) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.out.Write(a.held) // an error cannot be reported anywhere
	a.held = nil
}

// inWords gives attributes a readable form that is the same in every format. A duration becomes text such as 30s. A value with a
// String method becomes its text instead of its number.
func inWords(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	case slog.KindAny:
		if word, ok := a.Value.Any().(fmt.Stringer); ok {
			a.Value = slog.StringValue(word.String())
		}
	}
	return a
}

// limiter is a handler that writes the same warning or error at most once in RepeatAfter. It adds the number of suppressed lines
// as "repeated". Two lines are the same if their level, message, topic, partition and reason are. The text of an error may differ
// every time, for example by a port or a duration.
type limiter struct {
	slog.Handler // writes the lines
	seen         *seen
	// with is what the logger's own attributes contribute to the identity of its lines.
	with string
}

// seen is shared by all handlers that come from one logger.
type seen struct {
	mu    sync.Mutex
	lines map[string]*repeats
}

type repeats struct {
	written time.Time
	held    int
}

// Handle writes the line or suppresses it.
func (l *limiter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return l.Handler.Handle(ctx, r)
	}
	key := r.Level.String() + r.Message + l.with
	r.Attrs(func(a slog.Attr) bool {
		key += identity(a)
		return true
	})
	held, pass := l.seen.pass(key, r.Time)
	if !pass {
		return nil
	}
	if held > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("repeated", held))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler for a logger with attributes of its own.
func (l *limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := l.with
	for _, a := range attrs {
		with += identity(a)
	}
	return &limiter{Handler: l.Handler.WithAttrs(attrs), seen: l.seen, with: with}
}

// WithGroup returns a handler for a logger whose attributes are in a group.
func (l *limiter) WithGroup(name string) slog.Handler {
	return &limiter{Handler: l.Handler.WithGroup(name), seen: l.seen, with: l.with}
}

// identity returns what an attribute contributes to the identity of a line.
func identity(a slog.Attr) string {
	if a.Key == "topic" || a.Key == "partition" || a.Key == "reason" {
		return "\x00" + a.Value.String()
	}
	return ""
}

// pass reports whether a line may be written now, and how many were suppressed before it.
func (s *seen) pass(key string, now time.Time) (held int, pass bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.lines[key]
	if line == nil {
		if len(s.lines) >= maxRemembered {
			clear(s.lines)
		}
		s.lines[key] = &repeats{written: now}
		return 0, true
	}
	if now.Sub(line.written) < RepeatAfter {
		line.held++
		return 0, false
	}
	held = line.held
	*line = repeats{written: now}
	return held, true
}
