package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/config"
	"waterwheel/measurement"
	"waterwheel/sink"
	"waterwheel/verify"
)

const allPartitions = -1

// verifyOptions are the flags of verify.
type verifyOptions struct {
	topic     string
	partition int32
	from, to  string
	content   bool
	repair    bool
	dryRun    bool
	examples  int
}

func (p *program) verifyCommand() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove what is stored: each measurement of the log once",
		Long: "Reads the records of a topic and the positions that its buckets list, and tells for each partition which\n" +
			"measurements are stored once, dead-lettered, expired, missing or doubled, with the first offsets of each problem.\n" +
			"It works beside running consumers, below the offset that the group has committed. Exit code 3 when something is\n" +
			"wrong. A range that was interrupted is gone on with by --partition and --from.\n\n" +
			"--content compares every value with its record, and every bucket with itself. A meta that was changed on purpose\n" +
			"differs. --repair takes doubled measurements out of the bucket with the larger _id and closes that bucket;\n" +
			"--dry-run shows what it would do. Run one repair at a time, and none while MongoDB elects a primary: what one\n" +
			"does not see of the other could take the last copy out.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, log, err := p.settings()
			if err != nil {
				return err
			}
			if err := o.check(c); err != nil {
				return err
			}
			return p.verify(cmd.Context(), c, log, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.topic, "topic", "", "the topic, one of KAFKA_TOPICS; needed when there are several")
	flags.Int32Var(&o.partition, "partition", allPartitions, "only this partition")
	flags.Lookup("partition").DefValue = "all"
	flags.StringVar(&o.from, "from", "", "first offset, or a time (RFC 3339); default: the log's start, or KAFKA_START when it is a time")
	flags.StringVar(&o.to, "to", "", "offset, or time, to stop before; default, and at most: the committed offset")
	flags.BoolVar(&o.content, "content", false, "compare every value, not only positions")
	flags.BoolVar(&o.repair, "repair", false, "take doubled measurements out")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what --repair would do, and do nothing")
	flags.IntVar(&o.examples, "examples", verify.DefaultExamples, "how many of the first of each problem to show")
	p.outputFlag(cmd, "table")
	return cmd
}

func (o *verifyOptions) check(c config.Config) error {
	if o.topic == "" && len(c.Kafka.Topics) == 1 {
		o.topic = c.Kafka.Topics[0]
	}
	switch {
	case o.topic == "":
		return usageError{fmt.Errorf("--topic is missing: one of KAFKA_TOPICS, %s", strings.Join(c.Kafka.Topics, ", "))}
	case !slices.Contains(c.Kafka.Topics, o.topic):
		return knownTopics(c, o.topic)
	case o.partition < allPartitions:
		return usageError{fmt.Errorf("--partition is %d: partitions begin at 0", o.partition)}
	case o.examples < 1 || o.examples > 1_000_000:
		return usageError{fmt.Errorf("--examples is %d: 1 to 1000000", o.examples)}
	}
	return o.checkRange(time.Now())
}

// checkRange refuses a range that is empty whatever the log holds.
func (o *verifyOptions) checkRange(now time.Time) error {
	from, begin, err := parseOffset("--from", o.from, now)
	if err != nil {
		return err
	}
	to, end, err := parseOffset("--to", o.to, now)
	if err != nil {
		return err
	}
	offsets := from != nil && to != nil && *to <= *from
	times := !begin.IsZero() && !end.IsZero() && !end.After(begin)
	if offsets || times {
		return usageError{fmt.Errorf("--to is %s: it must be above --from, %s", o.to, o.from)}
	}
	return nil
}

func (o *verifyOptions) mode() verify.RepairMode {
	switch {
	case o.dryRun:
		return verify.DryRun
	case o.repair:
		return verify.Mend
	}
	return verify.Leave
}

// verify connects, and judges one partition after the other. The committed offsets are read before anything else (E6).
func (p *program) verify(ctx context.Context, c config.Config, log *slog.Logger, o verifyOptions) error {
	client, err := openVerified(ctx, c, log, o.topic)
	if err != nil {
		return err
	}
	defer client.Close()
	ranges, err := verifyRanges(ctx, c, client, o)
	if err != nil {
		return err
	}
	database, err := sink.Open(ctx, sinkOptions(c, log))
	if err != nil {
		return err
	}
	defer closeDatabase(database)

	line := p.progress("verifying")
	defer line.End()
	letters, err := readLetters(ctx, c, client, ranges[0].Source, line)
	if err != nil {
		return err
	}
	if o.mode() == verify.Mend {
		if err := outlast(ctx, database, c.MongoDB.SeriesFor(o.topic), graceOf(c), line); err != nil {
			return err
		}
	}
	verifier, err := newVerifier(ctx, c, o, verifying{&recordLog{client}, database, letters.Letters, line})
	if err != nil {
		return err
	}
	view := verifyView{
		Topic: o.topic, Group: c.Kafka.GroupID, Content: o.content, Repair: o.mode() == verify.Mend, Partitions: []PartitionVerdict{},
		DeletedLetters: letters.deleted,
	}
	err = view.judge(ctx, verifier, ranges)
	line.End()
	err = errors.Join(err, p.show(view, func(w io.Writer) { view.print(w, o) }))
	if err == nil && view.Wrong {
		return errFound
	}
	return err
}

// outlast waits until no write of a bucket below the committed offsets can come any more: a late one would bring back what a
// repair has taken out. Owners with a longer write timeout than ours left a longer wait in their claims.
func outlast(ctx context.Context, database *sink.Database, series string, grace time.Duration, line *text.Progress) error {
	claims, err := database.Partitions(ctx, series)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if !claim.Released {
			grace = max(grace, claim.Wait)
		}
	}
	line.Now("waiting for writes that are on their way, seconds")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < grace; {
		line.At(int64(time.Since(begin).Seconds()), int64(grace.Seconds()))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// verifying is what a verifier is made of beside the settings.
type verifying struct {
	log      *recordLog
	database *sink.Database
	letters  *verify.Letters
	line     *text.Progress
}

// newVerifier makes a verifier of the topic's time series, which must be set up.
func newVerifier(ctx context.Context, c config.Config, o verifyOptions, with verifying) (*verify.Verifier, error) {
	definition, err := collection(c).Normalize()
	if err != nil {
		return nil, fmt.Errorf("defining the time series: %w", err)
	}
	series := c.MongoDB.SeriesFor(o.topic)
	if _, err := with.database.Check(ctx, series, definition, c.Bucket.MaxCount); err != nil {
		return nil, fmt.Errorf("looking at the time series %s: %w", series, err)
	}
	decoder, err := measurement.New(decoding(c, definition))
	if err != nil {
		return nil, err
	}
	return verify.New(verify.Options{
		Collection: definition, Decoder: decoder, Log: with.log, Buckets: with.database.Buckets(series),
		Letters: with.letters, Content: o.content, Repair: o.mode(), Now: func() int64 { return time.Now().UnixMilli() }, Examples: o.examples,
		Progress: func(at verify.Progress) {
			with.line.Now(fmt.Sprintf("verifying %s/%d, %s, offsets", o.topic, at.Partition, at.Doing))
			with.line.At(at.Offset-at.From, at.To-at.From)
		},
	})
}

// judge verifies the ranges. After an error the view holds what was judged until then.
func (v *verifyView) judge(ctx context.Context, verifier *verify.Verifier, ranges []verifyRange) error {
	for i, r := range ranges {
		report, err := verifier.Partition(ctx, r.Range)
		v.add(PartitionVerdict{Report: report, Notes: r.notes})
		if err == nil {
			continue
		}
		for _, rest := range ranges[i+1:] {
			v.Rest = append(v.Rest, Resume{Partition: rest.Source.Partition, From: rest.From})
		}
		return err
	}
	return nil
}
