//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// sizeOf returns the size of a terminal in characters. It is 0 if it is unknown. False means that the file is not a terminal.
func sizeOf(f *os.File) (width, height int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}
