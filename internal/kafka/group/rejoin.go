package group

import (
	"context"
	"time"
)

// leastPatience divides the time of a shutdown. The quotient is the least time to wait for a generation that is about to begin.
const leastPatience = 4

// rejoinPatience returns how long a shutdown waits for a generation that is about to begin. In that generation other members own
// the partitions and take each over when it is released. A dead member delays the generation until its session is over. Nobody
// else may read the partitions before then, released or not. So this member works on them as long as enough time is left to hand
// them over.
func (g *Group) rejoinPatience() time.Duration {
	left := g.revokeEnd() - g.now()
	return max(left-g.options.HandOver, left/leastPatience)
}

// rejoin joins the next generation while the handler goes on under the present one. Until all members have sent JoinGroup, the
// coordinator accepts commits of the present generation, and they renew the lease. After that it refuses them, and only the rest
// of the lease holds. rejoin returns the next period, or else the kind of the present generation's end.
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
		case <-p.over: // an answer to a commit ended the generation
			cancel()
			<-entered
			return nil, kindLost
		case <-shutdown:
			shutdown = nil
			patience = time.After(g.rejoinPatience())
		case <-patience:
			patience = nil
			p.joining.Store(false) // no generation follows this one any more
			cancel()
		case <-accounting.C:
			p.lease.account()
		}
	}
}
