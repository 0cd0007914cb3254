package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// width is the width of the widest line, in characters.
const width = 78

// screen prints the demo's lines, in colour on a terminal.
type screen struct {
	w        io.Writer
	terminal bool
	start    time.Time
	live     bool // the last line is a progress line, which the next line replaces
}

func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &screen{w: f, terminal: terminal, start: time.Now()}
}

// These are the demo's colours, as terminals number them.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	blue   = "36"
)

// paint colours a text for a terminal.
func (s *screen) paint(colour, text string) string {
	if !s.terminal || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// line prints one line.
func (s *screen) line(format string, args ...any) {
	s.clearProgress()
	fmt.Fprintf(s.w, format+"\n", args...)
}

// title prints the heading of the demo or of one of its sections.
func (s *screen) title(text string) {
	s.line("\n%s\n%s", s.paint(bold, text), s.paint(dim, strings.Repeat("─", width)))
}

// step prints an event of the demo and its time.
func (s *screen) step(colour, mark, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	gap := strings.Repeat(" ", max(1, width-10-utf8.RuneCountInString(text)))
	s.line(" %s %s%s%s", s.paint(colour, mark), text, gap, s.paint(dim, fmt.Sprintf("%5.1f s", time.Since(s.start).Seconds())))
}

// progress prints a line that the next one replaces. It prints nothing if the output is no terminal.
func (s *screen) progress(format string, args ...any) {
	if s.terminal {
		fmt.Fprintf(s.w, "\r\x1b[K   %s", s.paint(dim, fmt.Sprintf(format, args...)))
		s.live = true
	}
}

// clearProgress removes a progress line.
func (s *screen) clearProgress() {
	if s.live {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.live = false
	}
}

// grouped formats a number with commas between the thousands.
func grouped(n int) string {
	digits := fmt.Sprint(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
