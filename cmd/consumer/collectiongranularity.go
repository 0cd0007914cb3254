package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"waterwheel/timeseries"
)

func (p *program) setGranularityCommand() *cobra.Command {
	return p.onCollections(&cobra.Command{
		Use:   "set-granularity seconds|minutes|hours",
		Short: "Let new buckets span a longer time",
		Long: "Changes the granularity of collections, as collMod does for MongoDB's own time series: only to a coarser one, which no\n" +
			"stored bucket contradicts. Stored buckets stay as they are; the view of the measurements and the expiry are adjusted.\n" +
			"Running consumers notice it by themselves; set MONGODB_GRANULARITY for the next start, which is refused otherwise.",
		Example:   "  consumer collection set-granularity minutes",
		ValidArgs: []string{string(timeseries.Seconds), string(timeseries.Minutes), string(timeseries.Hours)},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(cmd.ValidArgs, args[0]) {
				return usageError{fmt.Errorf("%q takes one argument, seconds, minutes or hours; not %q", cmd.CommandPath(), args)}
			}
			return nil
		},
	}, func(ctx context.Context, with collections, args []string) error {
		changes, err := setGranularity(ctx, with.database, with.series, timeseries.Granularity(args[0]))
		return errors.Join(p.show(changes, changes.print), err)
	})
}

// granularities is where the bucketing of time series is changed; *sink.Database is one.
type granularities interface {
	// SetGranularity changes a time series and returns its definitions before and after; the same when nothing changed.
	SetGranularity(ctx context.Context, series string, g timeseries.Granularity) (before, after timeseries.Options, err error)
}

// setGranularity changes one time series after the other; the first error ends it.
func setGranularity(ctx context.Context, database granularities, series []string, g timeseries.Granularity) (granularityChanges, error) {
	changes := granularityChanges{}
	for _, name := range series {
		before, after, err := database.SetGranularity(ctx, name, g)
		if err != nil {
			return changes, fmt.Errorf("changing %s: %w", name, err)
		}
		changes = append(changes, GranularityChange{
			Series: name, Before: bucketingView(before), After: bucketingView(after), Changed: before != after,
		})
	}
	return changes, nil
}

// GranularityChange is what set-granularity did to a time series.
type GranularityChange struct {
	Series  string        `json:"collection"`
	Before  BucketingView `json:"before"`
	After   BucketingView `json:"after"`
	Changed bool          `json:"changed"`
}

type granularityChanges []GranularityChange

func (c granularityChanges) print(w io.Writer) {
	for _, one := range c {
		if one.Changed {
			fmt.Fprintf(w, "%s: %s instead of %s. Set MONGODB_GRANULARITY=%s before its consumers start again.\n",
				one.Series, one.After, one.Before, one.After.Granularity)
		} else {
			fmt.Fprintf(w, "%s: %s already. Nothing was changed.\n", one.Series, one.After)
		}
	}
}
