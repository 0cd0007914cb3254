package config

import (
	"flag"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

func TestReferenceIsUpToDate(t *testing.T) {
	const path = "../docs/configuration.md"
	if *update {
		if err := os.WriteFile(path, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Markdown() {
		t.Errorf("%s is stale: run make docs", path)
	}
}

func TestDefinitionsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range fields(&Config{}) {
		name := f.name()
		if name == "" || seen[name] || name != strings.ToUpper(name) {
			t.Errorf("%s: its variable %q is empty, twice there or not in capitals", f.structField.Name, name)
		}
		seen[name] = true
		if f.tag("doc") == "" || f.group == "" {
			t.Errorf("%s: no doc tag or title", name)
		}
		longer := name + "S"
		if name == "EVENT_META_FIELD" { // with an S it is another setting
			longer += "S"
		}
		if misspelt, _ := unknown([]string{longer + "=1"}, fields(&Config{})); len(misspelt) != 1 {
			t.Errorf("%s: misspelt variables like it would not be noticed", name)
		}
		for _, tag := range []string{"min", "max"} {
			if text := f.tag(tag); text != "" {
				if _, err := f.parse(text); err != nil {
					t.Errorf("%s: tag %s: %v", name, tag, err)
				}
			}
		}
		if text := f.fallback(); text != "" {
			if message := f.set(text); message != "" {
				t.Errorf("%s: default %s %s", name, text, message)
			}
			if got := f.render(); got != text && got != strings.TrimSuffix(text, "60s")+"1m" {
				t.Errorf("%s: default %q is shown as %q", name, text, got)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "17": 17, "125KiB": 125 << 10, "2 MiB": 2 << 20, "1GiB": 1 << 30, "8388607TiB": 8388607 << 40, "5B": 5,
		"64M": 64 << 20, "64m": 64 << 20, "64MB": 64 << 20, "64Mi": 64 << 20, "64mib": 64 << 20, "2 G": 2 << 30, "1k": 1 << 10, "1T": 1 << 40, "7b": 7,
	} {
		var got, back Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is read as %d, %v, want %d", text, got, err, want)
		}
		if err := back.UnmarshalText([]byte(got.String())); err != nil || back != got {
			t.Errorf("%d is written %q", got, got)
		}
	}
	for _, text := range []string{"", "MiB", "1.5MiB", "-1KiB", "1MBit", "1MiBi", "1 M B", "1X", "M", "1e6", "8388608TiB", "9223372036854775808"} {
		if err := new(Size).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as a size, want an error", text)
		}
	}
}

// FuzzSize checks that a size that is formatted is parsed as the same size.
func FuzzSize(f *testing.F) {
	for _, text := range []string{"64M", "125KiB", "2 g", "7b", "9223372036854775807", "8388607TiB", "1.5M", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var size, again Size
		if size.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(size.String())); err != nil || again != size || size < 0 {
			t.Errorf("%q is %d, written as %s it is %d, %v", text, size, size, again, err)
		}
	})
}

func TestMemoryLimitLeavesRoom(t *testing.T) {
	for available, want := range map[int64]int64{64 << 20: 32 << 20, 128 << 20: 64 << 20, 256 << 20: 192 << 20, 1 << 30: 768 << 20} {
		if got := shareOf(available); got != want {
			t.Errorf("of %d MiB: %d MiB, want %d MiB", available>>20, got>>20, want>>20)
		}
	}
}

func TestMemoryIsTheSmallestLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	meminfo := file("MemTotal:       16384 kB\nMemFree: 1 kB\n")
	cases := map[string]struct {
		root fstest.MapFS
		want int64
	}{
		"nothing known": {fstest.MapFS{}, unknownMemory},
		"machine":       {fstest.MapFS{"proc/meminfo": meminfo}, 16 << 20},
		"cgroup v2 in a container": {fstest.MapFS{
			"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("4194304\n"),
		}, 4 << 20},
		"cgroup v2, limit above": {fstest.MapFS{
			"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a.slice/b.service\n"),
			"sys/fs/cgroup/a.slice/b.service/memory.max": file("max\n"), "sys/fs/cgroup/a.slice/memory.max": file("2097152\n"),
		}, 2 << 20},
		"cgroup v1": {fstest.MapFS{
			"proc/meminfo": meminfo, "proc/self/cgroup": file("5:cpu,memory:/docker/x\n2:cpuset:/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("3145728\n"),
		}, 3 << 20},
		"cgroup v1 without a limit": {fstest.MapFS{
			"proc/meminfo": meminfo, "proc/self/cgroup": file("5:memory:/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
		}, 16 << 20},
	}
	for name, c := range cases {
		if got := availableMemory(c.root); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}
