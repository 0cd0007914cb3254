package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"waterwheel/pipeline"
)

const (
	// tryPause is about the time between two tries.
	tryPause = 500 * time.Millisecond
	// sayAgain is the time between two lines about a wait that goes on.
	sayAgain = time.Minute
)

// Patience waits at the start for servers that are not there yet, so that nobody has to start things in an order. Several
// waits may be under way at once.
type Patience struct {
	Log *slog.Logger
	// until is when no wait goes on any longer; zero: each goes on until its server is there. bound says in an error what
	// set that.
	until time.Time
	Bound string
	// Opening: servers that did not answer yet are waited for too. Otherwise only set-up that an election interrupts.
	Opening bool
	// Show is told of each try that failed, of and at which server and since when; a nil why says that the wait is over.
	Show func(of pipeline.Dependency, at string, since time.Time, why error)
}

// wait is for one server.
type wait struct {
	of     pipeline.Dependency
	at     string // its addresses
	wayOut string
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
	var last error
	for begin, said := time.Now(), (time.Time{}); ; {
		err := try(bounded)
		pending, passes := errors.AsType[*notYetError](err)
		if err == nil || !passes || ctx.Err() != nil {
			p.over(w, begin, !said.IsZero(), err)
			return err
		}
		if last == nil || bounded.Err() == nil { // one that was cut off says less than the one before
			last = pending.error
		}
		if said.IsZero() || time.Since(said) >= sayAgain {
			said = time.Now()
			write := p.Log.Warn
			if time.Since(begin) >= pipeline.ErrorAfter {
				write = p.Log.Error
			}
			write("waiting for "+w.of.Name(), "at", w.at, "for", lasted(begin), "err", last, "way_out", w.wayOut)
		}
		p.tell(w, begin, last)
		select {
		case <-time.After(tryPause/2 + rand.N(tryPause)):
		case <-bounded.Done():
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case bounded.Err() != nil:
			return fmt.Errorf("waited %v for %s at %s (%s): %w; %s", lasted(begin), w.of.Name(), w.at, p.Bound, last, w.wayOut)
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

// over says that a wait has ended, if there was one.
func (p *Patience) over(w wait, begin time.Time, waited bool, err error) {
	if !waited {
		return
	}
	p.tell(w, begin, nil)
	if err == nil {
		p.Log.Info(w.of.Name()+" is there", "at", w.at, "after", lasted(begin))
	}
}

// lasted is how long a wait has lasted, as people read it.
func lasted(since time.Time) time.Duration { return time.Since(since).Round(100 * time.Millisecond) }

func (p *Patience) tell(w wait, since time.Time, why error) {
	if p.Show != nil {
		p.Show(w.of, w.at, since, why)
	}
}
