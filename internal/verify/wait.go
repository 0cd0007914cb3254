package verify

import (
	"context"
	"fmt"
	"time"

	"waterwheel/internal/claim"
)

// wait waits before a repair until no more writes of buckets below the committed offsets can arrive. A late write would bring
// back a removed copy.
func (v *Verifier) wait(ctx context.Context, r Range) error {
	if v.o.Repair != Repair || v.waited {
		return nil
	}
	claims, err := v.o.Claims.Claims(ctx)
	if err != nil {
		return fmt.Errorf("reading the claims before a repair: %w", err)
	}
	grace := claim.Pending(v.o.Grace, claims)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < grace; {
		if v.o.Progress != nil {
			v.o.Progress(Progress{
				Partition: r.Source.Partition, Doing: "waiting until pending writes can no longer arrive", Seconds: true,
				Offset: int64(time.Since(begin).Seconds()), To: int64(grace.Seconds()),
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	v.waited = true
	return nil
}
