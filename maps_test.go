package waterwheel_test

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

// smallRoom is the maximum number of files, besides doc.go, of a package that needs no map of its files.
const smallRoom = 2

// TestMapsNameTheirFiles checks that the documentation of a package names all of its files, and no others.
func TestMapsNameTheirFiles(t *testing.T) {
	named := regexp.MustCompile(`[a-z0-9_*]+\.go\b`)
	for _, p := range listPackages(t) {
		files := slices.DeleteFunc(goFiles(t, p.Dir), func(name string) bool { return name == "doc.go" })
		text, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
		if err != nil && len(files) > smallRoom {
			t.Errorf("%s has no doc.go", p.ImportPath)
		}
		if err != nil || len(files) <= smallRoom {
			continue
		}
		onMap := named.FindAllString(string(text), -1)
		for _, name := range files {
			if !slices.ContainsFunc(onMap, func(pattern string) bool { return matches(pattern, name) }) {
				t.Errorf("the map in %s/doc.go lacks %s", p.ImportPath, name)
			}
		}
		for _, pattern := range onMap {
			if !slices.ContainsFunc(files, func(name string) bool { return matches(pattern, name) }) {
				t.Errorf("the map in %s/doc.go has %s, which is no file of the package", p.ImportPath, pattern)
			}
		}
	}
}

// matches reports whether a name on a map, such as clock_*.go, matches a file.
func matches(pattern, name string) bool {
	is, err := filepath.Match(pattern, name)
	return is && err == nil
}

// goFiles lists a folder's source files for all systems, without tests.
func goFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			names = append(names, name)
		}
	}
	return names
}

// TestArchitectureNamesWhatIsThere checks that each path in ARCHITECTURE.md exists.
func TestArchitectureNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	paths := regexp.MustCompile("`([a-z][a-z0-9_/]*(?:/|\\.go))`").FindAllStringSubmatch(string(text), -1)
	if len(paths) < 20 {
		t.Fatalf("only %d paths were found", len(paths))
	}
	for _, path := range paths {
		if _, err := os.Stat(path[1]); err != nil {
			t.Errorf("ARCHITECTURE.md names %s: %v", path[1], err)
		}
	}
}

// TestPackagesWithGoroutinesLookForLeaks checks that the tests of a package that starts goroutines end with leak.Main.
func TestPackagesWithGoroutinesLookForLeaks(t *testing.T) {
	looked := 0
	for _, p := range listPackages(t) {
		if !startsGoroutines(t, p) {
			continue
		}
		looked++
		tests, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(tests, func(name string) bool {
			text, err := os.ReadFile(name)
			return err == nil && strings.Contains(string(text), "leak.Main(")
		}) {
			t.Errorf("%s starts goroutines, and no test of it calls leak.Main", p.ImportPath)
		}
	}
	if looked < 5 {
		t.Errorf("only %d packages start goroutines?", looked)
	}
}

// startsGoroutines reports whether a package has go statements, or calls of a method Go, such as that of sync.WaitGroup or
// errgroup.Group.
func startsGoroutines(t *testing.T, p goPackage) (starts bool) {
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				starts = true
			case *ast.SelectorExpr:
				starts = starts || n.Sel.Name == "Go"
			}
			return !starts
		})
	}
	return starts
}
