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
	// sayAgain is the time between two lines about a wait that goes on.
	sayAgain = time.Minute
	// unanswered is how long a try may take until a line says that it is still under way.
	unanswered = 10 * time.Second
)

// Patience waits at the start for servers that are not there yet, so that nobody has to start things in an order. Several
// waits may be under way at once.
type Patience struct {
	Log *slog.Logger
	// until is when no wait goes on any longer. Zero means that each goes on until its server is there. bound says in an error what
	// set that.
	until time.Time
	Bound string
	// Opening means that servers that did not answer yet are waited for too. Otherwise only set-up that an election interrupts.
	Opening bool
	// Show is told of each try that failed or has no answer yet, of and at which server and since when. A nil why says that the wait is
	// over.
	Show func(of pipeline.Dependency, at string, since time.Time, why error)
}

// wait is for one server.
type wait struct {
	of     pipeline.Dependency
	at     string // its addresses
	wayOut string
	slow   string // what a try does that takes its time, and where that is seen
}

// notYetError is an error that may pass by itself.
type notYetError struct{ error }

// Unwrap gives the cause.
func (e *notYetError) Unwrap() error { return e.error }

// Started gives a patience that counts from now; a limit of 0 is none.
func (p Patience) Started(limit time.Duration) *Patience {
	if limit > 0 {
		p.until = time.Now().Add(limit)
	}
	return &p
}

// wait tries until that works, or fails with something else than a notYetError, or ctx or the patience is over. The context of a
// try ends with the patience.
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
		if last == nil || !p.isOver() { // a try that was cut off says less than the try before
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

// opens is wait for what answers for the first time.
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

// bounded is a context that ends with the patience.
func (p *Patience) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.until.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, p.until)
}

// isOver reports whether the patience is over. A connection gives up somewhat before its context ends.
func (p *Patience) isOver() bool {
	return !p.until.IsZero() && time.Until(p.until) < 50*time.Millisecond
}

// spell is one wait, from its first try to the end.
type spell struct {
	p     *Patience
	wait  wait
	begin time.Time
	said  time.Time // of the last line. Zero means that nothing was said.
}

// try tries once, and says so while there is no answer.
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

// say shows why the wait goes on. It logs the first reason, and the last one of each minute.
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

// over says that the wait has ended, if it said anything before.
func (s *spell) over(err error) {
	if s.said.IsZero() {
		return
	}
	s.p.tell(s.wait, s.begin, nil)
	if err == nil {
		s.p.Log.Info(s.wait.of.Name()+" is there", "at", s.wait.at, "after", lasted(s.begin))
	}
}

// lasted is how long a wait has lasted, as people read it.
func lasted(since time.Time) time.Duration { return time.Since(since).Round(100 * time.Millisecond) }

func (p *Patience) tell(w wait, since time.Time, why error) {
	if p.Show != nil {
		p.Show(w.of, w.at, since, why)
	}
}
