package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratedFilesAreUpToDate: what is checked in is what the tables say.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	const root = "../.."
	files, err := generated(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		written, err := os.ReadFile(filepath.Join(root, f.name))
		if err != nil || string(written) != f.content {
			t.Errorf("%s is not what it is made from (%v): run make docs", f.name, err)
		}
	}
	if len(files) < 5 {
		t.Errorf("only %d files", len(files))
	}
}
