package harness

import "syscall"

// childAttributes makes the kernel end a child when the thread that started it ends, so that none outlives a test.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
