package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

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
