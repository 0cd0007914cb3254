package deploy

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"waterwheel/internal/measurement"
	"waterwheel/internal/metrics"
)

const (
	rulesFile = "prometheus/waterwheel.rules.yml"
	rulesTest = "prometheus/waterwheel.rules_test.yml"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// promtool is the program of that name, or the test is skipped.
func promtool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: Debian's package prometheus has it")
	}
	return path
}

// rule is an alert of the rules file as far as these tests read it.
type rule struct{ name, expression, severity, summary, runbook string }

// alerts reads the alerts of the rules file. promtool reads all of it.
func alerts(t *testing.T) (all []rule) {
	t.Helper()
	parts := strings.Split(readFile(t, rulesFile), "\n      - alert: ")
	field := func(text, form string) string {
		if found := regexp.MustCompile(form).FindStringSubmatch(text); found != nil {
			return found[1]
		}
		return ""
	}
	for _, part := range parts[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		all = append(all, rule{
			name: name, expression: field(rest, `(?s)expr: (.*?)\n        \w`), severity: field(rest, `severity: (\w+)\n`),
			summary: field(rest, `summary: ["'](.*)["']\n`), runbook: field(rest, `runbook_url: (\S+)`),
		})
	}
	return all
}

func TestRulesNameOnlyMetricsOfTheTable(t *testing.T) {
	text := readFile(t, rulesFile)
	n, problems := metrics.CheckQuery(text)
	for _, problem := range problems {
		t.Error(problem)
	}
	if n < 25 {
		t.Errorf("only %d selectors were found", n)
	}
	recorded := regexp.MustCompile(`record: (\S+)`).FindAllStringSubmatch(text, -1)
	for _, name := range regexp.MustCompile(`waterwheel:[\w:]+`).FindAllString(text, -1) {
		if !slices.ContainsFunc(recorded, func(r []string) bool { return r[1] == name }) {
			t.Errorf("%s is not recorded", name)
		}
	}
	for _, reason := range regexp.MustCompile(`increase15m\{reason="(\w+)"`).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(measurement.Reasons(), measurement.Reason(reason[1])) {
			t.Errorf("no letter has the reason %s", reason[1])
		}
	}
}

// TestEachAlertSaysWhatToDo: its severity is one of two, its summary has numbers, and the runbook has an entry.
func TestEachAlertSaysWhatToDo(t *testing.T) {
	runbook := readFile(t, "../docs/runbook.md")
	list := alerts(t)
	names := map[string]bool{}
	for _, a := range list {
		names[a.name] = true
		if !strings.HasPrefix(a.name, "Waterwheel") || a.expression == "" || !slices.Contains([]string{"page", "warning"}, a.severity) {
			t.Errorf("%s: the severity %q is neither page nor warning, or the expression %q is missing", a.name, a.severity, a.expression)
		}
		if !strings.Contains(a.summary, "$value") && !regexp.MustCompile(`\d`).MatchString(a.summary) {
			t.Errorf("%s: the summary %q has no number", a.name, a.summary)
		}
		if a.runbook != "docs/runbook.md#"+strings.ToLower(a.name) || !strings.Contains(runbook, "\n### "+a.name+"\n") {
			t.Errorf("%s: docs/runbook.md has no entry at %q", a.name, a.runbook)
		}
	}
	for _, entry := range regexp.MustCompile(`(?m)^### (Waterwheel\w+)$`).FindAllStringSubmatch(runbook, -1) {
		if !names[entry[1]] {
			t.Errorf("docs/runbook.md has an entry for %s, which is no alert", entry[1])
		}
	}
	if len(list) < 12 {
		t.Errorf("only %d alerts were found", len(list))
	}
}

// TestEachAlertIsTested: with a moment at which it fires, and one at which it does not.
func TestEachAlertIsTested(t *testing.T) {
	text := readFile(t, rulesTest)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, part := range strings.Split(text, "alertname: ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		expected, _, _ := strings.Cut(rest, "- eval_time:")
		for _, severity := range []string{"page", "warning"} {
			of := fires
			if !strings.Contains(expected, "severity: "+severity) {
				of = quiet
			}
			of[name+" "+severity] = true
		}
	}
	for _, a := range alerts(t) {
		if key := a.name + " " + a.severity; !fires[key] || !quiet[key] {
			t.Errorf("%s: fires in a test: %t; is silent in one: %t", key, fires[key], quiet[key])
		}
	}
}

func TestRulesFireWhenTheyShould(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", rulesTest}} {
		out, err := exec.CommandContext(t.Context(), promtool(t), args...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
