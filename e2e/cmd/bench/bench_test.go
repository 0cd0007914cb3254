package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"waterwheel/e2e/bench"
)

// TestFlagsOverruleScenarios checks that flags override the values of a scenario, and that its other values stay.
func TestFlagsOverruleScenarios(t *testing.T) {
	t.Parallel()
	w, err := parse(strings.Fields("-scenario million -records 5000 -codec zstd -peers waterwheel,discard -set FLUSH_INTERVAL=1s -scenario memory"))
	if err != nil {
		t.Fatal(err)
	}
	l := w.plan.Load
	if l.Series != 1_000_000 || l.Records != 5000 || l.Codec != "zstd" || l.Fields != 5 {
		t.Errorf("the load is %+v", l)
	}
	if w.settings["MEMORY_LIMIT"] != "256MiB" || w.settings["FLUSH_INTERVAL"] != "1s" || len(w.settings) != 2 {
		t.Errorf("the settings are %v", w.settings)
	}
	if !slices.Equal(w.plan.Peers, []bench.Peer{bench.Waterwheel, bench.Discard}) {
		t.Errorf("the peers are %v", w.plan.Peers)
	}
}

// TestExitCodes checks that help is no failure, and that wrong usage and later failures have different codes.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{
		"-help": exitDone, "-unknown": exitUsage, "-scenario none": exitUsage, "-set NAME": exitUsage, "-records 0": exitUsage,
		"-peers ceiling": exitUsage, "-live 10x": exitUsage, "-live 10x1 -ways none": exitUsage, "surplus": exitUsage, "-consumer /does/not/exist -records 1 -patience 20s": exitFailed,
	} {
		if code := run(t.Context(), strings.Fields(args)); code != want {
			t.Errorf("bench %s: code %d, not %d", args, code, want)
		}
	}
}

// TestExitCodeOfErrors checks that missing measurements and a failed run have different codes.
func TestExitCodeOfErrors(t *testing.T) {
	t.Parallel()
	missing := &bench.IncompleteError{Results: []bench.Result{{Peer: bench.Naive, Round: 1, Measurements: 2, Stored: 1}}}
	for want, err := range map[int]error{exitDone: nil, exitFound: errors.Join(missing, nil), exitFailed: errors.New("no servers")} {
		if code := exitCode(err); code != want {
			t.Errorf("%v: code %d, not %d", err, code, want)
		}
	}
}
