package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// event is a line of the output of go test -json, as "go doc test2json" describes it.
type event struct {
	Action, Package, Test, Output, ImportPath string
}

// test is a test, or a package if name is empty.
type test struct{ pkg, name string }

// top returns the top-level test that contains this test, or the test itself.
func (t test) top() test {
	name, _, _ := strings.Cut(t.name, "/")
	return test{t.pkg, name}
}

func (t test) String() string { return strings.TrimSuffix(t.pkg+"."+t.name, ".") }

// failure is a top-level test that failed, with its failed subtests.
type failure struct {
	test   test
	output []string
	tests  int // number of failed tests, including subtests
}

type report struct {
	out                     io.Writer
	output                  map[test][]string // of running tests, and of packages, which have an empty name
	skips                   skips
	failures                []*failure
	ended                   map[string]bool // packages whose tests all ended, although some failed
	passed, skipped, failed int
	broken                  bool // a package could not be built, or failed for another reason than its tests
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[test][]string{}, skips: skips{}, ended: map[string]bool{}}
}

// good reports whether at least one test passed and nothing failed.
func (r *report) good() bool { return r.passed > 0 && r.failed == 0 && !r.broken }

// read handles all events. It prints lines that are no events unchanged.
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
		if t.name != "" {
			r.skips.add(t, r.output[t])
		}
		r.end(t, &r.skipped)
	case "fail":
		if t.name == "" {
			r.failPackage(t)
		} else {
			r.failTest(t)
		}
		r.end(t, &r.failed)
	}
}

// note keeps a test's output, in case the test fails. It prints other output of a package at once.
func (r *report) note(t test, line string) {
	switch {
	case t.name != "":
		r.output[t] = append(r.output[t], line)
	case line == "FAIL\n": // go test prints it after the last test, but not after a panic or an exit
		r.ended[t.pkg] = true
	case line != "PASS\n" && !strings.HasPrefix(line, "-test.shuffle"):
		fmt.Fprint(r.out, line)
	default:
		r.output[t] = append(r.output[t], line)
	}
}

// failTest prints the output of a failed test, and adds it to the failure of its top-level test.
func (r *report) failTest(t test) {
	r.print(r.output[t])
	i := slices.IndexFunc(r.failures, func(f *failure) bool { return f.test == t.top() })
	if i < 0 {
		i = len(r.failures)
		r.failures = append(r.failures, &failure{test: t.top()})
	}
	r.failures[i].output = append(r.failures[i].output, r.output[t]...)
	r.failures[i].tests++
}

// failPackage prints the output of a failed package besides its failed tests, such as the shuffle seed, and tests that did not
// end.
func (r *report) failPackage(t test) {
	r.print(r.output[t])
	failed := slices.ContainsFunc(r.failures, func(f *failure) bool { return f.test.pkg == t.pkg })
	if failed && r.ended[t.pkg] {
		return
	}
	r.broken = true
	for _, unfinished := range r.unfinished(t.pkg) {
		fmt.Fprintf(r.out, "without an end: %s\n", unfinished)
		r.print(r.output[unfinished])
		delete(r.output, unfinished)
	}
}

// unfinished returns the tests of a package that have begun and not ended, sorted by name.
func (r *report) unfinished(pkg string) (list []test) {
	for t := range r.output {
		if t.pkg == pkg && t.name != "" {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b test) int { return strings.Compare(a.name, b.name) })
	return list
}

func (r *report) print(lines []string) {
	for _, line := range lines {
		fmt.Fprint(r.out, line)
	}
}

// end counts a test and forgets its output. It does not count packages.
func (r *report) end(t test, count *int) {
	if t.name != "" {
		*count++
	}
	delete(r.output, t)
}

func (r *report) close() {
	r.skips.print(r.out)
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
}

// skips are the skipped tests by their reason.
type skips map[string][]test

// source matches the position in a file with which a log line begins.
var source = regexp.MustCompile(`^\S+\.go:\d+: `)

func (s skips) add(t test, output []string) {
	reason := "no reason given"
	for _, line := range output {
		if text := strings.TrimSpace(line); !strings.HasPrefix(text, "===") && !strings.HasPrefix(text, "---") {
			reason = source.ReplaceAllString(text, "")
			break
		}
	}
	s[reason] = append(s[reason], t)
}

// print prints a line for each reason, with the number of tests and their packages.
func (s skips) print(out io.Writer) {
	if len(s) > 0 {
		fmt.Fprintln(out, "\nskipped:")
	}
	for _, reason := range slices.Sorted(maps.Keys(s)) {
		var packages []string
		for _, t := range s[reason] {
			packages = append(packages, path.Base(t.pkg))
		}
		slices.Sort(packages)
		fmt.Fprintf(out, "%5d of %s: %s\n", len(s[reason]), strings.Join(slices.Compact(packages), ", "), reason)
	}
}
