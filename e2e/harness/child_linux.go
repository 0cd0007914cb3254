package harness

import "syscall"

// childAttributes makes the kernel kill a child when the thread that started it ends, so that no child outlives a test.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
