package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/internal/collection"
	"waterwheel/internal/connect"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

func (p *Program) collectionCommand() *cobra.Command {
	return family("collection", "Show and change the collections of measurements",
		"MongoDB stores a time series as its buckets, the claims of the consumers that write them, and its options. These\n"+
			"commands work on the time series of KAFKA_TOPICS. Consumers may keep running.",
		p.collectionShowCommand(), p.onOptions(setGranularityCommand()), p.onOptions(setSpanCommand()), p.onOptions(setExpiryCommand()),
		p.expireCommand(), p.takeoverCommand(), p.shardCommand(),
		p.indexesCommand(), p.createIndexCommand(), p.dropIndexCommand(), p.hideIndexCommand(true), p.hideIndexCommand(false),
		p.updateMetaCommand(), p.deleteMetaCommand())
}

// onCollections makes cmd work on the time series that its flags select.
func (p *Program) onCollections(cmd *cobra.Command, work func(ctx context.Context, with collections, args []string) error) *cobra.Command {
	var topics []string
	cmd.Flags().StringSliceVar(&topics, "topic", nil, "only the time series of these topics of KAFKA_TOPICS, comma-separated")
	p.outputFlag(cmd, "table")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, log, err := p.commandSettings(cmd.Context(), "warn")
		if err != nil {
			return err
		}
		if err := knownTopics(c, topics...); err != nil {
			return err
		}
		database, err := mongodb.Open(cmd.Context(), connect.DatabaseOptions(c, log))
		if err != nil {
			return err
		}
		defer connect.CloseDatabase(database)
		return work(cmd.Context(), collections{config: c, log: log, database: database, series: connect.SeriesOf(c, topics)}, args)
	}
	return cmd
}

// collections are time series, with the settings and the database.
type collections struct {
	config   config.Config
	log      *slog.Logger
	database *mongodb.Database
	series   []string
}

// timeSeries is one time series: its set-up, and its contents.
type timeSeries struct {
	collection.TimeSeries
	sink.Contents
	name     string
	database *mongodb.Database
}

// of returns the time series of a name.
func (c collections) of(series string) timeSeries {
	return timeSeries{collection.Of(c.database, series), sink.ContentsOf(c.database, series), series, c.database}
}

// eachSeries calls work for one time series after the other, until one fails, and returns the results.
func eachSeries[T any](with collections, work func(s timeSeries) (T, error)) ([]T, error) {
	all := []T{} // an empty list in JSON
	for _, name := range with.series {
		one, err := work(with.of(name))
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// options returns the options of the time series. It returns an error if the time series does not exist.
func (s timeSeries) options(ctx context.Context) (timeseries.Options, error) {
	options, _, err := s.Definition(ctx)
	return options, seriesError(s.name, err)
}

// seriesError says how to create a time series that does not exist.
func seriesError(name string, err error) error {
	if errors.Is(err, collection.ErrNotSetUp) {
		return fmt.Errorf("there is no time series %s yet: `waterwheel init` and `waterwheel run` create it", name)
	}
	return err
}

// bucketingView is how a time series divides time into buckets.
type bucketingView struct {
	Granularity     timeseries.Granularity `json:"granularity,omitempty"`
	MaxSpanSeconds  int32                  `json:"bucketMaxSpanSeconds"`
	RoundingSeconds int32                  `json:"bucketRoundingSeconds,omitempty"` // custom bucketing only
}

func newBucketingView(o timeseries.Options) bucketingView {
	return bucketingView{Granularity: o.Granularity, MaxSpanSeconds: o.MaxSpanSeconds, RoundingSeconds: o.RoundingSeconds}
}

// String returns it in the terms of the settings.
func (v bucketingView) String() string {
	if v.Granularity != "" {
		return fmt.Sprintf("%s (a bucket spans %s)", v.Granularity, spanOf(v.MaxSpanSeconds))
	}
	return fmt.Sprintf("a bucket spans %s and begins at a multiple of %s", spanOf(v.MaxSpanSeconds), spanOf(v.RoundingSeconds))
}

// spanOf formats seconds as people write a length of time.
func spanOf[N int32 | int64](seconds N) string {
	return words.Span(time.Duration(seconds) * time.Second)
}
