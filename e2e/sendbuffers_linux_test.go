package e2e_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"waterwheel/e2e/harness"

	"golang.org/x/sys/unix"
)

// setSendBuffers sets the size of the kernel's send buffer on each connection of the process to an address. It returns the number
// of these connections. With 0 bytes, data that the other side does not read waits in the process. The caller needs the right to
// trace the process.
func setSendBuffers(c *harness.Consumer, address string, bytes int) (n int, err error) {
	pid, err := unix.PidfdOpen(c.PID(), 0)
	if err != nil {
		return 0, fmt.Errorf("opening the process: %w", err)
	}
	defer unix.Close(pid)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.PID()))
	if err != nil {
		return 0, fmt.Errorf("listing the process's files: %w", err)
	}
	for _, f := range files {
		number, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		file, err := unix.PidfdGetfd(pid, number, 0)
		if errors.Is(err, unix.EBADF) {
			continue // closed in the meantime
		}
		if err != nil {
			return n, fmt.Errorf("taking a file of the process: %w", err)
		}
		if peer(file) == address && unix.SetsockoptInt(file, unix.SOL_SOCKET, unix.SO_SNDBUF, bytes) == nil {
			n++
		}
		unix.Close(file)
	}
	return n, nil
}

// peer returns the remote address of a socket. It is empty if the file is no connected IPv4 socket.
func peer(file int) string {
	name, err := unix.Getpeername(file)
	if err != nil {
		return ""
	}
	inet, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return ""
	}
	return (&net.TCPAddr{IP: inet.Addr[:], Port: inet.Port}).String()
}

// narrow makes a listener's connections buffer few bytes, so that bytes that a link holds wait in the client's process. The receive
// window is small, and the segments are so small that the other side's kernel reserves little memory for them.
func narrow(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		if failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1); failed == nil {
			failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536)
		}
	})
	return errors.Join(err, failed)
}
