package measurement

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPathologicalRecordsAreQuick checks that a pathological record is refused in time linear in its size, with a small factor.
func TestPathologicalRecordsAreQuick(t *testing.T) {
	const size = 10 << 20
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	var manyNames strings.Builder
	manyNames.WriteString(`{"x.y": 1`)
	for i := range size / 20 {
		fmt.Fprintf(&manyNames, `, "name%d": 1`, i)
	}
	tests := []struct {
		name, value string
		want        Reason
	}{
		{"open arrays", repeat("["), TooDeep},
		{"open objects", repeat(`{"a":`), TooDeep},
		{"open arrays in an array", "[{}," + repeat("["), TooDeep},
		{"closed arrays", repeat("[") + repeat("]"), TooDeep},
		{"open string", `{"a":"` + repeat("x"), NotJSON},
		{"zeros", repeat("\x00"), NotJSON},
		{"white space", repeat(" "), Empty},
		{"not UTF-8", `{"a":"` + repeat("\xff") + `"}`, BadUTF8},
		{"digits", `{"a":` + repeat("9") + `}`, BadNumber},
		{"a dotted name", `{"` + repeat("a.") + `a":1}`, TooDeep},
		{"many names, one twice", manyNames.String() + `, "name5": 2}`, DuplicateField},
	}
	d := newDecoder(t, Options{MetaFrom: MetaFromNone, MaxBytes: 64 << 20})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			start := processorTime(t)
			err := refusal(t, d, recordOf(test.value))
			if err.Reason != test.want {
				t.Errorf("%v, want %s", err, test.want)
			}
			if length := len(err.Error()); length > 1024 {
				t.Errorf("the message has %d bytes", length)
			}
			// Quadratic work would take minutes.
			if took := processorTime(t) - start; took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// processorTime returns the processor time of this process. Other programs on the machine do not affect it.
func processorTime(t testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
