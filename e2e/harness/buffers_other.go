//go:build !linux

package harness

import "errors"

// SetSendBuffers works on Linux only.
func (c *Consumer) SetSendBuffers(string, int) (int, error) { return 0, errors.ErrUnsupported }
