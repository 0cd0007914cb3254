package gate

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// These scripts take the place of the real programs. Each records its call, and fails if the call contains the text of $FAIL.
// $TIMES is the number of times that it fails.
const (
	pretend = `
calls=$(dirname "$(dirname "$0")")/calls
case $0 in */servers/*) calls=$(dirname "$(dirname "$(dirname "$(dirname "$0")")")")/calls ;; esac
call="$(basename "$0") $*${E2E_KAFKA_BROKERS:+ kafka=$E2E_KAFKA_BROKERS}${E2E_MONGODB_URI:+ mongo=$E2E_MONGODB_URI}"
call="$call${E2E_KAFKA_LIBS:+ libs}"
echo "$call" >>"$calls"
if [ -n "${FAIL:-}" ] && [[ $call == *$FAIL* ]] && [ "$(grep -cF -- "$FAIL" "$calls")" -le "${TIMES:-1000}" ]; then
	echo "pretended failure of $call"
	exit 3
fi
`
	script = "#!/usr/bin/env bash\nset -euo pipefail" + pretend
	tool   = script + `echo "done: $call"` + "\n"
	server = script + `case $1 in start) mkdir -p "$2"; echo "$(basename "$0")-of-$(basename "$2")-at-${4}" ;; esac` + "\n"
)

// run runs the gate with these scripts. It returns the gate's exit code, its output, and the recorded calls.
func run(t *testing.T, environment ...string) (code int, out, calls string) {
	t.Helper()
	if version, err := exec.CommandContext(t.Context(), "bash", "-c", "echo ${BASH_VERSINFO[0]}").Output(); err != nil || version[0] < '4' {
		t.Skip("no bash of version 4 or later to run the gate with")
	}
	dir := t.TempDir()
	gate, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"repo/.ci/run":               string(gate),
		"repo/tools/deploy/go.mod":   "",
		"bin/make":                   tool,
		"bin/go":                     tool,
		"shared/servers/kafka/kafka": server,
		"shared/servers/mongo/mongo": server,
		"jars/4/.complete":           "",
		"tmp/nothing":                "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "repo/.ci/run"))
	command.Env = append(os.Environ(), append(environment,
		"PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "KAFKA_JARS="+filepath.Join(dir, "jars"), "TMPDIR="+filepath.Join(dir, "tmp"))...)
	command.WaitDelay = 10 * time.Second
	output, err := command.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	called, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), string(output), string(called)
}

// stages holds one call of each stage of the gate.
var stages = []string{
	"make --no-print-directory lint",
	"make --no-print-directory test",
	"go test ./internal/verify",
	"make --no-print-directory model",
	"make --no-print-directory sim",
	"make --no-print-directory e2e kafka=kafka-of-kafka.1",
	"make --no-print-directory e2e PACKAGES=. kafka=kafka-of-kafka.1",
	"make --no-print-directory e2e PACKAGES=. TESTFLAGS=-run TestRollingRestart kafka=kafka-of-cluster.1",
	"make --no-print-directory chaos CHAOSFLAGS=-duration 3m",
	"make --no-print-directory chaos CHAOSFLAGS=-duration 2m",
	"make --no-print-directory deploy",
}

func TestPassesWhenEverythingDoes(t *testing.T) {
	code, out, calls := run(t)
	if code != 0 || !strings.Contains(out, "ci: stages\n") || !strings.Contains(out, "s  in all\n") {
		t.Errorf("code %d:\n%s", code, out)
	}
	for _, call := range stages {
		if strings.Count(calls, call) != 1 {
			t.Errorf("%q was not called once:\n%s", call, calls)
		}
	}
	for line := range strings.Lines(calls) {
		tests := strings.Contains(line, "e2e") || strings.Contains(line, "directory test") || strings.Contains(line, "chaos")
		if strings.HasPrefix(line, "make ") && tests && !strings.HasSuffix(line, " libs\n") {
			t.Errorf("without E2E_KAFKA_LIBS: %s", line)
		}
	}
	if _, table, _ := strings.Cut(out, "ci: stages\n"); strings.Count(table, "\n")-strings.Count(table, "  waiting for ") != len(stages)+1 {
		t.Errorf("not a line for each stage:\n%s", table)
	}
	wantStopped(t, calls)
}

// wantStopped checks that every server is stopped, also after a start that failed.
func wantStopped(t *testing.T, calls string) {
	t.Helper()
	for line := range strings.Lines(calls) {
		words := strings.Fields(line)
		if len(words) > 2 && words[1] == "start" && !strings.Contains(calls, words[0]+" stop "+words[2]) {
			t.Errorf("not stopped: %s", line)
		}
	}
}

// TestAnyFailureIsTheVerdict checks that the gate fails and names the call when any stage fails, also one in the background.
func TestAnyFailureIsTheVerdict(t *testing.T) {
	for _, call := range stages {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			code, out, calls := run(t, "FAIL="+call)
			if code == 0 || !strings.Contains(out, "pretended failure of "+call) || !strings.Contains(out, "ci: failed with status") {
				t.Errorf("code %d:\n%s", code, out)
			}
			if n := strings.Count(calls, call); n != 1 {
				t.Errorf("called %d times:\n%s", n, calls)
			}
			wantStopped(t, calls)
		})
	}
}

// TestServersAreStartedAgain checks that a server may fail to start twice, but not three times.
func TestServersAreStartedAgain(t *testing.T) {
	for _, name := range []string{"kafka", "mongo", "cluster", "chaosdb"} {
		for times, want := range map[int]int{2: 0, 3: 1} {
			t.Run(fmt.Sprintf("%s fails %d times", name, times), func(t *testing.T) {
				t.Parallel()
				code, out, calls := run(t, "FAIL=/"+name+".", fmt.Sprintf("TIMES=%d", 2*times-1)) // the calls are start, stop, start and so on
				if code != want || strings.Count(out, name+" did not start at port") != times {
					t.Errorf("code %d:\n%s", code, out)
				}
				ports := map[string]bool{}
				for line := range strings.Lines(calls) {
					if _, port, ok := strings.Cut(line, "/"+name+"."); ok && strings.Contains(line, " start ") {
						ports[strings.Fields(port)[2]] = true
					}
				}
				if tries := min(times+1, 3); len(ports) != tries {
					t.Errorf("ports %v, want %d different ones", ports, tries)
				}
			})
		}
	}
}
