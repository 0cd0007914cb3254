package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// build is one program to compile.
type build struct {
	name, dir, pkg, tags, to string
}

// run downloads missing modules and compiles the program.
func (b build) run(ctx context.Context, p *progress) error {
	defer p.end()
	packages, err := b.goes(ctx, p.downloads, "list", "-deps", "-tags", b.tags, b.pkg)
	if err != nil {
		return fmt.Errorf("downloading the modules of %s: %w", b.name, err)
	}
	p.packages = bytes.Count(packages, []byte("\n"))
	if _, err := b.goes(ctx, p.compiles, "build", "-v", "-tags", b.tags, "-o", b.to, b.pkg); err != nil {
		return fmt.Errorf("compiling %s: %w", b.name, err)
	}
	return nil
}

// goes runs the go command and returns its standard output. It passes each line of standard error to note. The returned error
// contains the lines for which note returns false.
func (b build) goes(ctx context.Context, note func(line string) bool, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = b.dir
	command.Env = append(os.Environ(), "GOWORK=off")
	var out bytes.Buffer
	command.Stdout = &out
	said, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	var other strings.Builder
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if !note(lines.Text()) {
			fmt.Fprintln(&other, lines.Text())
		}
	}
	_, _ = io.Copy(io.Discard, said)
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, other.String())
	}
	return out.Bytes(), nil
}
