package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// RepeatAfter is how long a warning or an error that comes again is held back.
const RepeatAfter = 10 * time.Second

// maxRemembered bounds the lines that are told apart. Beyond it all are forgotten, and at worst written once more.
const maxRemembered = 1000

// newLogger writes lines of at least the level (debug, info, warn, error); format text or json. Empty means text for a person,
// json for a machine.
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

// mostHeld bounds the bytes of lines that wait.
const mostHeld = 1 << 20

// aside takes the log lines of a command whose output people read, and lets them wait while the output is printed: stderr and stdout
// may be the same file. It is safe for concurrent use.
type aside struct {
	out  io.Writer
	wait func() bool // output has begun, and others than a person read it

	mu   sync.Mutex
	held []byte
}

// Write writes a line, or keeps it.
func (a *aside) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wait() && len(a.held) < mostHeld {
		a.held = append(a.held, line...)
		return len(line), nil
	}
	return a.out.Write(line)
}

// release writes what has waited, after the output.
func (a *aside) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.out.Write(a.held) // nobody else can be told
	a.held = nil
}

// inWords gives an attribute the same form in every format, one for people: a duration as 30s, and what has a name by its
// name instead of its number.
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

// limiter is a handler that writes the same warning or error at most once in repeatAfter, with the number of those held
// back as "repeated". Two are the same when level, message, topic, partition and reason are: an error's text may differ every
// time, by a port or a duration.
type limiter struct {
	slog.Handler // writes them
	seen         *seen
	// with is what the logger's own attributes add to the identity of its lines.
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

// Handle writes the line or holds it back.
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

// identity is what an attribute adds to the identity of a line.
func identity(a slog.Attr) string {
	if a.Key == "topic" || a.Key == "partition" || a.Key == "reason" {
		return "\x00" + a.Value.String()
	}
	return ""
}

// pass reports whether a line may be written now, and how many were held back before it.
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
