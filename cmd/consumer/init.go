package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"waterwheel/config"
)

func (p *program) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Create collections, indexes and the dead-letter topic",
		Long:  "Creates what is missing for the topics of KAFKA_TOPICS: collections and indexes in MongoDB, dead-letter topics in\nKafka. What exists already is left as it is. \"run\" does the same when it starts.",
		Args:  noArguments,
		RunE: p.start(p.commandSettings, func(ctx context.Context, c config.Config, log *slog.Logger) error {
			return p.initialize(ctx, c, log, p.stdout)
		}),
	}
}

// initialize makes what run needs, and says so.
func initialize(ctx context.Context, c config.Config, log *slog.Logger, out io.Writer) error {
	p := patience{log: log, bound: "waterwheel run waits longer"}
	n, err := connect(ctx, c, p.started(initPatience), prometheus.NewRegistry())
	defer n.close(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	for _, topic := range c.Kafka.Topics {
		fmt.Fprintf(out, "topic %s: collections %s.%s.buckets, .partitions and .options are ready\n", topic, n.database.Name(), c.MongoDB.SeriesFor(topic))
	}
	unmade := n.makeMetaIndexes(ctx, c, log, func(series, path, index string) {
		fmt.Fprintf(out, "collection %s: made the index %s for META_INDEXES, on %s and the time\n", series, index, path)
	})
	if n.letters != nil {
		o := letterOptions(c)
		kept := "until somebody deletes them"
		if o.Retention > 0 {
			kept = "for " + o.Retention.String()
		}
		fmt.Fprintf(out, "dead-letter topics are ready: %s; those made now keep letters %s (DLQ_RETENTION)\n", strings.Join(o.Topics(), ", "), kept)
	}
	return unmade
}
