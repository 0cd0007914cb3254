package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/dlq/redrive"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/connect"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
)

// redriveFlags define which letters go back: a selection, or a single letter by its place.
type redriveFlags struct {
	deadLetterFilter
	confirmation
	options    redrive.Options
	deadLetter string
	place      record.Place // the place of letter
}

func (p *Program) dlqRedriveCommand() *cobra.Command {
	var f redriveFlags
	cmd := p.onDeadLetters(&cobra.Command{
		Use:   "redrive",
		Short: "Produce the records of dead letters to their topics again, each once",
		Long: "Produces the record of each dead letter unchanged to the partition it came from. It adds two headers:\n" +
			"waterwheel.attempt counts the attempts, and waterwheel.driven names the dead letter. A record that fails again becomes\n" +
			"a dead letter again. After --max-attempts attempts a record is no longer redriven.\n\n" +
			"Some dead letters stay, because their topic rejects the record, for example because it is too large. Others stay,\n" +
			"because they do not match the record that they name: its topic, partition or offset does not exist, or the record there\n" +
			"has another key. The command names both kinds, and its exit code is 3. Later runs skip them. --letter redrives one of\n" +
			"them, and reports what is wrong with it. It keeps no progress: each run with --letter produces the record again.\n\n" +
			"Dead letters are not deleted from their topic. Each selection of dead letters has a consumer group, whose offsets keep\n" +
			"the progress. The name of the group begins with KAFKA_GROUP_ID and \".redrive\". A dead letter that one selection has\n" +
			"redriven is not redriven by another. An interrupted run continues where it stopped. It first checks which records have\n" +
			"arrived.\n\n" +
			"Kafka deletes the offsets of a group that is unused for offsets.retention.minutes (a week by default). The dead letters\n" +
			"would then be redriven again. Before that, delete finished dead letters with kafka-delete-records.sh.\n\n" +
			"A produced record cannot be taken back, so this command counts first, and asks.",
		Example: "  waterwheel dlq redrive --dry-run\n  waterwheel dlq redrive --reason bad_time --rate 1000 --yes\n  waterwheel dlq redrive --letter events.dlq/0/12 --yes",
		Args:    noArguments,
		PreRunE: f.check,
	}, f.read, func(ctx context.Context, from *deadLetters) error {
		if f.deadLetter != "" {
			return p.redriveDeadLetter(ctx, from, &f)
		}
		o := f.options
		if len(from.topics) == 0 {
			return showRedrive(p.show, o, "", redrive.Report{})
		}
		return p.onceConfirmed(ctx, f.confirmation, func(dry bool, show shower) error {
			o.DryRun = dry
			return p.redriveDeadLetters(ctx, from, o, show)
		})
	})
	f.deadLetterFilter.flags(cmd)
	f.confirmation.flags(cmd)
	cmd.Flags().Lookup("from").Usage = "only records of this time or later: RFC 3339, or a date; with --dry-run also now, or a time relative to now"
	cmd.Flags().Lookup("dry-run").Usage = "only count the dead letters that would be redriven, and those whose records would become dead letters again"
	cmd.Flags().Int64Var(&f.options.Limit, "limit", 0, "maximum number of dead letters to redrive, including rejected ones; 0 for all")
	cmd.Flags().IntVar(&f.options.Rate, "rate", 0, "maximum number of dead letters per second; 0 for no limit")
	cmd.Flags().IntVar(&f.options.Selection.MaxAttempts, "max-attempts", redrive.DefaultMaxAttempts, "do not redrive records that were tried this many times, including the first time")
	cmd.Flags().StringVar(&f.deadLetter, "letter", "", "redrive the one dead letter at TOPIC/PARTITION/OFFSET of a dead-letter topic, even if it was rejected before")
	return cmd
}

// check rejects flags that are wrong whatever the settings are.
func (f *redriveFlags) check(cmd *cobra.Command, _ []string) (err error) {
	if f.options.Limit < 0 || f.options.Rate < 0 || f.options.Selection.MaxAttempts < 1 {
		return usageError{errors.New("--limit and --rate must not be negative, and --max-attempts must be 1 or more")}
	}
	if f.deadLetter == "" {
		return nil
	}
	for _, name := range []string{"reason", "topic", "from", "to", "limit", "rate", "max-attempts"} {
		if cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("--letter selects one dead letter: it cannot be combined with --%s", name)}
		}
	}
	f.place, err = parsePlace(f.deadLetter)
	return err
}

// read makes the selection from the flags.
func (f *redriveFlags) read(c config.Config) error {
	if err := f.deadLetterFilter.read(c); err != nil {
		return err
	}
	if (isRelative(f.from) || isRelative(f.to)) && !f.dryRun {
		return usageError{errors.New("--from and --to must not be now or relative to now: a repeated run must select the same dead letters")}
	}
	f.options.Selection.Filter = f.Filter
	return nil
}

// redriveDeadLetters redrives letters, or counts them, and shows the report.
func (p *Program) redriveDeadLetters(ctx context.Context, from *deadLetters, o redrive.Options, show shower) error {
	line := p.progress("dead letters redriven")
	var astray foreign
	p.redriving(from, &o)
	o.Report = func(r redrive.Report) { line.At(r.Read, r.Total) }
	o.Foreign = astray.add
	o.Refused = func(r redrive.Refusal) {
		line.End()
		p.nameRefused(r)
	}
	var untried error
	if o.DryRun {
		again, err := newRetrial(ctx, from.config)
		if err != nil {
			return err
		}
		o.Again = again.reasons(&untried)
	}
	report, err := redrive.Run(ctx, from.Scanner, o)
	line.End()
	astray.tell(p.Stderr)
	var wrong error
	if err == nil {
		wrong = p.warnOfReasons(o.Selection.Reasons, report.Reasons, report.Read > report.Unselected+report.Others)
	}
	if report.Reasons != nil {
		if err := showRedrive(show, o, redrive.Group(from.config.Kafka.GroupID, o.Selection), report); err != nil {
			return err
		}
	}
	if wrong != nil {
		return wrong
	}
	if err == nil && untried != nil {
		return fmt.Errorf("not all dead letters could be checked with the current settings: %w", untried)
	}
	if err == nil {
		return p.tellStaying(report)
	}
	return redriveError(ctx, err, o.Selection)
}

// redriving sets the options that depend on the settings.
func (p *Program) redriving(from *deadLetters, o *redrive.Options) {
	o.Member, o.Topics, o.TopicFor = connect.GroupOptions(from.config, from.log), from.topics, from.config.DeadLettersFor
	o.CutOff = func(wait time.Duration) {
		fmt.Fprintf(p.Stderr, "The last run was interrupted. Waiting %v before checking which of its records have arrived.\n", wait)
	}
}

// redriveDeadLetter sends back a single letter by its place.
func (p *Program) redriveDeadLetter(ctx context.Context, from *deadLetters, f *redriveFlags) error {
	place := f.place
	if !slices.Contains(from.topics, place.Topic) {
		return usageError{fmt.Errorf("--letter is %q: %s is not a dead-letter topic", place, place.Topic)}
	}
	plan := RedriveView{DryRun: true, DeadLetter: place.String(), Report: redrive.Report{Total: 1, Reasons: map[string]int64{}}}
	do, err := p.confirmed(ctx, f.confirmation, plan, func(w io.Writer) {
		fmt.Fprintf(w, "The record of the dead letter %s would be produced to the partition it came from, even if it does not match the record there.\n", place)
	})
	if !do {
		return err
	}
	o := redrive.Options{Refused: p.nameRefused}
	p.redriving(from, &o)
	o.Foreign = func(s redrive.Foreign) {
		fmt.Fprintf(p.Stderr, "The dead letter %s does not match the record that it names (%s). It is redriven because of --letter.\n", s.Place, s.Wrong)
	}
	report, err := redrive.One(ctx, from.Scanner, place, o)
	switch {
	case err != nil:
		return err
	case report.Total == 0:
		return fmt.Errorf("%w: %s; \"waterwheel dlq list\" shows the topic, partition and offset of each dead letter", errNoDeadLetter, place)
	}
	return errors.Join(showRedrive(p.show, o, "", report), p.tellStaying(report))
}

// redriveError adds how to continue.
func redriveError(ctx context.Context, err error, selection redrive.Selection) error {
	var unfinished *redrive.UnfinishedError
	switch {
	case errors.As(err, &unfinished):
		return fmt.Errorf("a redrive of another selection of dead letters was interrupted: first run %q to finish that redrive, then run this command again",
			redriveCommandLine(unfinished.Selection))
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted after the dead letters in progress were redriven; to continue, run: %s", redriveCommandLine(selection))
	}
	return fmt.Errorf("redriving dead letters: %w; run the same command again to continue", err)
}

// redriveCommandLine returns the command for a selection.
func redriveCommandLine(s redrive.Selection) string {
	words := []string{"waterwheel", "dlq", "redrive"}
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag, value)
		}
	}
	instant := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339Nano)
	}
	add("--reason", strings.Join(s.Reasons, ","))
	add("--topic", strings.Join(s.Topics, ","))
	add("--from", instant(s.From))
	add("--to", instant(s.To))
	if s.MaxAttempts != redrive.DefaultMaxAttempts {
		add("--max-attempts", strconv.Itoa(s.MaxAttempts))
	}
	return strings.Join(append(words, "--yes"), " ")
}

// RedriveView is the JSON output of dlq redrive.
type RedriveView struct {
	Group      string `json:"group"`
	DryRun     bool   `json:"dryRun"`
	DeadLetter string `json:"letter,omitempty"` // the place of the letter that --letter names
	redrive.Report
}

func showRedrive(show shower, o redrive.Options, group string, r redrive.Report) error {
	if r.Reasons == nil {
		r.Reasons = map[string]int64{}
	}
	return show(RedriveView{Group: group, DryRun: o.DryRun, Report: r}, func(w io.Writer) { printReport(w, o, group, r) })
}

func printReport(w io.Writer, o redrive.Options, group string, r redrive.Report) {
	table := text.NewTable(w)
	verb := "redriven"
	if o.DryRun {
		verb = "would be redriven"
	}
	reasons := func(counts map[string]int64) {
		for _, reason := range text.ByCount(counts) {
			table.Row("", fmt.Sprintf("  %s: %d", reason, counts[reason]))
		}
	}
	table.Row(r.Driven, verb)
	reasons(r.Reasons)
	if r.Gone > 0 {
		table.Row(r.Gone, words.Form(r.Gone, "of these could not be compared with its record, which is no longer in the topic",
			"of these could not be compared with their records, which are no longer in the topics"))
	}
	if o.DryRun && r.Driven > 0 {
		again := text.Sum(r.Again)
		table.Row(again, "of these would become "+words.Form(again, "a dead letter", "dead letters")+" again with the current settings (MongoDB may reject more)")
		reasons(r.Again)
	}
	attempts := words.Count(o.Selection.MaxAttempts, "time") + " or more (--max-attempts)"
	for _, one := range []struct {
		count    int64
		one, all string
	}{
		{r.Arrived, "had arrived already when an earlier run was interrupted", ""},
		{r.Refused, "stays: its topic rejects it; it is named above", "stay: their topics reject them; each is named above"},
		{r.Doubles, "is a copy, or was redriven by another selection", "are copies, or were redriven by another selection"},
		{r.Exhausted, "stays: tried " + attempts, "stay: tried " + attempts},
		{
			r.Cut, "stays: too large for the dead-letter topic, so the letter lacks a part of the record; the source topic may still have the record (dlq show)",
			"stay: too large for the dead-letter topic, so the letters lack a part of the record; the source topics may still have the records (dlq show)",
		},
		{r.Foreign, "stays: it does not match the record that it names, see above", "stay: they do not match the records that they name, see above"},
		{r.Others, "is not a dead letter", "are not dead letters"},
		{r.Unselected, "not selected", ""},
		{r.Total - r.Read, "not read yet", ""},
	} {
		if one.count > 0 {
			table.Row(one.count, words.Form(one.count, one.one, cmp.Or(one.all, one.one)))
		}
	}
	table.Flush()
	if group != "" {
		fmt.Fprintf(w, "progress is kept by the consumer group %s\n", group)
	}
}

// nameRefused reports that a letter stays.
func (p *Program) nameRefused(r redrive.Refusal) {
	fmt.Fprintf(p.Stderr, "The dead letter %s stays in its topic: %s rejects the record: %v\n", r.Place, r.To, r.Err)
}

// tellStaying says what to do about letters that were refused or belong to no record, if there are any.
func (p *Program) tellStaying(r redrive.Report) error {
	if r.Refused > 0 {
		fmt.Fprintf(p.Stderr, "%s %s in the dead-letter topics: change the configuration of the source topics, then redrive each letter with \"waterwheel dlq redrive --letter TOPIC/PARTITION/OFFSET\".\n",
			words.Count(r.Refused, "dead letter"), words.Form(r.Refused, "stays", "stay"))
	}
	if r.Refused > 0 || r.Foreign > 0 {
		return errFound
	}
	return nil
}

// mostForeign is how many letters that belong to no record are named.
const mostForeign = 3

// foreign counts letters that do not belong to the records that they name, and keeps the first of them.
type foreign struct {
	first []string
	count int
}

func (s *foreign) add(one redrive.Foreign) {
	if s.count++; s.count <= mostForeign {
		s.first = append(s.first, fmt.Sprintf("%s (%s)", one.Place, one.Wrong))
	}
}

// tell prints them in one line.
func (s *foreign) tell(w io.Writer) {
	if s.count == 0 {
		return
	}
	list := text.Printable(strings.Join(s.first, ", "))
	if more := s.count - len(s.first); more > 0 {
		list = fmt.Sprintf("%s and %d more", list, more)
	}
	fmt.Fprintf(w, "These dead letters do not match the records that they name, and stay: %s. Check who may write to the dead-letter topic. If one of them is right, \"waterwheel dlq redrive --letter\" redrives it.\n", list)
}
