package connect

import (
	"context"
	"errors"
	"log/slog"

	"waterwheel/config"
)

// MakeMetaIndexes makes the indexes of META_INDEXES that are missing, and tells each that it has made. One that cannot be made stops
// no other. Building one of a large collection takes long, which only what waits for it notices.
func (n *Connections) MakeMetaIndexes(ctx context.Context, c config.Config, log *slog.Logger, made func(series, path, index string)) error {
	var failed []error
	for _, series := range SeriesOf(c, nil) {
		missing, err := n.Database.MissingMetaIndexes(ctx, series, c.MongoDB.MetaIndexes)
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
		for _, path := range missing {
			log.Debug("making an index for META_INDEXES", "collection", series, "on", path)
			index, is, err := n.Database.CreateMetaIndex(ctx, series, path)
			if is {
				made(series, path, index.Name)
			}
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
