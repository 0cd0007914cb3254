package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSaysHowFarItIs(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	p := progress{out: &out, name: "it", begin: now}
	for range 30 {
		now = now.Add(time.Second)
		p.packages++
		p.say(now)
	}
	if want := "Go compiles it. The first time this takes minutes, later seconds.\n   2 s  0 modules downloaded, 2 packages compiled\n  12 s  "; !strings.HasPrefix(out.String(), want) {
		t.Errorf("got\n%s", out.String())
	}
	if n := strings.Count(out.String(), "\n"); n != 4 {
		t.Errorf("%d lines within half a minute", n)
	}
}

func TestErrorsOfTheCompilerAreShown(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "m.go": "package main\n\nfunc main() { x() }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := build(t.Context(), &bytes.Buffer{}, "m", dir, "-o", filepath.Join(dir, "m"), ".")
	if err == nil || !strings.Contains(err.Error(), "compiling m") || !strings.Contains(err.Error(), "undefined: x") {
		t.Errorf("got %v", err)
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	if err := run([]string{"keep"}); err == nil || !strings.Contains(err.Error(), "-h explains it") {
		t.Error(err)
	}
}
