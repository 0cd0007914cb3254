//go:build !linux

package proxy

import "syscall"

// narrow does nothing on systems other than Linux.
func narrow(string, string, syscall.RawConn) error { return nil }
