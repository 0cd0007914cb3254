//go:build !linux

package link

import "syscall"

// narrow does nothing on systems other than Linux.
func narrow(string, string, syscall.RawConn) error { return nil }
