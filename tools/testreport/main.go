// Command testreport prints what a person wants to see of the output of "go test -json": each package's line, the output of
// what failed, and why tests were skipped. It exits with 1 if anything failed, or if nothing was run.
//
//	testreport -in DIR -of './...' go test -count=1 -json
//
// It runs this on these packages, in the folder DIR, and each failed test once more, alone. What passes then does not count as
// failed and is named as flaky, with both outputs. Never forgiven are: a verdict about data that is lost or doubled, a panic, a
// data race, a package that did not come to its end, and more failures than a machine's mood explains.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
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

// runAll runs the command on packages, and again what failed. The error is of a command that ended otherwise than by tests
// that fail.
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
	_, _ = io.Copy(io.Discard, out) // after an error; Wait wants the output to be read
	if err = errors.Join(err, r.unexpected(run.Wait())); err != nil {
		return err
	}
	r.again(func(t test) (string, bool) { return runAlone(ctx, dir, command, t) })
	return nil
}

// unexpected is how go test ended, unless the report tells why.
func (r *report) unexpected(end error) error {
	if exit, ok := errors.AsType[*exec.ExitError](end); ok && exit.ExitCode() == 1 && (r.failed > 0 || r.broken) {
		return nil
	}
	if end != nil {
		return fmt.Errorf("running the tests: %w", end)
	}
	return nil
}
