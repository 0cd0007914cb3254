package group

import (
	"context"
	"time"
)

// leastPatience is the part of its time for which a shutdown waits at least for a generation that is about to begin.
const leastPatience = 4

// rejoinPatience is how long a shutdown waits for a generation that is about to begin. In that one others have the partitions, and
// take them over as each is released. A member that died holds it up until its session is over, and nobody else may read the partitions
// before, released or not: so they are worked on for as long as there will be time to hand them over.
func (g *Group) rejoinPatience() time.Duration {
	left := g.revokeEnd() - g.now()
	return max(left-g.options.HandOver, left/leastPatience)
}

// rejoin joins the next generation while the handler goes on under the present one: until the coordinator has all members'
// requests it takes commits of the present one, and an answer renews the lease as ever. From then on it refuses them, and what
// is left of the lease holds. It returns the next period, or how the present one ends instead.
func (g *Group) rejoin(ctx context.Context, p *period) (next *period, kind string) {
	p.joining.Store(true)
	joining, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	type outcome struct {
		*period
		err error
	}
	entered := make(chan outcome, 1)
	go func() {
		next, err := g.enter(joining, p)
		entered <- outcome{next, err}
	}()
	accounting := time.NewTicker(g.options.HeartbeatInterval)
	defer accounting.Stop()
	shutdown, patience := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case o := <-entered:
			if o.err == nil {
				return o.period, ""
			}
			if joining.Err() != nil {
				return nil, kindShutdown
			}
			p.end(o.err)
			return nil, kindLost
		case <-p.over: // an answer to a commit said so
			cancel()
			<-entered
			return nil, kindLost
		case <-shutdown:
			shutdown = nil
			patience = time.After(g.rejoinPatience())
		case <-patience:
			patience = nil
			p.joining.Store(false) // it is not followed any more
			cancel()
		case <-accounting.C:
			p.lease.account()
		}
	}
}
