package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"waterwheel/dlq"
)

// Reading ends with an error where the log ends before the offset that it is read up to.
func TestReadingATruncatedTopicEnds(t *testing.T) {
	r := newRedriving(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := r.log.Read(ctx, r.topic, 1, 0, 5, func(*dlq.Record) error { return nil })
	if err == nil || !strings.Contains(err.Error(), r.topic+"/1 gives out nothing at offset 0, though it reached to 5") {
		t.Errorf("error %v, want one that says that the log ends before", err)
	}
}

// A few fetches that bring nothing are none: a broker may be late.
func TestMovementEndsWhenNothingComes(t *testing.T) {
	var m movement
	for range 3 {
		for i := range scanTries - 1 {
			if err := m.check(7, 7, 9); err != nil {
				t.Fatalf("after %d idle fetches: %v", i+1, err)
			}
		}
		if err := m.check(7, 8, 9); err != nil {
			t.Fatalf("after a fetch that brought something: %v", err)
		}
	}
	for range scanTries - 1 {
		_ = m.check(8, 8, 9)
	}
	if m.check(8, 8, 9) == nil {
		t.Error("reading goes on for ever")
	}
}
