package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/internal/check"
	"waterwheel/internal/claim"
	"waterwheel/internal/connect"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// maxSample bounds --sample. Memory is bounded by other means, time is not.
const maxSample = 1_000_000

func (p *Program) checkCommand() *cobra.Command {
	var sample sampleFlag
	var filter string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether everything is in place, and what events would become",
		Long: "Connects to Kafka and MongoDB with the settings in effect and says what it finds, with the way out of what is wrong. It\n" +
			"changes nothing: the rights that run needs are tried by operations that find nothing, or that MongoDB refuses for\n" +
			"what they are.\n" +
			"With --sample it also decodes the newest records of each topic, without joining the group, and prints what they would\n" +
			"become: measurements, buckets, letters. Where the settings of events do not suit them, it proposes others, with its\n" +
			"confidence and with what they would lose. What the sample does not show is a question, with the settings for each answer.\n" +
			"With --sample - it does so with events from standard input, one a line or a JSON array, and needs neither Kafka nor\n" +
			"MongoDB, nor settings of them. Of lines that kcat -J has printed it takes the records' keys and timestamps as well.\n" +
			"With --filter it says of a filter on measurements, as find takes it on the view, which index serves it, and which would serve\n" +
			"it better. Where MongoDB tells (explain), the filter is tried: that takes as long as finding its buckets.\n\n" +
			"Exit code 3: something is wrong.",
		Example: "  waterwheel check\n  waterwheel check --filter '{\"meta.sensor\": \"s-17\"}'\n  waterwheel check --sample 10000\n  head events.json | waterwheel check --sample -\n" +
			"  kcat -b kafka-1:9092 -t measurements -C -o -1000 -e -J | EVENT_META_FIELDS=sensor,site waterwheel check --sample -",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sample.feed && filter != "" {
				return usageError{errors.New("--filter asks MongoDB, which --sample - does without: give one of them")}
			}
			if sample.feed {
				return p.checkFeed(cmd.Context())
			}
			return p.check(cmd.Context(), sample.records, filter)
		},
	}
	cmd.Flags().StringVar(&filter, "filter", "", "say which index serves this filter on measurements, in Extended JSON")
	cmd.Flags().Var(&sample, "sample", "decode so many of the newest records of each topic, 0: none; -: events from standard input")
	p.outputFlag(cmd, "table")
	return cmd
}

func (p *Program) check(ctx context.Context, sample int, filter string) error {
	c, log, err := p.quietSettings()
	if err != nil {
		return err
	}
	var query bson.Raw
	if filter != "" {
		if query, err = parseObject("--filter", filter); err != nil {
			return err
		}
	}
	_, definition, err := connect.NewDecoder(c)
	if err != nil {
		return err
	}
	var view checkView
	found := &view.Findings
	p.checkSettings(c, found)
	o := checkOptions(c, definition)
	o.Filter = query
	o.Sample, o.Progress = sample, func(topic string) (func(int), func()) {
		line := p.progress("records of " + topic)
		return func(done int) { line.At(int64(done), int64(sample)) }, line.End
	}
	topics := c.Kafka.Topics
	if o.Letters != nil {
		topics = slices.Concat(topics, o.Letters.Topics())
	}
	if reader, err := connect.OpenTopicLog(ctx, c, log, topics); err != nil {
		found.Failed("Kafka", err)
	} else {
		defer reader.Close()
		o.Kafka = reader
	}
	if o.Database, err = sink.Open(ctx, connect.SinkOptions(c, log)); err != nil {
		found.Failed("MongoDB", err)
	} else {
		defer connect.CloseDatabase(o.Database)
	}
	if view.Samples, err = o.Look(ctx, found); err != nil {
		return err
	}
	if err := p.show(view, view.print); err != nil {
		return err
	}
	if found.Count(check.Wrong) > 0 {
		return errFound
	}
	return nil
}

// checkOptions are the settings as check looks at them.
func checkOptions(c config.Config, definition timeseries.Options) check.Options {
	o := check.Options{
		User: c.Security.SASLUsername, GroupID: c.Kafka.GroupID, Begins: startText(c), OutOfRange: claim.OutOfRange(c.Kafka.OutOfRange),
		Decoding: connect.Decoding(c, definition), Bucketing: connect.Bucketing(c, definition, false), MetaIndexes: c.MongoDB.MetaIndexes,
	}
	if c.DLQ.Topic != "" {
		o.Letters = new(connect.LetterOptions(c))
	}
	for _, topic := range c.Kafka.Topics {
		o.Topics = append(o.Topics, check.Topic{Name: topic, Series: c.MongoDB.SeriesFor(topic), Namespace: connect.Namespace(c, topic)})
	}
	return o
}

// checkSettings says what the settings are about, and what of them works and may not be meant.
func (p *Program) checkSettings(c config.Config, found *check.Findings) {
	found.OK("settings", "group %s reads %s as %s; \"waterwheel config\" prints all", c.Kafka.GroupID, strings.Join(c.Kafka.Topics, ", "), c.Event.Format)
	for _, w := range c.Warnings() {
		found.Warn("settings", w.WayOut, "%s: %s", w.Setting, w.Message)
	}
	if strange := config.Strange(p.Environ); len(strange) > 0 {
		found.Note("settings", "these variables look like settings, but are not: %s", strings.Join(strange, ", "))
	}
}

// startText says where a group without offsets begins.
func startText(c config.Config) string {
	if c.Kafka.Start.Policy == "time" {
		return c.Kafka.Start.Time.Format(time.RFC3339) + " (KAFKA_START)"
	}
	return "the " + c.Kafka.Start.Policy + " record (KAFKA_START)"
}
