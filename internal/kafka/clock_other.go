//go:build !linux

package kafka

import "time"

// started is the zero of Now.
var started = time.Now()

// Now is the time of a clock that also counts while the machine is suspended. It is the later of the monotonic clock, which may
// stand still, and the wall clock, which may be set back. Its zero is arbitrary, so only differences within one process have a
// meaning. A wall clock set forward makes leases end early, which is safe.
func Now() time.Duration {
	now := time.Now()
	return max(now.Sub(started), now.Round(0).Sub(started.Round(0)))
}
