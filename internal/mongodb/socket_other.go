//go:build !unix

package mongodb

import (
	"net"
	"syscall"
	"time"

	"waterwheel/internal/claim"
)

// controlSocket does nothing here, because only Linux can limit how long sent bytes may stay unacknowledged.
func controlSocket(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }

// writePieces writes to a connection and asks before every piece whether it may. If not, it returns claim.ErrLapsed. When the
// kernel takes only a part of a piece, the rest follows without another look, because net.Conn makes the system calls itself.
func writePieces(conn net.Conn, b []byte, held func() bool) (sent int, err error) {
	for sent < len(b) {
		if !held() {
			return sent, claim.ErrLapsed
		}
		n, err := conn.Write(piece(b, sent))
		if sent += n; err != nil {
			return sent, err
		}
	}
	return sent, nil
}
