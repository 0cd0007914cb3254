package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/internal/check"
	"waterwheel/internal/claim"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/words"
)

// maxSample bounds --sample. Other limits bound the memory, but not the time.
const maxSample = 1_000_000

func (p *Program) checkCommand() *cobra.Command {
	var sample sampleFlag
	var filter string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check Kafka, MongoDB and the settings, and show how events would be stored",
		Long: "Connects to Kafka and MongoDB with the settings in effect, reports what is wrong, and says what to do about it. It changes\n" +
			"nothing: it tests the rights that run needs with operations that match no document, or that MongoDB always rejects.\n\n" +
			"With --sample it also decodes the newest records of each topic, without joining the group. It prints the measurements,\n" +
			"buckets and dead letters that these records would become. If the EVENT_ settings do not suit the records, it proposes\n" +
			"other settings, with its confidence in them and with what they would lose. If the sample leaves a question open, it asks\n" +
			"the question and shows the settings for each answer.\n" +
			"With --sample - it reads events from standard input, one per line or as a JSON array. It then needs neither Kafka nor\n" +
			"MongoDB, nor their settings. From lines that kcat -J has printed it also takes the records' keys and timestamps.\n\n" +
			"With --filter it reports which index supports a filter on measurements, and which index would support it better. Write the\n" +
			"filter as for find on the view. If MongoDB supports explain, the command also runs the filter, which takes as long as\n" +
			"finding the buckets of the filter.\n\n" +
			"Exit code 3: something is wrong.",
		Example: "  waterwheel check\n  waterwheel check --filter '{\"meta.sensor\": \"s-17\"}'\n  waterwheel check --sample 10000\n  head events.json | waterwheel check --sample -\n" +
			"  kcat -b kafka-1:9092 -t measurements -C -o -1000 -e -J | EVENT_META_FIELDS=sensor,site waterwheel check --sample -",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sample.feed && filter != "" {
				return usageError{errors.New("--filter needs MongoDB, but --sample - does not connect to MongoDB: give only one of these flags")}
			}
			if sample.feed {
				return p.checkFeed(cmd.Context())
			}
			return p.check(cmd.Context(), sample.records, filter)
		},
	}
	cmd.Flags().StringVar(&filter, "filter", "", "report which index supports this filter on measurements, in Extended JSON")
	cmd.Flags().Var(&sample, "sample", "number of newest records of each topic to decode, 0 for none, or - for events from standard input")
	p.outputFlag(cmd, "table")
	return cmd
}

func (p *Program) check(ctx context.Context, sample int, filter string) error {
	c, log, err := p.patternSettings("warn")
	if err != nil {
		return err
	}
	var query bson.Raw
	if filter != "" {
		if query, err = parseObject("--filter", filter); err != nil {
			return err
		}
	}
	var view checkView
	found := &view.Findings
	p.checkSettings(c, found)
	registry, err := p.checkRegistry(ctx, c, found)
	if err != nil {
		return err
	}
	reader, err := connect.OpenTopicLog(ctx, c, log, c.Kafka.Named())
	if err != nil {
		found.Failed("Kafka", err)
	} else {
		defer reader.Close()
	}
	if c, err = matchTopics(ctx, reader, c, log, found); err != nil {
		return err
	}
	o, err := checkOptions(ctx, c, registry)
	if err != nil {
		return err
	}
	o.Kafka, o.Filter = reader, query
	o.Sample, o.Progress = sample, func(topic string) (func(int), func()) {
		line := p.progress("records of " + topic)
		return func(done int) { line.At(int64(done), int64(sample)) }, line.End
	}
	if reader != nil && o.DeadLetters != nil {
		reader.Route(slices.Concat(c.Kafka.Topics, o.DeadLetters.Topics()))
	}
	if o.Database, err = mongodb.Open(ctx, connect.DatabaseOptions(c, log)); err != nil {
		found.Failed("MongoDB", err)
	} else {
		defer connect.CloseDatabase(o.Database)
	}
	if view.Samples, err = o.Look(ctx, found); err != nil {
		return err
	}
	return p.showFindings(view)
}

// sampleFlag is the value of --sample: a number of records, or - for standard input.
type sampleFlag struct {
	records int
	feed    bool
}

func (s *sampleFlag) String() string {
	if s.feed {
		return "-"
	}
	return strconv.Itoa(s.records)
}

// Type returns the name of the value in the help.
func (*sampleFlag) Type() string { return "records" }

// Set parses a number or -.
func (s *sampleFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if s.feed = text == "-"; !s.feed && (err != nil || n < 0 || n > maxSample) {
		return fmt.Errorf("must be 0 to %d records, or - for standard input", maxSample)
	}
	s.records = n
	return nil
}

// checkFeed reports what events from standard input would become.
func (p *Program) checkFeed(ctx context.Context) error {
	c, err := config.LoadEvents(p.Lookup, p.Environ)
	if err != nil {
		return err
	}
	if c.Event.Format == "bson" {
		return usageError{errors.New("--sample - reads text, but EVENT_FORMAT is bson: read records from the topic instead, with --sample 100")}
	}
	_, definition, err := connect.NewDecoder(c)
	if err != nil {
		return err
	}
	registry, err := connect.Registry(c, nil)
	if err != nil {
		return err
	}
	decoding := connect.Decoding(c, definition)
	connect.Asking(ctx, registry, &decoding)
	var view checkView
	done := make(chan error, 1)
	go func() { // Reading cannot be interrupted. If the command is, the program ends.
		sample, err := check.Feed(p.Stdin, time.Now().UnixMilli(), decoding, connect.Bucketing(c, definition, false), &view.Findings)
		view.Samples = []check.Sample{sample}
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	if errors.Is(err, check.ErrNoEvents) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	return p.showFindings(view)
}

// checkView is the JSON output of check.
type checkView struct {
	Findings check.Findings `json:"findings"`
	Samples  []check.Sample `json:"samples,omitempty"`
}

// showFindings shows the result of check. It returns errFound if something is wrong.
func (p *Program) showFindings(v checkView) error {
	if err := p.show(v, v.print); err != nil {
		return err
	}
	if v.Findings.Count(check.Wrong) > 0 {
		return errFound
	}
	return nil
}

func (v checkView) print(w io.Writer) {
	for i := range v.Samples {
		if v.Samples[i].Records > 0 {
			printSample(w, &v.Samples[i])
		}
	}
	printFindings(w, v.Findings)
}

// printFindings prints a table. Each way out is below its finding.
func printFindings(w io.Writer, found check.Findings) {
	width := 0
	for _, one := range found {
		width = max(width, utf8.RuneCountInString(one.Subject))
	}
	for _, one := range found {
		fmt.Fprintf(w, "%-8s %-*s  %s\n", one.State, width, one.Subject, text.Printable(one.Text))
		if one.WayOut != "" {
			fmt.Fprintf(w, "%*s→ %s\n", 8+1+width+2, "", text.Printable(one.WayOut))
		}
	}
	wrong, warnings := found.Count(check.Wrong), found.Count(check.Warning)
	if wrong == 0 && warnings == 0 {
		fmt.Fprintln(w, "\nNothing is wrong.")
		return
	}
	fmt.Fprintf(w, "\n%d wrong, %s.\n", wrong, words.Count(warnings, "warning"))
}

func printSample(w io.Writer, s *check.Sample) {
	which := "newest"
	if s.Topic == check.FeedName {
		which = "first"
	}
	records := words.Form(s.Records, "record", fmt.Sprintf("%d records", s.Records))
	fmt.Fprintf(w, "The %s %s of %s: %s", which, records, s.Topic, words.Count(s.Measurements, "measurement"))
	if s.Tombstones > 0 {
		fmt.Fprintf(w, ", %s", words.Count(s.Tombstones, "tombstone"))
	}
	if s.Skipped > 0 {
		fmt.Fprintf(w, ", %s skipped", words.Count(s.Skipped, "event"))
	}
	fmt.Fprintln(w)
	for _, d := range s.Examples {
		fmt.Fprintf(w, "  %s\n", text.Fit(w, text.Printable(string(d)), 400))
	}
	table := text.NewTable(w)
	if len(s.Bad) > 0 {
		table.Title("\nDEAD LETTERS", "REASON", "RECORD", "EXAMPLE")
		for _, b := range s.Bad {
			table.Row(b.Count, b.Reason, b.From, text.Fit(w, text.Printable(withoutReason(b.Example, b.Reason)), 160))
		}
	}
	if s.Buckets > 0 {
		table.Flush()
		fmt.Fprintf(w, "\nThey would become %s in %s, with %.1f measurements per bucket. The fullest buckets:\n", words.Count(s.Series, "series"), words.Count(s.Buckets, "bucket"), float64(s.Measurements)/float64(s.Buckets))
		table.Title("MEASUREMENTS", "BYTES", "FIRST", "LAST", "PARTITION", "META")
		for _, b := range s.Largest {
			table.Row(b.Measurements, b.Bytes, b.First, b.Last, b.From, text.Fit(w, text.Printable(string(b.Meta)), 100))
		}
	}
	if len(s.Fields) > 0 {
		table.Title("\nVALUES", "FIELD OF META")
		for _, f := range s.Fields {
			table.Row(f.Values, f.Name())
		}
	}
	table.Flush()
	printAdvice(w, s)
	fmt.Fprintln(w)
}

// printAdvice prints what a sample suggests about the settings: lines to copy, and their results.
func printAdvice(w io.Writer, s *check.Sample) {
	switch {
	case s.Proposal != nil:
		fmt.Fprintf(w, "\nThese look like %s. Proposed settings, confidence %s:\n\n", text.Printable(s.Proposal.Shape), s.Proposal.Confidence)
		printSettings(w, s, s.Proposal)
	case s.Question != "":
		fmt.Fprintf(w, "\nNo settings are proposed, because a person has to decide: %s.\n", text.Printable(s.Question))
		for i := range s.Choices {
			fmt.Fprintf(w, "\n%c. %s\n\n", 'A'+i, text.Printable(sentence(s.Choices[i].Means)))
			printSettings(w, s, &s.Choices[i])
		}
	case s.Unproposed != "":
		fmt.Fprintf(w, "\nNo settings are proposed: %s.\n", text.Printable(s.Unproposed))
	}
}

// printSettings prints a line of settings, with the arguments for and against it.
func printSettings(w io.Writer, s *check.Sample, p *check.Proposal) {
	fmt.Fprintf(w, "  %s\n\n", text.Printable(p.Line()))
	if s.Tried < s.Records-s.Tombstones {
		fmt.Fprintf(w, "  Tried    with %s, spread evenly over the sample\n", words.Count(s.Tried, "record"))
	}
	if p.Series > 0 {
		fmt.Fprintf(w, "  Makes    %s of %s, and %s\n", words.Count(p.Measurements, "measurement"), words.Count(p.Series, "series"), words.Count(p.DeadLetters, "dead letter"))
	}
	list := func(title string, lines []string) {
		for i, line := range lines {
			if i > 0 {
				title = ""
			}
			fmt.Fprintf(w, "  %-9s%s\n", title, text.Printable(line))
		}
	}
	list("Because", p.Because)
	if len(p.Loses) == 0 {
		list("Loses", []string{"nothing that the sample shows"})
	}
	list("Loses", p.Loses)
	if len(p.Examples) > 0 {
		fmt.Fprintln(w)
	}
	for _, d := range p.Examples {
		fmt.Fprintf(w, "  %s\n", text.Fit(w, text.Printable(string(d)), 400))
	}
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// matchTopics replaces the patterns of KAFKA_TOPICS by the topics that match, and reports topics that match and cannot be read.
// Without a reader only the topics that are given by name stay.
func matchTopics(ctx context.Context, reader *kafka.Scanner, c config.Config, log *slog.Logger, found *check.Findings) (config.Config, error) {
	if !c.Kafka.HasPatterns() {
		return c, nil
	}
	named := func() (config.Config, error) { return c.WithTopics(c.Kafka.Named()) }
	if reader == nil {
		return named()
	}
	matched, refused, err := connect.Match(ctx, reader.Client, c, connect.Precedence{}, log)
	if err != nil {
		found.Failed("topics", err)
		return named()
	}
	for _, topic := range slices.Sorted(maps.Keys(refused)) {
		found.Wrong("topic "+topic, "", "matches KAFKA_TOPICS but is not read: %v", refused[topic])
	}
	if len(matched.Kafka.Topics) == 0 {
		found.Failed("topics", connect.ErrNoTopic)
		return matched, nil
	}
	for _, pattern := range c.Kafka.Patterns() {
		if topics := pattern.Of(matched.Kafka.Topics); len(topics) > 0 {
			found.OK("topics", "%s matches %s", pattern, strings.Join(topics, ", "))
		} else {
			found.Warn("topics", "correct the pattern, or create a topic", "no topic matches %s", pattern)
		}
	}
	for _, unread := range matched.UnreadTopics() {
		found.Note("topics", "no topic that is read now has the settings of %s in CONFIG_FILE", unread)
	}
	return matched, nil
}

// checkOptions returns the settings as options of package check.
func checkOptions(ctx context.Context, c config.Config, registry connect.Schemas) (check.Options, error) {
	o := check.Options{
		User: c.Security.SASLUsername, GroupID: c.Kafka.GroupID, Begins: startText(c), OutOfRange: claim.OutOfRange(c.Kafka.OutOfRange),
		Settings: connect.SeriesSettings(c),
	}
	if c.HasDeadLetters() {
		o.DeadLetters = new(connect.DeadLetterOptions(c))
	}
	for _, topic := range c.Kafka.Topics {
		own := c.ForTopic(topic)
		_, definition, err := connect.NewDecoder(own)
		if err != nil {
			return o, err
		}
		decoding := connect.Decoding(own, definition)
		connect.Asking(ctx, registry, &decoding)
		o.Topics = append(o.Topics, check.Topic{
			Name: topic, Series: c.SeriesFor(topic), Namespace: connect.Namespace(c, topic),
			Decoding: decoding, Bucketing: connect.Bucketing(own, definition, false),
		})
	}
	return o, nil
}

// checkRegistry tries to reach the schema registry, if there is one.
func (p *Program) checkRegistry(ctx context.Context, c config.Config, found *check.Findings) (connect.Schemas, error) {
	registry, err := connect.Registry(c, nil)
	if registry == nil || err != nil {
		return nil, err
	}
	if err := connect.TryRegistry(ctx, registry); err != nil {
		found.Failed("schema registry", err)
	} else {
		found.OK("schema registry", "%s answers", strings.Join(c.Registry.URLs, ", "))
	}
	return registry, nil
}

// checkSettings summarizes the settings, and reports those that work but are probably not intended.
func (p *Program) checkSettings(c config.Config, found *check.Findings) {
	found.OK("settings", "group %s reads %s as %s; \"waterwheel config\" prints all", c.Kafka.GroupID, strings.Join(c.Kafka.Topics, ", "), c.Event.Format)
	for _, w := range c.Warnings() {
		found.Warn("settings", w.WayOut, "%s: %s", w.Setting, w.Message)
	}
	if strange := config.Strange(p.Environ); len(strange) > 0 {
		found.Note("settings", "these environment variables look like settings, but are not settings: %s", strings.Join(strange, ", "))
	}
}

// startText describes where a group without offsets begins.
func startText(c config.Config) string {
	if c.Kafka.Start.Policy == "time" {
		return c.Kafka.Start.Time.Format(time.RFC3339) + " (KAFKA_START)"
	}
	return "the " + c.Kafka.Start.Policy + " record (KAFKA_START)"
}
