package waterwheel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mostWords is the maximum number of words in the glossary.
const mostWords = 10

// TestGlossaryWordsHaveOneHome checks that each word of the glossary in ARCHITECTURE.md is the name of a type in one package
// only, the package that the glossary names. Upper and lower case and spaces do not count.
func TestGlossaryWordsHaveOneHome(t *testing.T) {
	glossary := glossaryOf(t)
	if len(glossary) == 0 || len(glossary) > mostWords {
		t.Errorf("the glossary has %d words, which must be 1 to %d", len(glossary), mostWords)
	}
	homes := typeHomes(t)
	for word, home := range glossary {
		if got := homes[strings.ReplaceAll(word, " ", "")]; len(got) != 1 || got[0] != home {
			t.Errorf("the glossary says that %q is a type of %s, and it is declared in %v", word, home, got)
		}
	}
}

// glossaryOf returns the words of the glossary, and the folder of each.
func glossaryOf(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Glossary\n")
	section, _, _ = strings.Cut(section, "\n## ")
	words := map[string]string{}
	rows := strings.Count(section, "\n| ") - 1 // without the heading
	for _, row := range regexp.MustCompile("(?m)^\\| ([a-z ]+) \\| `([a-z/]+)` \\|").FindAllStringSubmatch(section, -1) {
		words[row[1]] = row[2]
	}
	if len(words) != rows {
		t.Errorf("%d of the %d rows of the glossary name a word and its folder", len(words), rows)
	}
	return words
}

// typeHomes returns the folders that declare a type of each name, in lower case.
func typeHomes(t *testing.T) map[string][]string {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	homes := map[string][]string{}
	for _, p := range listPackages(t) {
		dir, err := filepath.Rel(root, p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, declared := range file.Decls {
				types, ok := declared.(*ast.GenDecl)
				if !ok || types.Tok != token.TYPE {
					continue
				}
				for _, spec := range types.Specs {
					name := strings.ToLower(spec.(*ast.TypeSpec).Name.Name)
					homes[name] = append(homes[name], filepath.ToSlash(dir))
				}
			}
		}
	}
	return homes
}
