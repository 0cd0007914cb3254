package main

import (
	"context"
	"log/slog"
	"time"

	"waterwheel/sink"
	"waterwheel/timeseries"
)

// collectionInterval is how often the options of a collection are read again.
const collectionInterval = time.Minute

// watchCollection looks for changed options of a collection until the context ends, and hands them on: one small read an
// interval, however many partitions there are. A failed read is only noted: that MongoDB does not answer shows elsewhere,
// and the options that were will do.
func watchCollection(ctx context.Context, every time.Duration, store *sink.Store, apply func(timeseries.Options), log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := store.Collection; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now, _, err := store.Definition(ctx)
		switch {
		case err != nil:
			log.Debug("reading the collection's options again", "collection", store.Namespace, "err", err)
		case now != last:
			last = now
			store.SetCollection(now)
			apply(now)
		}
	}
}
