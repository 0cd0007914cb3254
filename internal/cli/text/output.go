package text

import (
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// Output keeps the first error of a writer, so that those who print need not ask after each line. Nothing is written after it.
type Output struct {
	Writer io.Writer
	// Terminal means that a person reads it on one.
	Terminal bool
	Err      error
	begun    atomic.Bool
}

// Begun reports whether anything was written. It may be called from other goroutines.
func (o *Output) Begun() bool { return o.begun.Load() }

// Write writes, unless that failed before.
func (o *Output) Write(p []byte) (n int, err error) {
	if o.Err == nil {
		o.begun.Store(true)
		n, o.Err = o.Writer.Write(p)
	}
	return n, o.Err
}

// WriteJSON writes a value as JSON that people can read as well.
func WriteJSON(w io.Writer, value any) error { return encode(w, value, "  ") }

// WriteJSONLine writes a value as one line of JSON.
func WriteJSONLine(w io.Writer, value any) error { return encode(w, value, "") }

// encode leaves <, > and & as they are: no output is put into a page as it is.
func encode(w io.Writer, value any, indent string) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", indent)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// progressEvery is the least time between two states of a progress line.
const progressEvery = 500 * time.Millisecond

// Progress is a line on a terminal that says how far long work is. Elsewhere it writes nothing.
type Progress struct {
	out   io.Writer // Nil means that nobody looks.
	what  string
	begin time.Time
	last  time.Time
	shown bool
}

// NewProgress begins a line on a terminal. Nil means that nobody looks.
func NewProgress(terminal io.Writer, what string) *Progress {
	now := time.Now()
	return &Progress{out: terminal, what: what, begin: now, last: now}
}

// Now says what is being done from now on.
func (p *Progress) Now(what string) { p.what = what }

// At says how much of the total is done; a total of 0 is unknown.
func (p *Progress) At(done, total int64) {
	now := time.Now()
	if p.out == nil || now.Sub(p.last) < progressEvery {
		return
	}
	p.last, p.shown = now, true
	const toStartOfLine, eraseLine = "\r", "\x1b[K"
	fmt.Fprint(p.out, toStartOfLine, eraseLine, progressText(p.what, done, total, now.Sub(p.begin)))
}

// Still says that it is going on, and for how long already: of work that does not tell how far it is.
func (p *Progress) Still() {
	now := time.Now()
	if p.out == nil || now.Sub(p.last) < progressEvery {
		return
	}
	p.last, p.shown = now, true
	fmt.Fprintf(p.out, "\r\x1b[K%s: %v", p.what, now.Sub(p.begin).Round(time.Second))
}

// End takes the line away.
func (p *Progress) End() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
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
