package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"waterwheel/e2e/bench/live"
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
	for _, args := range [][]string{{"-curves", "-only", "colour"}, {"-curves", "-scale", "0"}, {"-live", "-case", "10000"}, {"-live", "-case", "0x1"}, {"-live", "-case", "10x-1"}, {"-live", "-case", "10x1,"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	w, err := parse([]string{"-curves", "-only", "series,late", "-scale", "0.5"})
	if err != nil || !w.figures.wanted() || len(w.figures.only) != 2 || w.figures.scale != 0.5 {
		t.Errorf("%+v, %v", w, err)
	}
	w, err = parse([]string{"-live", "-case", "100x20,1000000x0.02"})
	if want := []live.Case{{Series: 100, Rate: 20}, {Series: 1_000_000, Rate: 0.02}}; err != nil || !slices.Equal(w.figures.cases, want) {
		t.Errorf("%+v, %v, not %v", w, err, want)
	}
	if w, err := parse(nil); err != nil || w.figures.wanted() {
		t.Errorf("%+v, %v", w, err)
	}
}
