package harness

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SetSendBuffers sets how much the kernel holds of what the process sends on each of its connections to an address, and
// tells of how many: with 0 bytes, what the other side does not take waits in the process. The right to trace the process is
// needed.
func (c *Consumer) SetSendBuffers(address string, bytes int) (n int, err error) {
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
			continue // closed meanwhile
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

// peer is whom a file is connected to; empty if it is none over IPv4.
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
