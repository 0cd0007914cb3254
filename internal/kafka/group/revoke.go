package group

import (
	"context"
	"sync"
	"time"
)

// revoke lets the handler finish, and returns when it has. Heartbeats go on meanwhile: they keep the session, and their
// answers shorten the time that is left.
func (g *Group) revoke(ctx context.Context, p *period, leaving bool) {
	g.setStatus(Rebalancing, p.Generation)
	var beating sync.WaitGroup
	defer beating.Wait()
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	beating.Go(func() { g.heartbeat(alive, p) })
	end := g.rebalanceEnd(p)
	if leaving {
		end = g.revokeEnd()
	}
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), end-g.now())
	defer cancel()
	timer := time.AfterFunc(end-g.now(), cancel) // for an end that comes closer
	defer timer.Stop()
	shorten := func(to time.Duration) {
		if to < end {
			end = to
			timer.Reset(to - g.now())
		}
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		g.handler.Revoke(work, p.Generation)
	}()
	shutdown, over := ctx.Done(), p.over
	for {
		select {
		case <-done:
			return
		case <-shutdown:
			shutdown = nil
			shorten(g.revokeEnd())
		case <-over: // whatever is still to be flushed can no more be committed
			over = nil
			cancel()
		case b := <-p.beats:
			p.lease.account()
			if g.heard(p, b) == kindRebalance {
				shorten(g.rebalanceEnd(p))
			}
		}
	}
}

// rebalanceEnd is when a flush must be over although a rebalance is under way: it may have begun right after the last
// heartbeat answered 0, and the other half of its time is for joining.
func (g *Group) rebalanceEnd(p *period) time.Duration {
	return p.answered + g.options.RebalanceTimeout/2
}

// revokeEnd is when a flush must be over although this process stops.
func (g *Group) revokeEnd() time.Duration {
	return g.shutdownEnd() - g.leaveTime()
}
