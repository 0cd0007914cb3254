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
