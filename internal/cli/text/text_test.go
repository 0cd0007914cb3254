package text

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestSizesForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 30: "3.0 GiB", 1 << 62: "4194304.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

// TestOnlyATerminalCutsTexts: what a program reads, or a file keeps, is whole.
func TestOnlyATerminalCutsTexts(t *testing.T) {
	var pipe bytes.Buffer
	for _, test := range []struct {
		w    io.Writer
		want string
	}{
		{&Output{Writer: &pipe, Terminal: true}, "aé…"}, {&Output{Writer: &pipe}, "aéiou"}, {&pipe, "aéiou"},
	} {
		if got := Fit(test.w, "aéiou", 3); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// TestTableIsHarmlessForATerminal: whatever its cells come from.
func TestTableIsHarmlessForATerminal(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, "NAME", "SINCE", "N")
	table.Row("\x1b[1mred", time.UnixMilli(1), 7)
	table.Row("a\tb", time.Time{}, int64(12))
	table.Flush()
	const want = "NAME        SINCE                     N\n" + `\x1b[1mred  1970-01-01T00:00:00.001Z  7` + "\n" + `a\x09b      –                         12` + "\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestChartHasTheLargestCountsFirst(t *testing.T) {
	var out bytes.Buffer
	Chart(&out, "REASON", "LETTERS", map[string]int64{"a": 1, "b": 400, "c": 200})
	want := "REASON  LETTERS  \nb       400      " + strings.Repeat("█", 40) + "\nc       200      " + strings.Repeat("█", 20) + "\na       1        ·\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestJSONHasOnePolicy: indented or a line, < and & are as they are.
func TestJSONHasOnePolicy(t *testing.T) {
	var out bytes.Buffer
	value := map[string]string{"a": "<&>"}
	if err := errors.Join(WriteJSON(&out, value), WriteJSONLine(&out, value)); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"a\": \"<&>\"\n}\n{\"a\":\"<&>\"}\n"; out.String() != want {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}

// fullDisk takes some bytes.
type fullDisk struct{ room int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.room -= len(p); d.room < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

// TestOutputKeepsTheFirstError: also one that a table met.
func TestOutputKeepsTheFirstError(t *testing.T) {
	disk := &fullDisk{room: 10}
	out := &Output{Writer: disk}
	table := NewTable(out, "NAME")
	table.Row("a long name")
	table.Flush()
	left := disk.room
	if _, err := out.Write([]byte("x")); err == nil || out.Err == nil || disk.room != left {
		t.Errorf("the error is %v, then %v; written on: %v", out.Err, err, disk.room != left)
	}
}

func TestProgressIsForATerminal(t *testing.T) {
	line := NewProgress(nil, "letters")
	line.At(1, 2) // nobody looks
	line.End()
	for want, c := range map[string]struct{ done, total int64 }{
		"letters: 10, 5/s":                       {10, 0},
		"letters: 10 of 40 (25 %), 5/s, 6s left": {10, 40},
		"letters: 40 of 40 (100 %), 20/s":        {40, 40},
	} {
		if got := progressText("letters", c.done, c.total, 2*time.Second); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
