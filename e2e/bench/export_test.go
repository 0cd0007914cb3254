package bench

import "context"

// ProfileOf takes profiles of a turn of a peer at an address until ready is closed, and merges them into one.
func (b *Bench) ProfileOf(ctx context.Context, d Drain, address string, ready <-chan struct{}) error {
	p := b.startProfiler(d, address)
	<-ready
	return p.stop(ctx)
}
