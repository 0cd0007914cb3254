//go:build !unix

package mongodb

import (
	"net"

	"waterwheel/internal/claim"
)

// writePieces writes to a connection, asking before every piece whether it may; ErrLapsed when not. A piece that the
// kernel took a part of goes on without another look: there is no system call here to ask before.
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
