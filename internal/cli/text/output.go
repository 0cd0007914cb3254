package text

import (
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// Output keeps the first error of a writer, so that callers need not check each line. After an error it writes nothing.
type Output struct {
	Writer io.Writer
	// Terminal means that the output goes to a terminal.
	Terminal bool
	Err      error
	begun    atomic.Bool
}

// Begun reports whether anything was written. It may be called from other goroutines.
func (o *Output) Begun() bool { return o.begun.Load() }

// Write writes, unless an earlier write failed.
func (o *Output) Write(p []byte) (n int, err error) {
	if o.Err == nil {
		o.begun.Store(true)
		n, o.Err = o.Writer.Write(p)
	}
	return n, o.Err
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(w io.Writer, value any) error { return encode(w, value, "  ") }

// WriteJSONLine writes a value as one line of JSON.
func WriteJSONLine(w io.Writer, value any) error { return encode(w, value, "") }

// encode leaves <, > and & as they are, because no output is put into a page unchanged.
func encode(w io.Writer, value any, indent string) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", indent)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// progressEvery is the minimum time between two updates of a progress line.
const progressEvery = 500 * time.Millisecond

// clearLine moves to the start of a terminal's line, and erases it.
const clearLine = "\r\x1b[K"

// Progress is a line on a terminal that shows the progress of long work. Without a terminal it writes nothing.
type Progress struct {
	out   io.Writer // Nil means that there is no terminal.
	what  string
	begin time.Time
	last  time.Time
	shown bool
}

// NewProgress returns a progress line on a terminal. A nil terminal means that there is none.
func NewProgress(terminal io.Writer, what string) *Progress {
	now := time.Now()
	return &Progress{out: terminal, what: what, begin: now, last: now}
}

// Now sets the description of the present work.
func (p *Progress) Now(what string) { p.what = what }

// At shows how much of the total is done. A total of 0 means unknown.
func (p *Progress) At(done, total int64) {
	if took, due := p.due(); due {
		fmt.Fprint(p.out, clearLine, progressText(p.what, done, total, took))
	}
}

// Still shows that the work goes on, and for how long. It is for work without known progress.
func (p *Progress) Still() {
	if took, due := p.due(); due {
		fmt.Fprintf(p.out, "%s%s: %v", clearLine, p.what, took.Round(time.Second))
	}
}

// due reports whether to update the line now, and how long the work has taken.
func (p *Progress) due() (took time.Duration, due bool) {
	now := time.Now()
	if p.out == nil || now.Sub(p.last) < progressEvery {
		return 0, false
	}
	p.last, p.shown = now, true
	return now.Sub(p.begin), true
}

// End removes the line.
func (p *Progress) End() {
	if p.shown {
		fmt.Fprint(p.out, clearLine)
	}
}

func progressText(what string, done, total int64, took time.Duration) string {
	rate := float64(done) / max(took.Seconds(), 0.001)
	line := fmt.Sprintf("%s: %d", what, done)
	if total > 0 {
		line += fmt.Sprintf(" of %d (%d %%)", total, done*100/total)
	}
	line += fmt.Sprintf(", %.0f/s", rate)
	if total > done && rate >= 1 {
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		line += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return line
}
