package sink

import (
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// controlSocket sets TCP_USER_TIMEOUT: bytes that the other side does not acknowledge in this time end the connection.
func controlSocket(timeout time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") || timeout <= 0 {
			return nil
		}
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
		})
		if err != nil {
			return err
		}
		return failed
	}
}
