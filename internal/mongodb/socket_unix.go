//go:build unix

package mongodb

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"waterwheel/internal/claim"
)

// The options of a TCP socket that only Linux has.
const (
	tcpUserTimeout  = 18 // TCP_USER_TIMEOUT, in milliseconds
	tcpNotsentLowat = 25 // TCP_NOTSENT_LOWAT, in bytes
)

// unsentBytes is the limit of unsent bytes in the kernel. Above it the kernel takes no more. The kernel goes on sending what it
// has while the process is stopped. This much keeps a fast connection busy.
const unsentBytes = 128 << 10

// controlSocket sets TCP_USER_TIMEOUT, so that bytes without acknowledgement in this time end the connection. It also sets
// TCP_NOTSENT_LOWAT, so that most of a large message on a slow connection waits in this process, under the guard. It does nothing
// on systems other than Linux.
func controlSocket(timeout time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		if runtime.GOOS != "linux" || !strings.HasPrefix(network, "tcp") {
			return nil
		}
		var failed error
		err := c.Control(func(fd uintptr) {
			set := func(option, value int) error {
				return syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, option, value)
			}
			_ = set(tcpNotsentLowat, unsentBytes) // without it only more bytes are out of reach
			if timeout > 0 {
				failed = set(tcpUserTimeout, int(timeout.Milliseconds()))
			}
		})
		return errors.Join(err, failed)
	}
}

// writePieces writes to a connection and asks before every system call whether it may. If not, it returns claim.ErrLapsed. The
// connection's own Write would continue when the kernel has room again, however late.
func writePieces(conn net.Conn, b []byte, held func() bool) (sent int, err error) {
	raw, err := conn.(syscall.Conn).SyscallConn() // every connection of the dialer has one
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Write(func(fd uintptr) (done bool) {
		for sent < len(b) {
			if !held() {
				failed = claim.ErrLapsed
				return true
			}
			n, err := syscall.Write(int(fd), piece(b, sent))
			switch {
			case err == syscall.EAGAIN:
				return false // the runtime calls again when there is room
			case err == syscall.EINTR:
			case err != nil:
				failed = &net.OpError{
					Op: "write", Net: conn.RemoteAddr().Network(), Source: conn.LocalAddr(), Addr: conn.RemoteAddr(),
					Err: os.NewSyscallError("write", err),
				}
				return true
			case n == 0:
				failed = io.ErrUnexpectedEOF
				return true
			default:
				sent += n
			}
		}
		return true
	})
	if failed != nil {
		return sent, failed
	}
	return sent, err
}
