//go:build !linux

package harness

import (
	"errors"
	"syscall"
)

// childAttributes returns no attributes. Only Linux can end a child with its parent.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// SetSendBuffers works on Linux only.
func (c *Consumer) SetSendBuffers(string, int) (int, error) { return 0, errors.ErrUnsupported }
