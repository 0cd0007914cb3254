//go:build !linux

package mongodb

import (
	"syscall"
	"time"
)

// controlSocket does nothing here, because only Linux can limit how long sent bytes may stay unacknowledged.
func controlSocket(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
