package main

import (
	"fmt"
	"io"
	"time"
)

// progressEvery is the least time between two states of a progress line.
const progressEvery = 500 * time.Millisecond

// progress is a line on a terminal that says how far long work is. Elsewhere it writes nothing.
type progress struct {
	out   io.Writer // nil: nobody looks
	what  string
	begin time.Time
	last  time.Time
	shown bool
}

// newProgress begins a line for a person at stderr.
func (p *program) newProgress(what string) *progress {
	line := &progress{what: what, begin: time.Now()}
	line.last = line.begin
	if p.onTerminal {
		line.out = p.stderr
	}
	return line
}

// at says how much of the total is done; total 0: not known.
func (p *progress) at(done, total int64) {
	now := time.Now()
	if p.out == nil || now.Sub(p.last) < progressEvery {
		return
	}
	p.last, p.shown = now, true
	const toStartOfLine, eraseLine = "\r", "\x1b[K"
	fmt.Fprint(p.out, toStartOfLine, eraseLine, progressText(p.what, done, total, now.Sub(p.begin)))
}

// end takes the line away.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func progressText(what string, done, total int64, took time.Duration) string {
	rate := float64(done) / max(took.Seconds(), 0.001)
	text := fmt.Sprintf("%s: %d", what, done)
	if total > 0 {
		text += fmt.Sprintf(" of %d (%d %%)", total, done*100/total)
	}
	text += fmt.Sprintf(", %.0f/s", rate)
	if total > done && rate >= 1 {
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		text += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return text
}
