package pipeline_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// row is a line of the table of events in the package's documentation.
type row struct {
	event, file string
	actions     []string
}

var (
	rowForm  = regexp.MustCompile(`(?m)^//\t([A-Z]\w+) +(\w+\.go)(?: +([\w, ]+))?$`)
	fileForm = regexp.MustCompile(`(?m)^//\t(\w+\.go) `)
)

// documentedCourse returns the table.
func documentedCourse(t *testing.T) (rows []row) {
	for _, m := range rowForm.FindAllStringSubmatch(documentation(t), -1) {
		r := row{event: m[1], file: m[2]}
		if m[3] != "" {
			r.actions = strings.Split(m[3], ", ")
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

// withMethod returns the types of the package that declare a method, with the file of each.
func withMethod(t *testing.T, method string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, file := range sources(t) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == method {
				if receiver, ok := f.Recv.List[0].Type.(*ast.Ident); ok {
					found[receiver.Name] = file
				}
			}
		}
	}
	return found
}

func TestTableOfEventsNamesWhatIsThere(t *testing.T) {
	events, actions := withMethod(t, "handle"), withMethod(t, "perform")
	delete(actions, "forRunner")
	for _, a := range []string{"Open", "CommitNow", "HandedOver"} { // by forRunner
		actions[a] = "action.go"
	}
	followed := map[string]bool{}
	for _, r := range documentedCourse(t) {
		if events[r.event] != r.file {
			t.Errorf("%s is handled in %q, not in %s", r.event, events[r.event], r.file)
		}
		delete(events, r.event)
		for _, a := range r.actions {
			followed[a] = true
			if actions[a] == "" {
				t.Errorf("there is no action %s", a)
			}
		}
	}
	for event := range events {
		t.Errorf("the event %s has no row", event)
	}
	for action := range actions {
		if !followed[action] {
			t.Errorf("the action %s is in no row", action)
		}
	}
}

// sources lists the files of the package.
func sources(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") || name == "doc.go" })
}

func TestMapNamesEveryFile(t *testing.T) {
	var listed []string
	for _, m := range fileForm.FindAllStringSubmatch(documentation(t), -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if !slices.Equal(sources(t), listed) {
		t.Errorf("doc.go lists %v, there are %v", listed, sources(t))
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
