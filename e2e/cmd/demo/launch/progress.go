package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// patience is how long nothing is said: a build with everything at hand is over by then.
const patience = 2 * time.Second

// progress says how far a build is: on a terminal in one line that changes, elsewhere now and then.
type progress struct {
	out      io.Writer
	name     string
	terminal bool
	now      func() time.Time
	begin    time.Time
	said     time.Time // when the last time. Zero means never.
	modules  int       // downloaded
	packages int       // to compile, at most
	compiled int
}

func newProgress(out *os.File, name string) *progress {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &progress{out: out, name: name, terminal: terminal, now: time.Now, begin: time.Now()}
}

// downloads takes a line of go list.
func (p *progress) downloads(line string) bool {
	module, ok := strings.CutPrefix(line, "go: downloading ")
	if ok {
		p.modules++
		p.say(fmt.Sprintf("downloading modules: %d so far (%s)", p.modules, module))
	}
	return ok
}

// compiles takes a line of go build -v: a package that was compiled.
func (p *progress) compiles(line string) bool {
	if strings.HasPrefix(line, "#") || strings.ContainsAny(line, " \t") {
		return p.downloads(line)
	}
	p.compiled++
	p.say(fmt.Sprintf("compiling %s: %d of at most %d packages (%s)", p.name, p.compiled, p.packages, line))
	return true
}

// say prints what goes on, not too often.
func (p *progress) say(text string) {
	now := p.now()
	every := 10 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	switch {
	case now.Sub(p.begin) < patience || now.Sub(p.said) < every:
		return
	case p.said.IsZero():
		fmt.Fprintf(p.out, "Go compiles %s. The first time this takes minutes, later seconds.\n", p.name)
	}
	p.said = now
	text = fmt.Sprintf("%4.0f s  %s", now.Sub(p.begin).Seconds(), text)
	if p.terminal {
		const width = 79
		fmt.Fprintf(p.out, "\r\x1b[K%s", text[:min(len(text), width)])
		return
	}
	fmt.Fprintln(p.out, text)
}

// end removes the line that changes and says how long it took, if anything was said.
func (p *progress) end() {
	if p.said.IsZero() {
		return
	}
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	fmt.Fprintf(p.out, "%4.0f s  %s: %d modules downloaded, %d packages compiled\n", p.now().Sub(p.begin).Seconds(), p.name, p.modules, p.compiled)
}
