package main

import (
	"context"
	"log/slog"
	"time"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// collectionInterval is how often the options of a collection are read again.
const collectionInterval = time.Minute

// collectionPatience is how long the answers of one look may take, together.
const collectionPatience = time.Minute

// collectionWatch follows the options of a collection.
type collectionWatch struct {
	store *sink.Store
	// covers reports whether the server's expiry and view are right for buckets of these options.
	covers func(ctx context.Context, o timeseries.Options) (bool, error)
	apply  func(timeseries.Options)
	// compact lets the segments of now be compacted, since a command asks for it and waits.
	compact func()
	// mend makes a view right that knows nothing of segments where there are some, and reports whether it did.
	mend func(ctx context.Context) (bool, error)
	log  *slog.Logger
}

// run looks for changed options until the context ends, and hands them on: one small read an interval, however many
// partitions there are. Changed ones are followed only when expiry and view cover them, which a change sees to before it
// writes them: an edit by hand does not hide what would be written by it. A failed read is only noted: that MongoDB does not
// answer shows elsewhere, and the options that were will do.
func (c collectionWatch) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, warned := c.store.Options, timeseries.Options{}
	asked, _ := c.store.CompactionAsked(ctx) // else a wish of former times is followed once more
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		look, cancel := context.WithTimeout(ctx, collectionPatience)
		c.mendView(look)
		if at, err := c.store.CompactionAsked(look); err == nil && !at.Equal(asked) { // a wish may lie before another one: MongoDB's clock may step back
			asked = at
			c.compact()
		}
		last, warned = c.follow(look, last, warned)
		cancel()
	}
}

// follow reads the options, of which last are followed and warned were ignored, and returns both as they are then.
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
	case err != nil:
		c.log.Debug("reading the collection's options again", "collection", c.store.Namespace, "err", err)
	case covered:
		c.store.SetCollection(now)
		c.apply(now)
		return now, warned
	case now != warned:
		c.log.Warn("changed options of the collection ignored: its expiry and view do not match them until `waterwheel collection "+
			"set-granularity`, `set-span` or `set-expiry` has set them", "collection", c.store.Namespace)
		return last, now
	}
	return last, warned
}

// mendView looks at the view, which a consumer of a former version may have made as it was before there were segments.
func (c collectionWatch) mendView(ctx context.Context) {
	switch mended, err := c.mend(ctx); {
	case mongodb.LacksRight(err):
		c.log.Warn("the view does not support segments and shows measurements twice; a right to change it is missing", "collection", c.store.Namespace,
			"err", err, "way_out", "grant the role dbAdmin, or start once with MONGODB_VIEW=none")
	case err != nil:
		c.log.Debug("looking whether the view shows segments", "collection", c.store.Namespace, "err", err)
	case mended:
		c.log.Warn("view replaced: it did not support segments and showed measurements twice, as consumers of a former version make it; "+
			"update the other consumers", "collection", c.store.Namespace)
	}
}
