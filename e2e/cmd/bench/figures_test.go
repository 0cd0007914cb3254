package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplaceSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# A\n\n<!-- curves -->\nold\n<!-- end of curves -->\n\nrest\n")
	if err := replaceSection(path, "curves", "new\n\nlines\n\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if want := "# A\n\n<!-- curves -->\nnew\n\nlines\n<!-- end of curves -->\n\nrest\n"; err != nil || string(got) != want {
		t.Errorf("%q, not %q (%v)", got, want, err)
	}
	write("# A\n\n<!-- curves -->\nold\n")
	if err := replaceSection(path, "curves", "new"); err == nil {
		t.Error("a section without end was replaced")
	}
}

func TestFiguresOfTheCommandLine(t *testing.T) {
	for _, args := range [][]string{{"-curves", "-only", "colour"}, {"-curves", "-scale", "0"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	w, err := parse([]string{"-curves", "-only", "series,late", "-scale", "0.5"})
	if err != nil || !w.figures.wanted() || len(w.figures.only) != 2 || w.figures.scale != 0.5 {
		t.Errorf("%+v, %v", w, err)
	}
	if w, err := parse(nil); err != nil || w.figures.wanted() {
		t.Errorf("%+v, %v", w, err)
	}
}
