//go:build !linux

package harness

import "syscall"

// childAttributes has nothing to ask for: only Linux ends a child with its parent.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
