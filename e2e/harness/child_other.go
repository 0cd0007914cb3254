//go:build !linux

package harness

import "syscall"

// childAttributes returns no attributes. Only Linux can end a child with its parent.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
