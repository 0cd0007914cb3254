// Command testreport reads the output of "go test -json" on standard input and prints what a person wants to see of it: each
// package's line, the output of what failed, and every test that was skipped with its reason. It exits with 1 if anything
// failed, or if nothing was run.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	r := report{out: os.Stdout, output: map[test][]string{}}
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	r.close()
	if r.failed > 0 || r.broken || r.passed == 0 {
		os.Exit(1)
	}
}

// event is a line of go test's output, as "go doc test2json" describes it.
type event struct {
	Action, Package, Test, Output, ImportPath string
}

type test struct{ pkg, name string }

type report struct {
	out                     io.Writer
	output                  map[test][]string // of tests that run, and of packages under the empty name
	skips                   []string
	passed, skipped, failed int
	broken                  bool // a package failed or could not be built
}

// read takes all events. Lines that are none are printed as they are.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		var e event
		switch {
		case line == "" && err == io.EOF:
			return nil
		case json.Unmarshal([]byte(line), &e) == nil:
			r.take(e)
		default:
			fmt.Fprint(r.out, line)
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading the tests' output: %w", err)
		}
	}
}

func (r *report) take(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "build-fail":
		r.broken = true
	case "output":
		r.note(t, e.Output)
	case "pass":
		r.end(t, &r.passed)
	case "skip":
		if e.Test != "" {
			r.skips = append(r.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, r.reason(t)))
		}
		r.end(t, &r.skipped)
	case "fail":
		for _, line := range r.output[t] {
			fmt.Fprint(r.out, line)
		}
		r.broken = true
		r.end(t, &r.failed)
	}
}

// note keeps a test's output, in case it fails. What a package says beside its tests is printed at once.
func (r *report) note(t test, line string) {
	if t.name == "" && line != "PASS\n" && !strings.HasPrefix(line, "-test.shuffle") {
		fmt.Fprint(r.out, line)
		return
	}
	r.output[t] = append(r.output[t], line)
}

// end counts a test and forgets its output. Packages are not counted.
func (r *report) end(t test, count *int) {
	if t.name != "" {
		*count++
	}
	delete(r.output, t)
}

// reason is what a skipped test said.
func (r *report) reason(t test) string {
	for _, line := range r.output[t] {
		text := strings.TrimSpace(line)
		if !strings.HasPrefix(text, "===") && !strings.HasPrefix(text, "---") {
			return text
		}
	}
	return "no reason given"
}

func (r *report) close() {
	if len(r.skips) > 0 {
		fmt.Fprintln(r.out, "\nskipped:")
		for _, s := range r.skips {
			fmt.Fprintln(r.out, "  "+s)
		}
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
}
