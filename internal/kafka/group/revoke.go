package group

import (
	"context"
	"sync"
	"time"
)

// revoke lets the handler finish and returns when it has. Heartbeats go on meanwhile. They keep the session, and their answers
// may shorten the remaining time.
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
	timer := time.AfterFunc(end-g.now(), cancel) // for an end that moves closer
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
		case <-over: // no more can be committed
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

// rebalanceEnd returns when a flush must end because of a rebalance. The rebalance may have begun right after the last heartbeat
// with the answer 0. Half of the rebalance timeout is for the flush, the other half for joining.
func (g *Group) rebalanceEnd(p *period) time.Duration {
	return p.answered + g.options.RebalanceTimeout/2
}

// revokeEnd returns when a flush must end because this process stops.
func (g *Group) revokeEnd() time.Duration {
	return g.shutdownEnd() - g.leaveTime()
}
