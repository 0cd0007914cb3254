package proxy

import "syscall"

// narrow makes a listener's connections buffer few bytes. The receive window is small, and the segments are so small that the
// other side's kernel reserves little memory for them.
func narrow(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		if failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1); failed == nil {
			failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536)
		}
	})
	if err != nil {
		return err
	}
	return failed
}
