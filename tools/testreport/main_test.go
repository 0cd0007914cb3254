package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reported reads events, and returns the report and its output.
func reported(t *testing.T, events string, again func(test) (string, bool)) (*report, string) {
	t.Helper()
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	if again != nil {
		r.again(again)
	}
	r.close()
	return r, out.String()
}

// said returns the events of a test, which are its output and its end.
func said(name, action string, output ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"Action":"run","Package":"m/p","Test":%q}`+"\n", name)
	for _, line := range output {
		fmt.Fprintf(&b, `{"Action":"output","Package":"m/p","Test":%q,"Output":%q}`+"\n", name, line+"\n")
	}
	if action != "" {
		fmt.Fprintf(&b, `{"Action":%q,"Package":"m/p","Test":%q}`+"\n", action, name)
	}
	return b.String()
}

// These are the last events of a package. In failedPackage all tests have ended, and in brokenPackage the package broke off.
const (
	failedPackage = `{"Action":"output","Package":"m/p","Output":"FAIL\n"}
{"Action":"output","Package":"m/p","Output":"FAIL\tm/p\t0.1s\n"}
{"Action":"fail","Package":"m/p"}
`
	brokenPackage = `{"Action":"output","Package":"m/p","Output":"FAIL\tm/p\t0.1s\n"}
{"Action":"fail","Package":"m/p"}
`
)

func TestReport(t *testing.T) {
	events := said("TestA", "pass", "=== RUN   TestA", "noise") +
		said("TestB", "skip", "=== RUN   TestB", "    b_test.go:9: no Kafka") +
		said("TestC", "fail", "    c_test.go:3: wrong") +
		said("TestD", "skip", "    d_test.go:7: no Kafka") +
		said("TestE", "skip", "    d_test.go:9: no MongoDB") +
		"go: a line of its own\n" + failedPackage
	r, out := reported(t, events, nil)
	want := "    c_test.go:3: wrong\ngo: a line of its own\nFAIL\tm/p\t0.1s\n" +
		"\nskipped:\n    2 of p: no Kafka\n    1 of p: no MongoDB\n\n1 passed, 1 failed, 3 skipped\n"
	if out != want {
		t.Errorf("report:\n%s\nwant:\n%s", out, want)
	}
	if r.good() || r.failed != 1 || len(r.output) != 0 {
		t.Errorf("good %v, %d failed, %d outputs kept", r.good(), r.failed, len(r.output))
	}
}

func TestABuildThatFailsIsAFailure(t *testing.T) {
	r, out := reported(t, `{"Action":"build-output","ImportPath":"p","Output":"p.go:1: syntax error\n"}`+"\n"+`{"Action":"build-fail","ImportPath":"p"}`, nil)
	if r.good() || !strings.Contains(out, "syntax error") {
		t.Errorf("good %v, output %q", r.good(), out)
	}
}

func TestNothingRunIsAFailure(t *testing.T) {
	if r, _ := reported(t, "", nil); r.good() {
		t.Error("a report of nothing is good")
	}
}

// TestPassesTheSecondTime checks that such a test is reported as flaky, with both outputs. It counts as passed with its subtests.
func TestPassesTheSecondTime(t *testing.T) {
	events := said("TestA", "pass") + said("TestB/sub", "fail", "too slow") + said("TestB", "fail", "--- FAIL: TestB") + failedPackage
	var asked []string
	r, out := reported(t, events, func(again test) (string, bool) {
		asked = append(asked, again.String())
		return "quick enough\n", true
	})
	if !r.good() || fmt.Sprint(asked) != "[m/p.TestB]" {
		t.Errorf("good %v, asked for %v", r.good(), asked)
	}
	const want = "\nflaky: m/p.TestB\n----- at first\ntoo slow\n--- FAIL: TestB\n----- again, alone\nquick enough\n-----\n"
	if !strings.Contains(out, want) || !strings.HasSuffix(out, "\n3 passed, 0 failed, 0 skipped\n") {
		t.Errorf("report:\n%s", out)
	}
}

func TestFailsTwice(t *testing.T) {
	events := said("TestA", "pass") + said("TestB", "fail", "wrong") + failedPackage
	r, out := reported(t, events, func(test) (string, bool) { return "wrong again\n", false })
	if r.good() || !strings.Contains(out, "failed twice: m/p.TestB\n----- at first\nwrong\n----- again, alone\nwrong again\n") {
		t.Errorf("good %v, report:\n%s", r.good(), out)
	}
	if !strings.HasSuffix(out, "\n1 passed, 1 failed, 0 skipped\n") {
		t.Errorf("report:\n%s", out)
	}
}

// TestWhatIsNeverForgiven checks failures that count even though a second run would pass.
func TestWhatIsNeverForgiven(t *testing.T) {
	var many strings.Builder
	for i := range mostAgain + 1 {
		many.WriteString(said(fmt.Sprintf("TestB%d", i), "fail", "too slow"))
	}
	for name, events := range map[string]string{
		"lost data":               said("TestB", "fail", "    stream_test.go:1: DATA VERDICT: missing 1") + failedPackage,
		"lost data in a subtest":  said("TestB/s", "fail", "    stream_test.go:1: DATA VERDICT: missing 1") + said("TestB", "fail") + failedPackage,
		"a panic of the program":  said("TestB", "fail", "        panic: E4: outcomes") + failedPackage,
		"a panic of the test":     said("TestB", "fail", "panic: boom [recovered]") + brokenPackage,
		"a data race":             said("TestB", "fail", "WARNING: DATA RACE") + failedPackage,
		"another test has no end": said("TestB", "fail", "too slow") + said("TestC", "", "half a line") + brokenPackage,
		"no test failed":          brokenPackage,
		"no test failed, the end": failedPackage,
		"too many":                many.String() + failedPackage,
	} {
		r, out := reported(t, said("TestA", "pass")+events, func(test) (string, bool) { return "", true })
		if r.good() {
			t.Errorf("%s was forgiven:\n%s", name, out)
		}
		if name == "another test has no end" && !strings.Contains(out, "without an end: m/p.TestC\nhalf a line\n") {
			t.Errorf("%s:\n%s", name, out)
		}
	}
}

// module writes a module with a test file into a folder.
func module(t *testing.T, tests string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module again\n\ngo 1.26\n",
		"again_test.go": "package again\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Exit\n\n" + tests,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRunsAloneWhatFailed checks with a real go test that the second run has only the failed test, and that it must run this
// test.
func TestRunsAloneWhatFailed(t *testing.T) {
	dir := module(t, `
func TestGood(t *testing.T)       { t.Log("fine") }
func TestGoodAsWell(t *testing.T) { t.Error("not asked for") }
func TestBad(t *testing.T)        { t.Run("sub", func(t *testing.T) { t.Error("wrong") }) }
func TestSkipped(t *testing.T)    { t.Skip("not now") }
`)
	for name, want := range map[string]struct {
		passed bool
		output string
	}{
		"TestGood": {true, "fine"}, "TestBad": {false, "wrong"}, "TestSkipped": {false, "not now"}, "TestGone": {false, "no tests to run"},
	} {
		output, passed := runAlone(t.Context(), dir, []string{"go", "test", "-count=1", "-json"}, test{"again", name})
		if passed != want.passed || !strings.Contains(output, want.output) || strings.Contains(output, "not asked for") {
			t.Errorf("%s: passed %v, output:\n%s", name, passed, output)
		}
	}
	if output, passed := runAlone(t.Context(), dir, []string{"no-such-command"}, test{"again", "TestGood"}); passed || !strings.Contains(output, "no-such-command") {
		t.Errorf("a command that is not there: passed %v, output %q", passed, output)
	}
}

// TestVerdictsOfRealRuns covers every way in which a real go test can end.
func TestVerdictsOfRealRuns(t *testing.T) {
	goTest := []string{"go", "test", "-count=1", "-json"}
	once := func(then string) string { // a test that fails the first time only
		return `
func TestB(t *testing.T) {
	if _, err := os.Stat("been"); err == nil {
		return
	}
	os.WriteFile("been", nil, 0o600)
	` + then + `
}
`
	}
	for name, c := range map[string]struct {
		tests   string
		command []string
		good    bool
		says    string
	}{
		"all pass":               {"func TestA(t *testing.T) {}", goTest, true, "1 passed, 0 failed, 0 skipped"},
		"fails once":             {"func TestA(t *testing.T) {}\n" + once(`t.Error("slow")`), goTest, true, "flaky: again.TestB"},
		"fails always":           {"func TestA(t *testing.T) { t.Error(1) }", goTest, false, "failed twice: again.TestA"},
		"loses data once":        {once(`t.Error("DATA VERDICT: missing 1")`), goTest, false, "not run again"},
		"panics once":            {once(`panic("boom")`), goTest, false, "boom"},
		"exits once":             {once(`os.Exit(1)`), goTest, false, "without an end: again.TestB"},
		"is killed":              {"func TestA(t *testing.T) {}", []string{"sh", "-c", `"$@" 2>&1; kill -KILL $$`, "sh", "go", "test", "-json"}, false, ""},
		"cannot be built":        {"func TestA(t *testing.T) { x }", goTest, false, "undefined: x"},
		"has wrong flags":        {"func TestA(t *testing.T) {}", []string{"go", "test", "-json", "-no-such-flag"}, false, ""},
		"all pass, with failure": {"func TestMain(m *testing.M) { m.Run(); os.Exit(1) }\nfunc TestA(t *testing.T) {}", goTest, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			err := runAll(t.Context(), r, module(t, c.tests), c.command, []string{"."})
			r.close()
			if good := err == nil && r.good(); good != c.good || !strings.Contains(out.String(), c.says) {
				t.Errorf("good %v (%v), without %q:\n%s", good, err, c.says, out.String())
			}
		})
	}
}
