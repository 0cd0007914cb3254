package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// collectionInterval is how often the options of a collection are read again.
const collectionInterval = time.Minute

// collectionPatience is the total time that the answers of one check may take.
const collectionPatience = time.Minute

// collectionWatch follows changes of the options of a collection.
type collectionWatch struct {
	store *sink.Store
	// covers reports whether the server's expiry and view are right for buckets with these options.
	covers func(ctx context.Context, o timeseries.Options) (bool, error)
	apply  func(timeseries.Options)
	// compact starts the compaction of all present segments. A command requests it and waits for it.
	compact func()
	// mend replaces a view that does not support segments although there are some. It reports whether it did.
	mend func(ctx context.Context) (bool, error)
	// missing is called when the collection is no longer set up.
	missing func(ctx context.Context)
	log     *slog.Logger
}

// run looks for changed options until the context ends, and applies them. It needs one small read per interval, whatever the
// number of partitions. It applies changed options only if expiry and view cover them. A command makes sure of that before it
// writes the options. So an edit by hand does not hide measurements that are then written. A failed read is only logged, because
// an outage of MongoDB is reported elsewhere, and the old options are still good. If the collection has lost its content, the
// process ends.
func (c collectionWatch) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, warned := c.store.Options, timeseries.Options{}
	asked, _ := c.store.CompactionAsked(ctx) // so that an old request is not followed again
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		look, cancel := context.WithTimeout(ctx, collectionPatience)
		c.mendView(look)
		if at, err := c.store.CompactionAsked(look); err == nil && !at.Equal(asked) { // compared by equality, because MongoDB's clock may step back
			asked = at
			c.compact()
		}
		last, warned = c.follow(look, last, warned)
		cancel()
	}
}

// follow reads the options. It returns the options that are now applied, and those that are now ignored. last and warned are the
// old ones.
func (c collectionWatch) follow(ctx context.Context, last, warned timeseries.Options) (timeseries.Options, timeseries.Options) {
	definition, err := collection.ReadDefinition(ctx, c.store.Ports.Options)
	now := definition.Options
	if err == nil && now == last {
		return last, warned
	}
	covered := false
	if err == nil {
		covered, err = c.covers(ctx, now)
	}
	switch {
	case errors.Is(err, collection.ErrNotSetUp):
		c.missing(ctx)
	case err != nil:
		c.log.Debug("cannot read the collection's options again", "collection", c.store.Namespace, "err", err)
	case covered:
		c.store.SetCollection(now)
		c.apply(now)
		return now, warned
	case now != warned:
		c.log.Warn("changed options of the collection ignored, because the expiry or the view of the collection does not match them: change options only with "+
			"`waterwheel collection set-granularity`, `set-span` or `set-expiry`", "collection", c.store.Namespace)
		return last, now
	}
	return last, warned
}

// mendView checks the view. A consumer of a former version may have replaced it by a view without support for segments.
func (c collectionWatch) mendView(ctx context.Context) {
	switch mended, err := c.mend(ctx); {
	case mongodb.LacksRight(err):
		c.log.Warn("the view does not support segments and shows measurements twice, and this user may not change the view", "collection", c.store.Namespace,
			"err", err, "way_out", "grant the role dbAdmin, or start once with MONGODB_VIEW=none")
	case err != nil:
		c.log.Debug("cannot check whether the view shows segments", "collection", c.store.Namespace, "err", err)
	case mended:
		c.log.Warn("view replaced: a consumer of an older version had created it without support for segments, so it showed measurements twice; "+
			"update the other consumers", "collection", c.store.Namespace)
	}
}
