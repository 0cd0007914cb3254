package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/claim"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
	"waterwheel/sink"
)

const allPartitions = -1

// verifyOptions are the flags of verify.
type verifyOptions struct {
	topic     string
	partition int32
	from, to  string
	limits    [2]verify.Limit // the parsed values of from and to
	content   bool
	repair    bool
	examples  int
	confirmation
}

func (p *Program) verifyCommand() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove that each measurement in the log is stored exactly once",
		Long: "Reads the records of a topic and the positions that its buckets list. For each partition it reports which\n" +
			"measurements are stored once, dead-lettered, expired, missing or doubled, with the first offsets of each problem.\n" +
			"Measurements that `collection delete-meta` or `expire --before` has deleted count as deleted. Stored measurements\n" +
			"whose records log compaction has removed count as compacted. Neither is wrong.\n" +
			"Consumers may keep running: it verifies offsets below the committed offset of the group. Exit code 3: something is\n" +
			"wrong. To continue an interrupted run, give --partition and --from.\n\n" +
			"--content compares every value with its record, and checks that the count, the positions and the columns of each\n" +
			"bucket match. A meta that `collection update-meta` has changed counts as changed. A meta that was edited by hand\n" +
			"counts as different.\n\n" +
			"--repair removes doubled measurements from segments, or else from the bucket with the larger _id, and closes that\n" +
			"bucket. It skips segments that are being compacted, and reports them: run it again for these. Without --yes it first\n" +
			"shows what it would do, and asks. Run one repair at a time, and none while MongoDB elects a primary. Otherwise a\n" +
			"repair may not see the changes of another one, and may remove the last copy.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, log, err := p.commandSettings(cmd.Context(), "warn")
			if err != nil {
				return err
			}
			if err := o.check(c); err != nil {
				return err
			}
			if !o.repair {
				return p.verify(cmd.Context(), c, log, o, p.show)
			}
			return p.onceConfirmed(cmd.Context(), o.confirmation, func(dry bool, show shower) error {
				o.dryRun = dry
				return p.verify(cmd.Context(), c, log, o, show)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.topic, "topic", "", "the topic, one of KAFKA_TOPICS; required if there are several")
	flags.Int32Var(&o.partition, "partition", allPartitions, "only this partition")
	flags.Lookup("partition").DefValue = "all"
	flags.StringVar(&o.from, "from", "", "first offset, or a time: "+whenForms+"; default: the log's start, or KAFKA_START if it is a time")
	flags.StringVar(&o.to, "to", "", "end before this offset or time, in the same form as --from; default and maximum: the committed offset")
	flags.BoolVar(&o.content, "content", false, "compare every value, not only positions")
	flags.BoolVar(&o.repair, "repair", false, "remove doubled measurements")
	o.confirmation.flags(cmd)
	flags.Lookup("dry-run").Usage = "show what --repair would do, and do nothing"
	flags.Lookup("yes").Usage = "let --repair do it without asking; required if there is no terminal to ask at"
	flags.IntVar(&o.examples, "examples", verify.DefaultExamples, "number of examples to show of each problem")
	p.outputFlag(cmd, "table")
	return cmd
}

func (o *verifyOptions) check(c config.Config) error {
	if o.topic == "" && len(c.Kafka.Topics) == 1 {
		o.topic = c.Kafka.Topics[0]
	}
	switch {
	case o.topic == "":
		return usageError{fmt.Errorf("--topic is missing: give one of KAFKA_TOPICS, %s", strings.Join(c.Kafka.Topics, ", "))}
	case !slices.Contains(c.Kafka.Topics, o.topic):
		return knownTopics(c, o.topic)
	case o.partition < allPartitions:
		return usageError{fmt.Errorf("--partition is %d: partitions begin at 0", o.partition)}
	case o.examples < 1 || o.examples > 1_000_000:
		return usageError{fmt.Errorf("--examples is %d: it must be 1 to 1000000", o.examples)}
	}
	return o.checkRange(time.Now())
}

// checkRange parses the limits, and rejects a range that is empty whatever the log contains.
func (o *verifyOptions) checkRange(now time.Time) (err error) {
	for i, flag := range []string{"from", "to"} {
		if o.limits[i], err = parseLimit("--"+flag, []string{o.from, o.to}[i], now); err != nil {
			return err
		}
	}
	from, to := o.limits[0], o.limits[1]
	offsets := from.Offset != nil && to.Offset != nil && *to.Offset <= *from.Offset
	times := !from.Time.IsZero() && !to.Time.IsZero() && !to.Time.After(from.Time)
	if offsets || times {
		return usageError{fmt.Errorf("--to is %s: it must be above --from, %s", o.to, o.from)}
	}
	return nil
}

// parseLimit parses a flag that is an offset or a time. An empty text sets neither.
func parseLimit(flag, text string, now time.Time) (verify.Limit, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 {
			return verify.Limit{}, usageError{fmt.Errorf("%s is %d: offsets begin at 0", flag, n)}
		}
		return verify.Limit{Offset: &n, Name: flag}, nil
	}
	at, err := parseWhen(flag, text, now, time.UTC)
	if err != nil {
		err = usageError{fmt.Errorf("%s is %q: give an offset, %s", flag, text, whenExamples)}
	}
	return verify.Limit{Time: at, Name: flag}, err
}

func (o *verifyOptions) mode() verify.RepairMode {
	switch {
	case o.dryRun:
		return verify.DryRun
	case o.repair:
		return verify.Repair
	}
	return verify.Leave
}

// verify connects, and verifies one partition after the other. It reads the committed offsets before anything else (E6).
func (p *Program) verify(ctx context.Context, c config.Config, log *slog.Logger, o verifyOptions, show shower) error {
	c = c.ForTopic(o.topic)
	registry, err := connect.Registry(c, nil)
	if err != nil {
		return err
	}
	decoder, definition, err := connect.NewAskingDecoder(ctx, c, registry)
	if err != nil {
		return err
	}
	scanner, err := openVerified(ctx, c, log, o.topic)
	if err != nil {
		return err
	}
	defer scanner.Close()
	ranges, err := rangesOf(ctx, c, scanner, o)
	if err != nil {
		return err
	}
	database, err := mongodb.Open(ctx, connect.DatabaseOptions(c, log))
	if err != nil {
		return err
	}
	defer connect.CloseDatabase(database)

	line := p.progress("verifying")
	defer line.End()
	letters, err := readDeadLetters(ctx, c, scanner, ranges[0].Source, line)
	if err != nil {
		return err
	}
	series, contents := collection.Of(database, c.SeriesFor(o.topic)), sink.ContentsOf(database, c.SeriesFor(o.topic))
	if err := readLost(ctx, contents, scanner.ClusterID(), ranges, o.limits[0]); err != nil {
		return err
	}
	ready, err := series.Check(ctx, definition)
	if err != nil {
		return fmt.Errorf("checking the time series %s: %w", c.SeriesFor(o.topic), err)
	}
	verifier, err := verify.New(verify.Options{
		Collection: ready.Options, Decoder: decoder, Log: scanner, Buckets: contents.Buckets(ready.Options.TimeField), DeadLetters: letters.DeadLetters,
		Notes: contents.Notes(), Claims: claimsOf{contents}, WriteGrace: connect.WriteGrace(c), Content: o.content, Repair: o.mode(), Examples: o.examples,
		Now: func() int64 { return time.Now().UnixMilli() }, Progress: func(at verify.Progress) {
			unit := "offsets"
			if at.Seconds {
				unit = "seconds"
			}
			line.Now(fmt.Sprintf("verifying %s/%d, %s, %s", o.topic, at.Partition, at.Operation, unit))
			line.At(at.Offset-at.From, at.To-at.From)
		},
	})
	if err != nil {
		return err
	}
	view := verifyView{
		Topic: o.topic, Group: c.Kafka.GroupID, Content: o.content, Repair: o.mode() == verify.Repair, Partitions: []verify.Report{},
		DeletedDeadLetters: letters.deleted,
	}
	err = view.judge(ctx, verifier, ranges)
	line.End()
	err = errors.Join(err, show(view, func(w io.Writer) { view.print(w, o) }))
	if err == nil && view.Wrong {
		return errFound
	}
	return err
}

// rangesOf determines what to verify.
func rangesOf(ctx context.Context, c config.Config, scanner *kafka.Scanner, o verifyOptions) ([]verify.Range, error) {
	topic, err := scanner.Topic(ctx, o.topic)
	if err != nil {
		return nil, err
	}
	q := verify.Question{
		Topic: o.topic, Group: c.Kafka.GroupID, From: o.limits[0], To: o.limits[1],
		Pipeline: claim.Provenance{ClusterID: scanner.ClusterID(), TopicID: topic.ID, Namespace: connect.Namespace(c, o.topic)},
	}
	if o.from == "" && c.Kafka.Start.Policy == "time" {
		q.From = verify.Limit{Time: c.Kafka.Start.Time, Name: "KAFKA_START"}
	}
	for _, p := range topic.Partitions {
		if o.partition == allPartitions || o.partition == p.ID {
			q.Partitions = append(q.Partitions, p.ID)
		}
	}
	if len(q.Partitions) == 0 {
		return nil, usageError{fmt.Errorf("--partition is %d: topic %s has partitions 0 to %d", o.partition, o.topic, len(topic.Partitions)-1)}
	}
	return q.Ranges(ctx, offsetsOf{scanner})
}

// judge verifies the ranges. After an error the view has the results up to the error.
func (v *verifyView) judge(ctx context.Context, verifier *verify.Verifier, ranges []verify.Range) error {
	for i, r := range ranges {
		report, err := verifier.Partition(ctx, r)
		v.add(report)
		if err == nil {
			continue
		}
		for _, rest := range ranges[i+1:] {
			v.Rest = append(v.Rest, resume{Partition: rest.Source.Partition, From: rest.From})
		}
		return err
	}
	return nil
}

// offsetsOf implements verify.Offsets with Kafka.
type offsetsOf struct{ *kafka.Scanner }

// Committed implements verify.Offsets.
func (o offsetsOf) Committed(ctx context.Context, group string, partitions []record.Partition) (committed []claim.Committed, err error) {
	answers, err := o.Scanner.Committed(ctx, group, partitions)
	for _, a := range answers {
		committed = append(committed, claim.Committed{Offset: a.Offset, Metadata: a.Metadata, Consumed: a.Consumed()})
	}
	return committed, err
}

// claimsOf implements verify.Claims with MongoDB.
type claimsOf struct{ contents sink.Contents }

// Claims implements verify.Claims.
func (c claimsOf) Claims(ctx context.Context) (claims []claim.Document, err error) {
	documents, err := c.contents.Partitions(ctx)
	for _, d := range documents {
		claims = append(claims, d.Document)
	}
	return claims, err
}

// lostRecords reads the notes of consumers about records that retention deleted before they were read. A sink.Contents implements
// it.
type lostRecords interface {
	Lost(ctx context.Context, clusterID string, source timeseries.Source) ([]claim.Lost, error)
}

// readLost adds the lost records of their partitions to ranges. If a limit is given, it adds only losses from there on.
func readLost(ctx context.Context, in lostRecords, clusterID string, ranges []verify.Range, from verify.Limit) error {
	for i := range ranges {
		r := &ranges[i]
		least := int64(0)
		switch {
		case from.Offset != nil:
			least = *from.Offset
		case !from.Time.IsZero():
			least = r.From
		}
		noted, err := in.Lost(ctx, clusterID, r.Source)
		if err != nil {
			return err
		}
		for _, lost := range noted {
			if lost.From = max(lost.From, least); lost.From < lost.To {
				r.Lost = append(r.Lost, lost)
			}
		}
	}
	return nil
}

// openVerified connects to Kafka for a topic and its dead letters.
func openVerified(ctx context.Context, c config.Config, log *slog.Logger, topic string) (*kafka.Scanner, error) {
	o := connect.KafkaOptions(c, log)
	o.Topics = []string{topic}
	if c.DLQ.Topic != "" {
		o.Topics = append(o.Topics, c.DeadLettersFor(topic))
	}
	return kafka.OpenScanner(ctx, o)
}

// deadLetterIndex holds the dead letters of a topic, and which of them were deleted.
type deadLetterIndex struct {
	*verify.DeadLetters
	deleted []deletedDeadLetters
}

// deletedDeadLetters are the letters that a partition of a dead-letter topic no longer has.
type deletedDeadLetters struct {
	// Place is topic/partition. Before is the first offset that still exists.
	Place  string `json:"place"`
	Before int64  `json:"before"`
}

// readDeadLetters reads the dead letters of a topic. It runs after the committed offsets were read, because then the letters of all
// records below them exist.
func readDeadLetters(ctx context.Context, c config.Config, scanner *kafka.Scanner, src timeseries.Source, line *text.Progress) (deadLetterIndex, error) {
	index := deadLetterIndex{DeadLetters: new(verify.DeadLetters)}
	if c.DLQ.Topic == "" {
		return index, nil
	}
	name := c.DeadLettersFor(src.Topic)
	missing, err := scanner.Missing(ctx, name)
	if err != nil || len(missing) > 0 {
		return index, err
	}
	if err := index.read(ctx, scanner, name, src, line); err != nil {
		return index, fmt.Errorf("reading the dead letters of %s: %w", src.Topic, err)
	}
	return index, nil
}

// read reads the letters of a dead-letter topic. It checks the log's start after the reading, because letters may be deleted
// meanwhile.
func (x *deadLetterIndex) read(ctx context.Context, log dlq.Log, name string, src timeseries.Source, line *text.Progress) error {
	spans, err := dlq.Spans(ctx, log, []string{name})
	if err != nil {
		return err
	}
	line.Now("reading dead letters")
	err = scanSpans(ctx, log, spans, line, func(f *dlq.Found) error {
		l := &f.Letter
		unknownID := l.TopicID == [16]byte{} // written by another program
		if f.Err == nil && l.Topic == src.Topic && (unknownID || l.TopicID == src.TopicID) {
			x.Add(l.Number, l.Offset, l.Part)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if spans, err = dlq.Spans(ctx, log, []string{name}); err != nil {
		return err
	}
	for _, s := range spans {
		if s.First > 0 {
			x.NoteDeleted()
			x.deleted = append(x.deleted, deletedDeadLetters{Place: s.Partition.String(), Before: s.First})
		}
	}
	return nil
}
