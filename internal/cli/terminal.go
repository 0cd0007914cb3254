package cli

import (
	"os"
	"strconv"
	"strings"

	"waterwheel/internal/cli/plot"
)

// This is the size of a picture that is not for a terminal.
const (
	plainWidth  = 80
	plainHeight = 20
)

// terminalRest is how many rows of a terminal are not for the picture. tallestPlot is the maximum height of the picture.
const (
	terminalRest = 12
	tallestPlot  = 30
)

// terminal is the size of the terminal of standard output. Zero means that there is no terminal, or that its size is unknown.
type terminal struct{ width, height int }

// terminalOf returns the terminal of a file.
func terminalOf(f *os.File) terminal {
	width, height, ok := sizeOf(f)
	switch {
	case !ok:
		return terminal{}
	case width == 0 || height == 0:
		return terminal{plainWidth, plainHeight + terminalRest}
	}
	return terminal{width, height}
}

// plotOptions returns the options of a picture on standard output. It has colours and fine dots on a terminal that supports them.
func (p *Program) plotOptions(q *query) plot.Options {
	o := plot.Options{From: q.times.from, To: q.times.to, Location: q.location, Width: plainWidth, Height: plainHeight}
	if n, err := strconv.Atoi(p.variable("COLUMNS")); err == nil && n > 0 {
		o.Width = n
	}
	o.ASCII = true
	if p.screen == (terminal{}) || p.variable("TERM") == "dumb" {
		return o
	}
	o.Width, o.Height = p.screen.width, min(tallestPlot, p.screen.height-terminalRest)
	o.ASCII = !p.showsUnicode()
	o.Color = p.variable("NO_COLOR") == ""
	return o
}

// showsUnicode reports whether the terminal's locale, if there is one, supports all characters.
func (p *Program) showsUnicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(p.variable(name)); value != "" {
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return true
}

// variable returns a variable of the environment. It is empty if it is not set.
func (p *Program) variable(name string) string {
	value, _ := p.Lookup(name)
	return value
}

// isTerminal reports whether the file is a terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
