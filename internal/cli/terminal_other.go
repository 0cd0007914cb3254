//go:build !unix

package cli

import "os"

// sizeOf returns the size of a terminal in characters. It is 0 if it is unknown. False means that the file is not a terminal.
func sizeOf(f *os.File) (width, height int, ok bool) { return 0, 0, isTerminal(f) }
