package leak

import (
	"strings"
	"testing"
	"time"
)

func wait(end <-chan struct{}) { <-end }

func TestLeftFindsWhatStillRuns(t *testing.T) {
	end := make(chan struct{})
	go wait(end)
	left := leftAfter(20 * time.Millisecond)
	if len(left) != 1 || !strings.Contains(left[0], "leak.wait") {
		t.Errorf("found %q", left)
	}
	close(end)
	if left := leftAfter(writeGrace); len(left) > 0 {
		t.Errorf("found what has ended: %q", left)
	}
}
