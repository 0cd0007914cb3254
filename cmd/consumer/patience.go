package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"
)

// How a server is waited for: about the time between two tries, and how often the log says again what is waited for.
const (
	tryPause  = time.Second
	tellAgain = time.Minute
)

// patience tries again what servers do not answer yet. Nil tries once.
type patience struct {
	since time.Time
	limit time.Duration // from since; 0: for ever
	name  string        // the setting of the limit; empty: it is none
	log   *slog.Logger
	show  func(server string, since time.Time, err error) // what is waited for; without an error: nothing any more
}

// until tries until it goes well, or fails for a reason that waiting does not remove, as passes says of an error.
func (p *patience) until(ctx context.Context, server string, passes func(error) bool, try func(context.Context) error) error {
	if p == nil {
		return try(ctx)
	}
	trying, cancel := ctx, context.CancelFunc(func() {})
	if p.limit > 0 {
		trying, cancel = context.WithDeadline(ctx, p.since.Add(p.limit))
	}
	defer cancel()
	begin, told, last := time.Now(), time.Time{}, error(nil)
	for {
		err := try(trying)
		switch {
		case err == nil:
			if last != nil {
				p.show(server, begin, nil)
				p.log.Info(server+" answers", "after", time.Since(begin).Round(time.Millisecond))
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case trying.Err() != nil: // what cut a try short says less than what the one before met
			if last == nil {
				last = err
			}
			return p.over(server, begin, last)
		case !passes(err):
			return err
		}
		last = err
		said := errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")) // of several brokers
		p.show(server, begin, said)
		if told.IsZero() || time.Since(told) >= tellAgain {
			told = time.Now()
			p.log.Warn("waiting for "+server, "for", time.Since(begin).Round(time.Millisecond), "err", said)
		}
		select {
		case <-time.After(tryPause/2 + rand.N(tryPause)):
		case <-trying.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return p.over(server, begin, last)
		}
	}
}

// over is the end of patience.
func (p *patience) over(server string, begin time.Time, err error) error {
	waited := time.Since(begin).Round(time.Second)
	if p.name == "" {
		return fmt.Errorf("tried again for %v: %w", waited, err)
	}
	return fmt.Errorf("waited for %s for %v (%s is %v): %w", server, waited, p.name, p.limit, err)
}

// is tells whether an error is of a type.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
