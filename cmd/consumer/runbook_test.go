package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"waterwheel/config"
	"waterwheel/internal/measurement"
	"waterwheel/internal/metrics"
)

// runbookSection returns the text of a section of docs/runbook.md.
func runbookSection(t *testing.T, title string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "\n## "+title+"\n")
	if !ok {
		t.Fatalf("docs/runbook.md has no section %q", title)
	}
	section, _, _ := strings.Cut(after, "\n## ")
	return section
}

// entries returns the code words in the first column of the tables of a section, sorted.
func entries(t *testing.T, title string) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(runbookSection(t, title)) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
			for _, word := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
				found = append(found, word[1])
			}
		}
	}
	slices.Sort(found)
	return found
}

// wantSame compares the entries of a section with those in the code.
func wantSame(t *testing.T, section string, documented, have []string) {
	t.Helper()
	slices.Sort(have)
	have = slices.Compact(have)
	for _, name := range have {
		if !slices.Contains(documented, name) {
			t.Errorf("%s: docs/runbook.md has no entry for %s", section, name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(have, name) {
			t.Errorf("%s: docs/runbook.md has an entry for %s, which the code does not have", section, name)
		}
	}
}

func TestRunbookHasEveryLetter(t *testing.T) {
	var reasons []string
	for _, r := range measurement.Reasons() {
		reasons = append(reasons, string(r))
	}
	wantSame(t, "Dead letters", entries(t, "Dead letters"), reasons)
}

// eachFile parses the non-test files of a package.
func eachFile(t *testing.T, dir string, use func(*ast.File)) {
	t.Helper()
	names, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		use(file)
	}
}

// literalText returns the value of a string literal. It returns an empty string for any other expression.
func literalText(e ast.Expr) string {
	if field, ok := e.(*ast.KeyValueExpr); ok {
		e = field.Value
	}
	if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
		if s, err := strconv.Unquote(literal.Value); err == nil {
			return s
		}
	}
	return ""
}

// stopReason returns the reason of a StopError that is made here. It returns an empty string for any other node.
func stopReason(n ast.Node) string {
	literal, ok := n.(*ast.CompositeLit)
	if !ok || len(literal.Elts) == 0 {
		return ""
	}
	if typ, ok := literal.Type.(*ast.SelectorExpr); ok && typ.Sel.Name == "StopError" {
		return literalText(literal.Elts[0])
	}
	return ""
}

func TestRunbookHasEveryStoppedPartition(t *testing.T) {
	var reasons []string
	for _, dir := range []string{".", "../../pipeline", "../../internal/claim", "../../internal/kafka", "../../dlq", "../../sink"} {
		eachFile(t, dir, func(file *ast.File) {
			ast.Inspect(file, func(n ast.Node) bool {
				if reason := stopReason(n); reason != "" {
					reasons = append(reasons, reason)
				}
				return true
			})
		})
	}
	if len(reasons) < 8 {
		t.Fatalf("only the reasons %v were found in the code", reasons)
	}
	wantSame(t, "Stopped partitions", entries(t, "Stopped partitions"), reasons)
}

// TestRunbookHasEveryReadinessReason compares the sentences of the status with those of the runbook. The sign "…" stands for
// values.
func TestRunbookHasEveryReadinessReason(t *testing.T) {
	var sentences []string
	eachFile(t, "../../internal/status", func(file *ast.File) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && (f.Name.Name == "snapshot" || receiver(f) == "readiness") {
				ast.Inspect(f, func(n ast.Node) bool {
					if e, ok := n.(ast.Expr); ok && strings.Contains(literalText(e), " ") {
						sentences = append(sentences, literalText(e))
					}
					return true
				})
			}
		}
	})
	if len(sentences) < 6 {
		t.Fatalf("only the sentences %q were found in the code", sentences)
	}
	filled := regexp.MustCompile(`%[a-z]`)
	matched := map[string]bool{}
	for _, entry := range entries(t, "Readiness") {
		parts := strings.Split(entry, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern := regexp.MustCompile("^" + strings.Join(parts, ".*"))
		found := false
		for _, s := range sentences {
			if pattern.MatchString(filled.ReplaceAllString(s, "…")) {
				matched[s], found = true, true
			}
		}
		if !found {
			t.Errorf("docs/runbook.md has an entry for %q, which /readyz does not say", entry)
		}
	}
	for _, s := range sentences {
		if !matched[s] {
			t.Errorf("docs/runbook.md has no entry for %q", s)
		}
	}
}

// receiver returns the name of the type of a method.
func receiver(f *ast.FuncDecl) string {
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if name, ok := typ.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// TestExitCodesAreExplained checks the documentation of the exit codes. Go uses the exit code of wrong settings after a panic
// too, which needs another reaction.
func TestExitCodesAreExplained(t *testing.T) {
	_, help, _ := try(t, nil, "help")
	section := runbookSection(t, "Exits")
	for _, code := range []int{exitDone, exitFailed, exitUsage, exitFound} {
		if !strings.Contains(section, fmt.Sprintf("| `%d`", code)) || !strings.Contains(help, fmt.Sprintf("%d ", code)) {
			t.Errorf("the exit code %d is not explained", code)
		}
	}
	if !strings.Contains(section, "| `2` and a stack | a panic") || !strings.Contains(help, "Exit code 2 with a stack trace") {
		t.Error("the exit code after a panic is not explained")
	}
}

// TestRunbookCommandsWorkWithTheDefaultGroup checks that the commands work without a setting for the group.
func TestRunbookCommandsWorkWithTheDefaultGroup(t *testing.T) {
	env := settings()
	c, err := config.Load(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, nil)
	if err != nil {
		t.Fatal(err)
	}
	group := c.Kafka.GroupID
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`--group (\S+)`).FindAllStringSubmatch(strings.ReplaceAll(string(text), "`", " "), -1)
	for _, found := range commands {
		if found[1] != "${KAFKA_GROUP_ID:-"+group+"}" {
			t.Errorf("docs/runbook.md has a command with --group %s", found[1])
		}
	}
	if len(commands) < 4 {
		t.Errorf("only %d commands about the group were found", len(commands))
	}
}

// TestRunbookNamesMetricsThatThereAre: it names only metrics of the table, and values that their labels have.
func TestRunbookNamesMetricsThatThereAre(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	named, problems := metrics.CheckText(string(text))
	if named < 20 {
		t.Errorf("only %d metrics are named", named)
	}
	for _, problem := range problems {
		t.Errorf("docs/runbook.md: %s", problem)
	}
}
