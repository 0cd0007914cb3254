package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// paced returns a progress whose clock advances by one second at each call.
func paced(out *bytes.Buffer, terminal bool) *progress {
	now := time.Unix(1_700_000_000, 0)
	return &progress{out: out, name: "it", terminal: terminal, begin: now, now: func() time.Time { now = now.Add(time.Second); return now }}
}

func TestSaysHowFarItIs(t *testing.T) {
	var out bytes.Buffer
	p := paced(&out, false)
	p.packages = 90
	for i := range 30 {
		if !p.downloads("go: downloading example.com/m v1.2.3") || !p.compiles("example.com/m/p") {
			t.Fatalf("line %d is not known", i)
		}
	}
	p.end()
	want := `Go compiles it. The first time this takes minutes, later seconds.
   2 s  compiling it: 1 of at most 90 packages (example.com/m/p)
`
	if !strings.HasPrefix(out.String(), want) || !strings.HasSuffix(out.String(), "it: 30 modules downloaded, 30 packages compiled\n") {
		t.Errorf("got\n%s", out.String())
	}
	if n := strings.Count(out.String(), "\n"); n > 9 {
		t.Errorf("%d lines within a minute", n)
	}
}

// TestSaysNothingOfAQuickBuild covers a build in which almost everything is compiled already.
func TestSaysNothingOfAQuickBuild(t *testing.T) {
	var out bytes.Buffer
	p := paced(&out, true)
	p.compiles("example.com/p")
	p.end()
	if out.Len() > 0 {
		t.Errorf("got %q", out.String())
	}
}

func TestErrorsOfTheCompilerAreShown(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "m.go": "package main\n\nfunc main() { x() }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := build{name: "m", dir: dir, pkg: ".", to: filepath.Join(dir, "m")}
	err := b.run(t.Context(), paced(&bytes.Buffer{}, false))
	if err == nil || !strings.Contains(err.Error(), "compiling m") || !strings.Contains(err.Error(), "undefined: x") {
		t.Errorf("got %v", err)
	}
}
