package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// patience is the time before the first output. A build that needs no download or compilation ends earlier.
const patience = 2 * time.Second

// progress shows how far a build is. On a terminal it changes one line, elsewhere it prints a line every ten seconds.
type progress struct {
	out      io.Writer
	name     string
	terminal bool
	now      func() time.Time
	begin    time.Time
	said     time.Time // time of the last output. Zero means never.
	modules  int       // modules downloaded
	packages int       // upper bound of packages to compile
	compiled int
}

func newProgress(out *os.File, name string) *progress {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &progress{out: out, name: name, terminal: terminal, now: time.Now, begin: time.Now()}
}

// downloads handles a line of go list.
func (p *progress) downloads(line string) bool {
	module, ok := strings.CutPrefix(line, "go: downloading ")
	if ok {
		p.modules++
		p.say(fmt.Sprintf("downloading modules: %d so far (%s)", p.modules, module))
	}
	return ok
}

// compiles handles a line of go build -v, which names a compiled package.
func (p *progress) compiles(line string) bool {
	if strings.HasPrefix(line, "#") || strings.ContainsAny(line, " \t") {
		return p.downloads(line)
	}
	p.compiled++
	p.say(fmt.Sprintf("compiling %s: %d of at most %d packages (%s)", p.name, p.compiled, p.packages, line))
	return true
}

// say prints text, unless the last output is too recent.
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

// end removes the progress line and prints the duration, if anything was printed before.
func (p *progress) end() {
	if p.said.IsZero() {
		return
	}
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	fmt.Fprintf(p.out, "%4.0f s  %s: %d modules downloaded, %d packages compiled\n", p.now().Sub(p.begin).Seconds(), p.name, p.modules, p.compiled)
}
