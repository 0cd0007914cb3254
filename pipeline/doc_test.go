package pipeline_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// row is a line of the table of events in the package's documentation.
type row struct {
	event, function, file string
	actions               []string
}

var (
	rowForm  = regexp.MustCompile(`(?m)^//\t([A-Z]\w+) +(\w+) +(\w+\.go)(?: +([\w, ]+))?$`)
	fileForm = regexp.MustCompile(`(?m)^//\t(\w+\.go) `)
)

// documentedCourse returns the table.
func documentedCourse(t *testing.T) (rows []row) {
	for _, m := range rowForm.FindAllStringSubmatch(documentation(t), -1) {
		r := row{event: m[1], function: m[2], file: m[3]}
		if m[4] != "" {
			r.actions = strings.Split(m[4], ", ")
		}
		rows = append(rows, r)
	}
	return rows
}

func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// declared returns the functions of a file by name. Functions without a unique name are keyed by receiver.
func declared(t *testing.T, file string) map[string]*ast.FuncDecl {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]*ast.FuncDecl{}
	for _, d := range f.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if receiver, ok := receiverOf(f); ok && (name == "event" || name == "action") {
			name += " " + receiver
		}
		functions[name] = f
	}
	return functions
}

func receiverOf(f *ast.FuncDecl) (string, bool) {
	if f.Recv == nil {
		return "", false
	}
	name, ok := f.Recv.List[0].Type.(*ast.Ident)
	if !ok {
		return "", false
	}
	return name.Name, true
}

// handled returns the functions to which Handle passes events, by event.
func handled(t *testing.T) map[string]string {
	t.Helper()
	functions := map[string]string{"Ticked": "advance"}
	ast.Inspect(declared(t, "worker.go")["Handle"], func(n ast.Node) bool {
		c, ok := n.(*ast.CaseClause)
		if !ok {
			return true
		}
		ast.Inspect(c.Body[0], func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && len(c.List) == 1 {
				functions[c.List[0].(*ast.Ident).Name] = call.Sel.Name
				return false
			}
			return true
		})
		return false
	})
	return functions
}

func TestTableOfEventsNamesWhatIsThere(t *testing.T) {
	functions, types := handled(t), declared(t, "event.go")
	actions := map[string]bool{}
	for _, r := range documentedCourse(t) {
		if got := functions[r.event]; got != r.function {
			t.Errorf("%s goes to %q, not to %q", r.event, got, r.function)
		}
		if declared(t, r.file)[r.function] == nil {
			t.Errorf("%s has no function %s", r.file, r.function)
		}
		for _, a := range r.actions {
			actions["action "+a] = true
		}
		delete(functions, r.event)
		delete(types, "event "+r.event)
	}
	for event := range functions {
		t.Errorf("%s has no row", event)
	}
	for name := range types {
		if event, ok := strings.CutPrefix(name, "event "); ok {
			t.Errorf("the event %s has no row", event)
		} else if action := strings.HasPrefix(name, "action "); action && !actions[name] {
			t.Errorf("the %s is in no row", name)
		}
		delete(actions, name)
	}
	if len(actions) > 0 {
		t.Errorf("there are no such actions: %v", slices.Sorted(maps.Keys(actions)))
	}
}

func TestMapNamesEveryFile(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") || name == "doc.go" })
	var listed []string
	for _, m := range fileForm.FindAllStringSubmatch(documentation(t), -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if !slices.Equal(files, listed) {
		t.Errorf("doc.go lists %v, there are %v", listed, files)
	}
}

// followed fails unless each action of the table followed its event in some run. It also fails if an action that is missing in
// the table occurred far more often.
func (y *tally) followed(t *testing.T) {
	t.Helper()
	most := map[string]int{}
	for a, times := range y.answers {
		most[a.event] = max(most[a.event], times)
	}
	for _, r := range documentedCourse(t) {
		listed := 0
		for _, a := range r.actions {
			times := y.answers[answer{r.event, a}]
			if times == 0 {
				t.Errorf("doc.go: %s never followed %s", a, r.event)
			}
			listed = max(listed, times)
		}
		if listed < most[r.event]/2 {
			t.Errorf("doc.go: the row of %s lacks an action that follows it far more often", r.event)
		}
	}
}
