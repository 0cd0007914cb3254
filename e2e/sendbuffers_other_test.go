//go:build !linux

package e2e_test

import (
	"errors"
	"syscall"

	"waterwheel/e2e/harness"
)

// setSendBuffers works on Linux only.
func setSendBuffers(*harness.Consumer, string, int) (int, error) { return 0, errors.ErrUnsupported }

// narrow does nothing on systems other than Linux.
func narrow(string, string, syscall.RawConn) error { return nil }
