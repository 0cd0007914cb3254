//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// sizeOf is the size of a terminal in characters, 0 where it does not say. False means that it is no terminal.
func sizeOf(f *os.File) (width, height int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}
