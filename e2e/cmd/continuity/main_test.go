package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	o, err := parse(strings.Fields("-only join,leave -rate 500 -set KAFKA_LEASE=5s -set FLUSH_INTERVAL=1s -before 20s -partitions 6"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.Scenarios, []string{"join", "leave"}) || o.Rate != 500 || o.Partitions != 6 || o.Before != 20*time.Second {
		t.Errorf("%+v", o)
	}
	if o.Settings["KAFKA_LEASE"] != "5s" || o.Settings["FLUSH_INTERVAL"] != "1s" || len(o.Settings) != 2 {
		t.Errorf("the settings are %v", o.Settings)
	}
}

// TestExitCodes checks that help is no failure, and that wrong usage and later failures have different codes.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{
		"-help": exitDone, "-unknown": exitUsage, "-only none": exitUsage, "-set NAME": exitUsage, "-rate 0": exitUsage, "surplus": exitUsage,
		"-consumer /does/not/exist -patience 20s": exitFailed,
	} {
		if code := run(t.Context(), strings.Fields(args)); code != want {
			t.Errorf("continuity %s: code %d, not %d", args, code, want)
		}
	}
}
