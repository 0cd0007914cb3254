package chaos

import (
	"context"
	"strings"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

const (
	// pollRollups is the pause between two looks at the watermarks.
	pollRollups = time.Second
	// editedWithin is how long the rows of an edited series may stay wrong after the edit. It may have edited buckets that queries
	// see only after COMPACT_VISIBILITY_DELAY.
	editedWithin = 6 * time.Minute
)

// awaitRollups waits until the rows of rollups have all records, and then until the rows of edited series are right.
func (r *run) awaitRollups(ctx context.Context) {
	for {
		behind, err := check.BehindRollups(ctx, r.source())
		if err == nil && behind == "" {
			break
		}
		if sleep(ctx, pollRollups); ctx.Err() != nil {
			r.fault("the rollups are not complete: %s (%v)", behind, err)
			return
		}
		r.watch()
	}
	for begun := time.Now(); time.Since(begun) < editedWithin && ctx.Err() == nil; sleep(ctx, pollRollups) {
		if _, difference, err := check.Rollups(ctx, r.source()); err == nil && difference == "" {
			return // judgeRollups reports what is still wrong
		}
		r.watch()
	}
}

// judgeRollups compares the rows of rollups with the records, and has the consumer's own command verify them.
func (r *run) judgeRollups(ctx context.Context) error {
	if !r.options.hasRollups() {
		return nil
	}
	rows, difference, err := check.Rollups(ctx, r.source())
	if err != nil {
		return err
	}
	r.result.Rows = rows
	if difference != "" {
		r.fault("a row of rollups differs from the records: %s", difference)
	}
	verify, err := harness.Start(r.options.Binary, r.settings, append(r.options.Args, "rollup", "verify")...)
	if err != nil {
		return err
	}
	defer verify.Kill()
	if code, err := verify.Wait(ctx); err != nil || code != 0 {
		r.fault("rollup verify ended with code %d (%v): %s", code, err, strings.TrimSpace(verify.Log()))
	}
	return nil
}
