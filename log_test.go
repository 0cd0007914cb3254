package waterwheel_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// numbers lists the attributes of log lines that may be numbers. Each is an offset, a count of the things in its name, or has its
// unit in its name.
var numbers = []string{
	"partition", "partitions", "offset", "from", "records", "positions", "log_start", "log_end", "lag", "lag_unknown", "stored",
	"stored_in_all", "recognised", "measurements", "segments", "next_bytes", "recognised_in_all", "dead_letters", "dead_letters_in_all", "rows", "series", "max", "open_buckets", "generation", "times", "repeated", "span_seconds",
}

var attributeName = regexp.MustCompile(`^[a-z][a-z_]*$`)

// TestLogLinesAreForPeople checks every call of the logger. Names must be constant. A value must be a word, a duration, an error,
// a type with a method String, or a number listed in numbers.
func TestLogLinesAreForPeople(t *testing.T) {
	calls := 0
	for _, p := range checkedPackages(t) {
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if first := firstAttribute(p.info, call); ok && first >= 0 && !call.Ellipsis.IsValid() {
					calls++
					p.wantForPeople(t, call.Args[first:])
				}
				if list, ok := n.(*ast.CompositeLit); ok && isList(p.info, list) { // attributes that are collected for a later line
					p.wantForPeople(t, list.Elts)
				}
				return true
			})
		}
	}
	if calls < 30 {
		t.Errorf("only %d calls of a logger were found", calls)
	}
}

// checkedPackage is a package with its types.
type checkedPackage struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
}

func (p *checkedPackage) wantForPeople(t *testing.T, attributes []ast.Expr) {
	t.Helper()
	for i := 0; i+1 < len(attributes); i += 2 {
		at := p.fset.Position(attributes[i].Pos())
		name := p.info.Types[attributes[i]].Value
		if name == nil || name.Kind() != constant.String || !attributeName.MatchString(constant.StringVal(name)) {
			t.Errorf("%v: the name of an attribute is a constant in small letters", at)
			continue
		}
		typ := p.info.TypeOf(attributes[i+1])
		if !forPeople(typ) && !(isNumber(typ) && slices.Contains(numbers, constant.StringVal(name))) {
			t.Errorf("%v: %v is a %v: log a word, a duration, or a number that is in the list with its unit", at, name, typ)
		}
	}
}

// forPeople reports whether the logger writes values of this type in words.
func forPeople(typ types.Type) bool {
	if basic, ok := typ.Underlying().(*types.Basic); ok && basic.Info()&(types.IsString|types.IsBoolean) != 0 {
		return true
	}
	for _, method := range []string{"String", "Error"} {
		if object, _, _ := types.LookupFieldOrMethod(typ, true, nil, method); object != nil {
			return true
		}
	}
	return false
}

func isNumber(typ types.Type) bool {
	basic, ok := typ.(*types.Basic)
	return ok && basic.Info()&types.IsInteger != 0
}

func isList(info *types.Info, list *ast.CompositeLit) bool {
	typ := info.TypeOf(list)
	return typ != nil && typ.String() == "[]any" && len(list.Elts)%2 == 0 && len(list.Elts) > 0 &&
		slices.IndexFunc(list.Elts, func(e ast.Expr) bool { v := info.Types[e].Value; return v != nil && v.Kind() == constant.String }) == 0
}

// firstAttribute returns the index of a call's first attribute. -1 means that the call is no call of a logger.
func firstAttribute(info *types.Info, call *ast.CallExpr) int {
	if call == nil {
		return -1
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || info.TypeOf(method.X) == nil || info.TypeOf(method.X).String() != "*log/slog.Logger" {
		return -1
	}
	switch method.Sel.Name {
	case "Debug", "Info", "Warn", "Error":
		return 1
	case "With":
		return 0
	case "Log", "LogAttrs", "DebugContext", "InfoContext", "WarnContext", "ErrorContext":
		return len(call.Args) // not used so far. A first use must add the index of its attributes here.
	}
	return -1
}

// checkedPackages type-checks the module's packages without their tests. It reads imported packages from the compiler's export
// data.
func checkedPackages(t *testing.T) []*checkedPackage {
	t.Helper()
	exports := map[string]string{}
	var ours []goPackage
	command := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export", "./...")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			goPackage
			Export string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if _, is := folder(p.ImportPath); is {
			ours = append(ours, p.goPackage)
		}
	}
	fset := token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var checked []*checkedPackage
	for _, p := range ours {
		c := &checkedPackage{fset: fset, info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			c.files = append(c.files, file)
		}
		c.info.Uses, c.info.Defs = map[*ast.Ident]types.Object{}, map[*ast.Ident]types.Object{}
		if _, err := (&types.Config{Importer: compiled}).Check(p.ImportPath, fset, c.files, c.info); err != nil {
			t.Fatal(err)
		}
		checked = append(checked, c)
	}
	return checked
}
