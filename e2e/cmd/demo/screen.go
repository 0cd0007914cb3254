package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// width is the width of the widest line, in characters.
const width = 78

// screen prints the demo's lines, in colour on a terminal.
type screen struct {
	file     *os.File
	terminal bool
	start    time.Time
}

func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &screen{file: f, terminal: terminal, start: time.Now()}
}

// These are the demo's colours, as terminals number them.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	blue  = "36"
)

// eraseLine makes a terminal erase the present line, which may be a progress line.
const eraseLine = "\r\x1b[K"

// paint colours a text for a terminal.
func (s *screen) paint(colour, text string) string {
	if !s.terminal {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// line prints one line.
func (s *screen) line(format string, args ...any) {
	if s.terminal {
		format = eraseLine + format
	}
	fmt.Fprintf(s.file, format+"\n", args...)
}

// title prints the heading of the demo or of one of its sections.
func (s *screen) title(text string) {
	s.line("\n%s\n%s", s.paint(bold, text), s.paint(dim, strings.Repeat("─", width)))
}

// step prints an event of the demo and its time.
func (s *screen) step(colour, mark, format string, args ...any) {
	at := fmt.Sprintf("%5.1f s", time.Since(s.start).Seconds())
	s.line("%s  %s %s", s.paint(dim, at), s.paint(colour, mark), fmt.Sprintf(format, args...))
}

// progress prints a line that the next one replaces. It prints nothing if the output is no terminal.
func (s *screen) progress(format string, args ...any) {
	if s.terminal {
		fmt.Fprint(s.file, eraseLine+"           "+s.paint(dim, fmt.Sprintf(format, args...)))
	}
}
