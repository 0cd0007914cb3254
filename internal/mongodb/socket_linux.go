package mongodb

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unsentBytes is the limit of unsent bytes in the kernel. Above it the kernel takes no more. The kernel goes on sending what it
// has while the process is stopped. This much keeps a fast connection busy.
const unsentBytes = 128 << 10

// controlSocket sets TCP_USER_TIMEOUT, so that bytes without acknowledgement in this time end the connection. It also sets
// TCP_NOTSENT_LOWAT, so that most of a large message on a slow connection waits in this process, under the guard.
func controlSocket(timeout time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		var failed error
		err := c.Control(func(fd uintptr) {
			set := func(option, value int) error { return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, option, value) }
			_ = set(unix.TCP_NOTSENT_LOWAT, unsentBytes) // without it only more bytes are out of reach
			if timeout > 0 {
				failed = set(unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
			}
		})
		return errors.Join(err, failed)
	}
}
