package kafka

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time of a clock that only goes forward and also counts while the machine is suspended. Its zero is arbitrary, so
// only differences within one process have a meaning. One call is one system call (about 100 ns).
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		// Linux has had this clock since 2.6.39. Without it no lease could be trusted.
		panic(fmt.Sprintf("reading CLOCK_BOOTTIME: %v", err))
	}
	return time.Duration(t.Nano())
}
