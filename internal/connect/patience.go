package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"waterwheel/pipeline"
)

const (
	// tryPause is about the time between two tries.
	tryPause = 500 * time.Millisecond
	// sayAgain is the time between two log lines about the same wait.
	sayAgain = time.Minute
	// unanswered is how long a try may take before a log line says that it is still under way.
	unanswered = 10 * time.Second
)

// Patience waits at the start for servers that do not answer yet, so that they can be started in any order. Several waits may be
// under way at once.
type Patience struct {
	Log *slog.Logger
	// until is when all waits end. Zero means that each continues until its server answers. Bound names the setting of this limit
	// in an error.
	until time.Time
	Bound string
	// Opening means that it also waits for servers that have not answered yet. Otherwise it only retries set-up that an election
	// interrupts.
	Opening bool
	// Show is called for each try that failed or has no answer yet, with the server, its address, and the start of the wait. A
	// nil why means that the wait is over.
	Show func(of pipeline.Dependency, at string, since time.Time, why error)
}

// wait describes a wait for one server.
type wait struct {
	of     pipeline.Dependency
	at     string // its addresses
	wayOut string
	slow   string // what makes a try slow, and where that can be seen
}

// notYetError is an error that may pass by itself.
type notYetError struct{ error }

// Unwrap returns the cause.
func (e *notYetError) Unwrap() error { return e.error }

// Started returns a patience with a limit that counts from now. Zero means no limit.
func (p Patience) Started(limit time.Duration) *Patience {
	if limit > 0 {
		p.until = time.Now().Add(limit)
	}
	return &p
}

// wait calls try until it succeeds, or fails with an error other than a notYetError, or ctx or the patience ends. The context of
// a try ends with the patience.
func (p *Patience) wait(ctx context.Context, w wait, try func(context.Context) error) error {
	bounded, cancel := p.bounded(ctx)
	defer cancel()
	spell := &spell{p: p, wait: w, begin: time.Now()}
	var last error
	for {
		err := spell.try(bounded, try)
		pending, passes := errors.AsType[*notYetError](err)
		if err == nil || !passes || ctx.Err() != nil {
			spell.over(err)
			return err
		}
		if last == nil || !p.isOver() { // the error of an interrupted try is less informative than the one before
			last = pending.error
		}
		spell.say(last, w.wayOut)
		select {
		case <-time.After(tryPause/2 + rand.N(tryPause)):
		case <-bounded.Done():
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case bounded.Err() != nil:
			return fmt.Errorf("waited %v for %s at %s (%s): %w; %s", lasted(spell.begin), w.of.Name(), w.at, p.Bound, last, w.wayOut)
		}
	}
}

// opens is wait for a server that answers for the first time.
func (p *Patience) opens(ctx context.Context, w wait, try func(context.Context) error) error {
	if p.Opening {
		return p.wait(ctx, w, try)
	}
	err := try(ctx)
	if pending, passes := errors.AsType[*notYetError](err); passes {
		return pending.error
	}
	return err
}

// bounded returns a context that ends with the patience.
func (p *Patience) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.until.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, p.until)
}

// isOver reports whether the patience has ended. A connection gives up slightly before its context ends.
func (p *Patience) isOver() bool {
	return !p.until.IsZero() && time.Until(p.until) < 50*time.Millisecond
}

// spell is one wait, from its first try to the end.
type spell struct {
	p     *Patience
	wait  wait
	begin time.Time
	said  time.Time // the time of the last log line. Zero means that there was none.
}

// try calls try once, and logs while there is no answer.
func (s *spell) try(ctx context.Context, try func(context.Context) error) error {
	answered := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for begin := time.Now(); ; {
			select {
			case <-answered:
				return
			case <-time.After(unanswered):
				s.say(fmt.Errorf("no answer for %v", lasted(begin)), cmp.Or(s.wait.slow, s.wait.wayOut))
			}
		}
	})
	defer watching.Wait()
	defer close(answered)
	return try(ctx)
}

// say reports why the wait continues. It logs the first reason, and then at most one a minute.
func (s *spell) say(why error, wayOut string) {
	if s.said.IsZero() || time.Since(s.said) >= sayAgain {
		s.said = time.Now()
		write := s.p.Log.Warn
		if time.Since(s.begin) >= pipeline.ErrorAfter {
			write = s.p.Log.Error
		}
		write("waiting for "+s.wait.of.Name(), "at", s.wait.at, "for", lasted(s.begin), "err", why, "way_out", wayOut)
	}
	s.p.tell(s.wait, s.begin, why)
}

// over reports that the wait has ended, if it was reported before.
func (s *spell) over(err error) {
	if s.said.IsZero() {
		return
	}
	s.p.tell(s.wait, s.begin, nil)
	if err == nil {
		s.p.Log.Info(s.wait.of.Name()+" answers", "at", s.wait.at, "after", lasted(s.begin))
	}
}

// lasted returns how long a wait has lasted, rounded for people.
func lasted(since time.Time) time.Duration { return time.Since(since).Round(100 * time.Millisecond) }

func (p *Patience) tell(w wait, since time.Time, why error) {
	if p.Show != nil {
		p.Show(w.of, w.at, since, why)
	}
}
