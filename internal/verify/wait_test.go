package verify_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/verify"
)

// TestRepairWaitsForWritesOnTheirWay checks that a repair waits once, for the longest time that an owner states.
func TestRepairWaitsForWritesOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fill(10)
		w.claims = []claim.Document{{Wait: 3 * time.Second}, {Wait: time.Hour, Released: true}}
		for grace, want := range map[time.Duration]time.Duration{time.Second: 3 * time.Second, 5 * time.Second: 5 * time.Second} {
			waited := int64(-1)
			v, err := verify.New(verify.Options{
				Collection: w.options, Decoder: w.decoder, Log: w, Buckets: w, Claims: w, Letters: &w.letters, Repair: verify.Repair, Grace: grace,
				Progress: func(at verify.Progress) {
					if at.Seconds {
						waited = at.Offset
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			for range 2 {
				if _, err := v.Partition(t.Context(), verify.Range{Source: w.source, From: 100, To: 110}); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begin); took != want || waited != int64(want.Seconds())-1 {
				t.Errorf("with %v of its own it waited for %v, told of %d s", grace, took, waited)
			}
		}
		begin := time.Now()
		if w.verify(); time.Since(begin) != 0 {
			t.Error("it waited though nothing is repaired")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		v, err := verify.New(verify.Options{Decoder: w.decoder, Log: w, Buckets: w, Claims: w, Repair: verify.Repair})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Partition(ctx, verify.Range{Source: w.source, From: 100, To: 110}); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
	})
}
