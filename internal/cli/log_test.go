package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/pipeline"
)

func TestRepeatedErrorsAreHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := newLogger(&out, "info", "text", false)
		for i := range 25 {
			log.Error("fetching", "topic", "a", "partition", 1, "err", fmt.Errorf("connection %d", i))
			log.With("topic", "b").Warn("fetching", "err", errors.New("x"))
			log.Info("progress")
			time.Sleep(time.Second)
		}
		counts := map[string]int{}
		for line := range strings.Lines(out.String()) {
			for _, part := range []string{"topic=a", "topic=b", "progress", "repeated=9"} {
				if strings.Contains(line, part) {
					counts[part]++
				}
			}
		}
		want := map[string]int{"topic=a": 3, "topic=b": 3, "progress": 25, "repeated=9": 4}
		for part, n := range want {
			if counts[part] != n {
				t.Errorf("%q on %d lines, want %d:\n%s", part, counts[part], n, out.String())
			}
		}
	})
}

func TestRememberedLinesAreBounded(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&out, "info", "json", false)
	for i := range 3 * maxRemembered {
		log.Warn("partition trouble", "partition", i)
	}
	if n := strings.Count(out.String(), "\n"); n != 3*maxRemembered {
		t.Errorf("%d lines for %d different warnings", n, 3*maxRemembered)
	}
	if n := len(log.Handler().(*limiter).seen.lines); n > maxRemembered {
		t.Errorf("%d lines are remembered, at most %d may be", n, maxRemembered)
	}
}

// TestLinesAreInWordsInEveryFormat checks that durations are not printed in nanoseconds, and named values not as numbers.
func TestLinesAreInWordsInEveryFormat(t *testing.T) {
	for format, want := range map[string]string{
		"text": `wait=30s of=kafka err=x bytes=3`, "json": `"wait":"30s","of":"kafka","err":"x","bytes":3`,
	} {
		var out bytes.Buffer
		newLogger(&out, "info", format, false).With("wait", 30*time.Second).
			Info("x", "of", pipeline.Kafka, "err", errors.New("x"), "bytes", 3)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s, want %s", format, out.String(), want)
		}
	}
}

func TestFormatFollowsTheReader(t *testing.T) {
	for _, c := range []struct {
		format     string
		onTerminal bool
		json       bool
	}{{"", true, false}, {"", false, true}, {"json", true, true}, {"text", false, false}} {
		var out bytes.Buffer
		newLogger(&out, "debug", c.format, c.onTerminal).Debug("x")
		if got := strings.HasPrefix(out.String(), "{"); got != c.json {
			t.Errorf("format %q, terminal %v: %q", c.format, c.onTerminal, out.String())
		}
	}
	var out bytes.Buffer
	newLogger(&out, "warn", "", true).Info("x")
	if out.Len() > 0 {
		t.Errorf("a line under the level was written: %s", out.String())
	}
}
