//go:build unix

package mongodb

import (
	"io"
	"net"
	"os"
	"syscall"

	"waterwheel/internal/claim"
)

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
