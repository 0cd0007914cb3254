package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/sink"
	"waterwheel/timeseries"
)

func (p *program) collectionCommand() *cobra.Command {
	return family("collection", "Look at the collections of measurements and change them",
		"A time series is kept in MongoDB as its buckets, the claims of the consumers that write them, and its options. These\n"+
			"commands work on the time series of KAFKA_TOPICS, beside running consumers.",
		p.collectionShowCommand(), p.setGranularityCommand(), p.takeoverCommand())
}

// collectionOptions are the flags of every command on collections.
type collectionOptions struct {
	topics []string
	output string
}

func (o *collectionOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.topics, "topic", nil, "only the time series of these topics of KAFKA_TOPICS, comma-separated")
	outputFlag(cmd, &o.output)
}

// series are the names of the time series that the flags select, each once.
func (o *collectionOptions) series(c config.Config) ([]string, error) {
	if err := checkOutput(o.output); err != nil {
		return nil, err
	}
	topics := o.topics
	if len(topics) == 0 {
		topics = c.Kafka.Topics
	}
	var names []string
	for _, topic := range topics {
		if !slices.Contains(c.Kafka.Topics, topic) {
			return nil, usageError{fmt.Errorf("--topic is %q, which is not one of KAFKA_TOPICS: %s", topic, strings.Join(c.Kafka.Topics, ", "))}
		}
		names = append(names, c.MongoDB.SeriesFor(topic))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// onCollections loads the settings, and does work on the time series that the flags select.
func (p *program) onCollections(ctx context.Context, o collectionOptions, work func(with collections) error) error {
	c, log, err := p.quietSettings()
	if err != nil {
		return err
	}
	series, err := o.series(c)
	if err != nil {
		return err
	}
	database, err := sink.Open(ctx, sinkOptions(c, log))
	if err != nil {
		return err
	}
	defer closeDatabase(database)
	return work(collections{config: c, log: log, database: database, series: series})
}

// collections are time series, and what surrounds them.
type collections struct {
	config   config.Config
	log      *slog.Logger
	database *sink.Database
	series   []string
}

// BucketingView is how a time series cuts time into buckets.
type BucketingView struct {
	Granularity     timeseries.Granularity `json:"granularity,omitempty"`
	MaxSpanSeconds  int32                  `json:"bucketMaxSpanSeconds"`
	RoundingSeconds int32                  `json:"bucketRoundingSeconds,omitempty"` // custom bucketing only
}

func bucketingView(o timeseries.Options) BucketingView {
	return BucketingView{Granularity: o.Granularity, MaxSpanSeconds: o.MaxSpanSeconds, RoundingSeconds: o.RoundingSeconds}
}

// String says it in the words of the settings.
func (v BucketingView) String() string {
	if v.Granularity != "" {
		return fmt.Sprintf("%s (a bucket spans %d s)", v.Granularity, v.MaxSpanSeconds)
	}
	return fmt.Sprintf("a bucket spans %d s and begins at a multiple of %d s", v.MaxSpanSeconds, v.RoundingSeconds)
}
