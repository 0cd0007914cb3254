//go:build !unix

package cli

import "os"

// sizeOf is the size of a terminal in characters, 0 where it does not say. False means that it is no terminal.
func sizeOf(f *os.File) (width, height int, ok bool) { return 0, 0, isTerminal(f) }
