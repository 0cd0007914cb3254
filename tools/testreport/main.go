// Command testreport prints a summary of the output of "go test -json" for people. It shows a line per package, the output of
// failures, and why tests were skipped. It exits with 1 if anything failed, or if no test passed.
//
//	testreport -in DIR -of './...' go test -count=1 -json
//
// It runs this command on these packages, in the folder DIR, and then each failed test once more, alone. If that passes, the test
// does not count as failed and is reported as flaky, with both outputs. Some failures get no second run. They are a verdict about
// lost or doubled data, a panic, a data race, and a package that did not end. More failures than a busy machine explains get none
// either.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
)

func main() {
	dir := flag.String("in", ".", "the folder in which the command runs")
	packages := flag.String("of", "./...", "the packages that the command tests")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	r := newReport(os.Stdout)
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "testreport: name the command that tests: testreport -in DIR -of './...' go test -json")
		os.Exit(2)
	}
	err := runAll(ctx, r, *dir, flag.Args(), strings.Fields(*packages))
	r.close()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !r.good() {
		os.Exit(1)
	}
}

// runAll runs the command on packages, and the failed tests again. The error is about a command that failed for another reason
// than failed tests.
func runAll(ctx context.Context, r *report, dir string, command, packages []string) error {
	run := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], packages...)...)
	run.Dir, run.Stderr = dir, os.Stderr
	out, err := run.StdoutPipe()
	if err != nil {
		return fmt.Errorf("connecting to the tests: %w", err)
	}
	if err := run.Start(); err != nil {
		return fmt.Errorf("starting the tests: %w", err)
	}
	err = r.read(out)
	_, _ = io.Copy(io.Discard, out) // after an error, because Wait needs all output to be read
	if err = errors.Join(err, r.unexpected(run.Wait())); err != nil {
		return err
	}
	r.again(func(t test) (string, bool) { return runAlone(ctx, dir, command, t) })
	return nil
}

// unexpected returns the error with which go test ended, unless failures in the report explain it.
func (r *report) unexpected(end error) error {
	if exit, ok := errors.AsType[*exec.ExitError](end); ok && exit.ExitCode() == 1 && (r.failed > 0 || r.broken) {
		return nil
	}
	if end != nil {
		return fmt.Errorf("running the tests: %w", end)
	}
	return nil
}

// mostAgain bounds the number of failed tests that are run again. A busy machine does not explain more failures.
const mostAgain = 5

// unforgivable matches output after which a test is not run again. It is a verdict about data (e2e/check begins with it), a panic
// or a data race.
var unforgivable = regexp.MustCompile(`(?m)DATA VERDICT|^\s*panic: |^\s*fatal error: |WARNING: DATA RACE`)

// again runs each failed test once more, and takes back the failures of those that pass.
func (r *report) again(run func(test) (output string, passed bool)) {
	if len(r.failures) > mostAgain {
		fmt.Fprintf(r.out, "\nnot run again: %d tests failed, which is no chance\n", len(r.failures))
		return
	}
	for _, f := range r.failures {
		first := strings.Join(f.output, "")
		if found := unforgivable.FindString(first); found != "" {
			fmt.Fprintf(r.out, "\nnot run again: %s: its output has %q\n", f.test, strings.TrimSpace(found))
			continue
		}
		second, passed := run(f.test)
		word := "failed twice"
		if passed {
			word = "flaky"
			r.failed -= f.tests
			r.passed += f.tests
		}
		fmt.Fprintf(r.out, "\n%s: %s\n----- at first\n%s----- again, alone\n%s-----\n", word, f.test, first, second)
	}
}

// runAlone runs one test with the command, to which it adds arguments of go test.
func runAlone(ctx context.Context, dir string, command []string, t test) (output string, passed bool) {
	args := append(command[1:len(command):len(command)], "-run", "^"+t.name+"$", t.pkg)
	run := exec.CommandContext(ctx, command[0], args...)
	run.Dir = dir
	text, err := run.CombinedOutput()
	var b strings.Builder
	for line := range bytes.Lines(text) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			e.Output = string(line)
		}
		b.WriteString(e.Output)
		passed = passed || e.Action == "pass" && e.Package == t.pkg && e.Test == t.name
	}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		fmt.Fprintf(&b, "running the test again: %v\n", err)
	}
	return b.String(), passed && err == nil
}
