package e2e_test

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"waterwheel/e2e/events"
)

// load is a producer that runs in the background.
type load struct {
	s      *stream
	group  *errgroup.Group
	cancel context.CancelFunc
}

// startLoad produces about rate events a second until it is stopped.
func (s *stream) startLoad(g *events.Generator, rate int) *load {
	ctx, cancel := context.WithCancel(s.t.Context())
	l := &load{s: s, group: &errgroup.Group{}, cancel: cancel}
	l.group.Go(func() error {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := s.send(context.WithoutCancel(ctx), g, rate/10); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		return nil
	})
	s.t.Cleanup(func() { cancel(); l.group.Wait() })
	return l
}

// stop ends the load after its last batch is acknowledged.
func (l *load) stop() {
	l.s.t.Helper()
	l.cancel()
	if err := l.group.Wait(); err != nil {
		l.s.t.Fatal(err)
	}
}
