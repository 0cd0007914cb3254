// Package leak fails the tests of a package that leave goroutines of this module behind.
package leak

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	module = "waterwheel/"
	// writeGrace is how long goroutines may take to end after the last test.
	writeGrace = 5 * time.Second
)

// Main is the body of a TestMain. It runs the tests and exits, with an error if goroutines are left.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leftAfter(writeGrace); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "%d goroutines are left after the tests:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// leftAfter waits until only the caller's goroutine runs code of this module, or until the time is over. It returns the stacks of
// the other goroutines that still do.
func leftAfter(patience time.Duration) []string {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if left := others(); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// others returns the stacks of this module's goroutines, except the caller's, which is the first.
func others() []string {
	buffer := make([]byte, 4<<20)
	stacks := strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n")
	return slices.DeleteFunc(stacks[1:], func(stack string) bool {
		return !strings.Contains(stack, "\n"+module) && !strings.Contains(stack, "created by "+module)
	})
}
