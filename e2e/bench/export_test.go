package bench

import "context"

// ProfileOf takes profiles of a peer's turn at an address until ready is closed, and makes one of them.
func (b *Bench) ProfileOf(ctx context.Context, d Drain, address string, ready <-chan struct{}) error {
	p := b.startProfiler(d, address)
	<-ready
	return p.stop(ctx)
}
