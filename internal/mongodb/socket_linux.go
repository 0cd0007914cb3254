package mongodb

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unsentBytes is from how many bytes on that the kernel holds and could not send yet it takes no more. It goes on sending
// what it has while the process is stopped. A fast connection is kept busy by this much.
const unsentBytes = 128 << 10

// controlSocket sets TCP_USER_TIMEOUT: bytes that the other side does not acknowledge in this time end the connection. And
// TCP_NOTSENT_LOWAT, so that most of a large message on a slow connection waits here, under the guard.
func controlSocket(timeout time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		var failed error
		err := c.Control(func(fd uintptr) {
			set := func(option, value int) error { return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, option, value) }
			_ = set(unix.TCP_NOTSENT_LOWAT, unsentBytes) // without it there is only more that cannot be called back
			if timeout > 0 {
				failed = set(unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
			}
		})
		return errors.Join(err, failed)
	}
}
