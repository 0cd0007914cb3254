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
	letterFilter
	confirmation
	options redrive.Options
	letter  string
	place   record.Place // the place of letter
}

func (p *Program) dlqRedriveCommand() *cobra.Command {
	var f redriveFlags
	cmd := p.onLetters(&cobra.Command{
		Use:   "redrive",
		Short: "Bring the records of dead letters back to their topics, each once",
		Long: "Produces the record of each letter to the partition it came from, as it was, with the headers waterwheel.attempt, which\n" +
			"counts up, and waterwheel.driven, which names the letter. A record that fails again becomes a letter again; one tried\n" +
			"--max-attempts times stays. So does a letter whose record its topic does not take (too large, say), and one that is not\n" +
			"of the record it names: its topic, partition or offset does not exist, or the record there has another key. These are\n" +
			"named, and the exit code is 3. Letters stay in the dead-letter topic: progress is kept in the offsets of a\n" +
			"consumer group, KAFKA_GROUP_ID with \".redrive\", one for each selection of letters. Letters driven by one selection\n" +
			"are not driven by another. A run that was cut off goes on where it was, and looks first which records have arrived.\n\n" +
			"No selection drives a letter again that was refused, or that is not of the record it names. --letter brings it back\n" +
			"and says what speaks against it; it does so each time, because no account is kept of these.\n\n" +
			"Kafka forgets the offsets of a group that is not used for offsets.retention.minutes (a week unless set otherwise), and\n" +
			"letters would then be driven again: delete those that are done from the topic before, with kafka-delete-records.sh.\n\n" +
			"No command takes records out of a topic again, so this one counts first, and asks.",
		Example: "  waterwheel dlq redrive --dry-run\n  waterwheel dlq redrive --reason bad_time --rate 1000 --yes\n  waterwheel dlq redrive --letter events.dlq/0/12 --yes",
		Args:    noArguments,
		PreRunE: f.check,
	}, f.read, func(ctx context.Context, from *letters) error {
		if f.letter != "" {
			return p.redriveLetter(ctx, from, &f)
		}
		o := f.options
		if len(from.topics) == 0 {
			return showRedrive(p.show, o, "", redrive.Report{})
		}
		return p.onceConfirmed(ctx, f.confirmation, func(dry bool, show shower) error {
			o.DryRun = dry
			return p.redriveLetters(ctx, from, o, show)
		})
	})
	f.letterFilter.flags(cmd)
	f.confirmation.flags(cmd)
	cmd.Flags().Lookup("from").Usage = "only records of this time or later: RFC 3339, or a date; with --dry-run also now, or a distance from it"
	cmd.Flags().Lookup("dry-run").Usage = "only count what would be driven, and what of it would become letters again"
	cmd.Flags().Int64Var(&f.options.Limit, "limit", 0, "drive at most so many letters, those that are refused included; 0: all")
	cmd.Flags().IntVar(&f.options.Rate, "rate", 0, "drive at most so many letters a second; 0: as fast as it goes")
	cmd.Flags().IntVar(&f.options.Selection.MaxAttempts, "max-attempts", redrive.DefaultMaxAttempts, "leave letters of records that were tried so often, the first time included")
	cmd.Flags().StringVar(&f.letter, "letter", "", "bring back the one at TOPIC/PARTITION/OFFSET of a dead-letter topic, which its topic refused before")
	return cmd
}

// check rejects flags that are wrong whatever the settings are.
func (f *redriveFlags) check(cmd *cobra.Command, _ []string) (err error) {
	if f.options.Limit < 0 || f.options.Rate < 0 || f.options.Selection.MaxAttempts < 1 {
		return usageError{errors.New("--limit and --rate must not be negative, and --max-attempts must be 1 or more")}
	}
	if err := f.confirmation.check(); err != nil || f.letter == "" {
		return err
	}
	for _, name := range []string{"reason", "topic", "from", "to", "limit", "rate", "max-attempts"} {
		if cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("--letter is about one letter: it cannot be combined with --%s", name)}
		}
	}
	f.place, err = parsePlace(f.letter)
	return err
}

// read makes the selection from the flags.
func (f *redriveFlags) read(c config.Config) error {
	if err := f.letterFilter.read(c); err != nil {
		return err
	}
	if (isRelative(f.from) || isRelative(f.to)) && !f.dryRun {
		return usageError{errors.New("--from and --to need a time here, not a distance from now, nor now itself: a run that is repeated must select the same letters")}
	}
	f.options.Selection.Filter = f.Filter
	return nil
}

// redriveLetters drives letters back, or counts them, and shows the report.
func (p *Program) redriveLetters(ctx context.Context, from *letters, o redrive.Options, show shower) error {
	line := p.progress("letters driven back")
	var astray strays
	p.redriving(from, &o)
	o.Report = func(r redrive.Report) { line.At(r.Read, r.Total) }
	o.Stray = astray.add
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
		return fmt.Errorf("not all letters could be tried by the present settings: %w", untried)
	}
	if err == nil {
		return p.tellStaying(report)
	}
	return redriveError(ctx, err, o.Selection)
}

// redriving sets the options that depend on the settings.
func (p *Program) redriving(from *letters, o *redrive.Options) {
	o.Member, o.Topics, o.TopicFor = connect.GroupOptions(from.config, from.log), from.topics, from.config.DeadLettersFor
	o.CutOff = func(wait time.Duration) {
		fmt.Fprintf(p.Stderr, "The last run was cut off. Waiting %v before looking which of its records have arrived.\n", wait)
	}
}

// redriveLetter sends back a single letter by its place.
func (p *Program) redriveLetter(ctx context.Context, from *letters, f *redriveFlags) error {
	place := f.place
	if !slices.Contains(from.topics, place.Topic) {
		return usageError{fmt.Errorf("--letter is %q: %s is no dead-letter topic", place, place.Topic)}
	}
	plan := RedriveView{DryRun: true, Letter: place.String(), Report: redrive.Report{Total: 1, Reasons: map[string]int64{}}}
	do, err := p.confirmed(ctx, f.confirmation, plan, func(w io.Writer) {
		fmt.Fprintf(w, "The record of the letter %s would be produced to the partition that it came from, whatever speaks against it.\n", place)
	})
	if !do {
		return err
	}
	o := redrive.Options{Refused: p.nameRefused}
	p.redriving(from, &o)
	o.Stray = func(s redrive.Stray) {
		fmt.Fprintf(p.Stderr, "The letter %s is not of the record that it names (%s). It is brought back all the same.\n", s.Place, s.Wrong)
	}
	report, err := redrive.One(ctx, from.Scanner, place, o)
	switch {
	case err != nil:
		return err
	case report.Total == 0:
		return fmt.Errorf("%w: %s; \"waterwheel dlq list\" shows the places of letters", errNoLetter, place)
	}
	return errors.Join(showRedrive(p.show, o, "", report), p.tellStaying(report))
}

// redriveError adds how to continue.
func redriveError(ctx context.Context, err error, selection redrive.Selection) error {
	var unfinished *redrive.UnfinishedError
	switch {
	case errors.As(err, &unfinished):
		return fmt.Errorf("a re-drive of another selection was cut off and must be finished first: run %q, then this again",
			redriveCommandLine(unfinished.Selection))
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: begun letters are driven; run it again to continue: %s", redriveCommandLine(selection))
	}
	return fmt.Errorf("driving letters back: %w; the same command goes on where it stopped", err)
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
	Group  string `json:"group"`
	DryRun bool   `json:"dryRun"`
	Letter string `json:"letter,omitempty"` // the place of the letter that --letter names
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
	verb := "driven back"
	if o.DryRun {
		verb = "would be driven back"
	}
	reasons := func(counts map[string]int64) {
		for _, reason := range text.ByCount(counts) {
			table.Row("", fmt.Sprintf("  %s: %d", reason, counts[reason]))
		}
	}
	table.Row(r.Driven, verb)
	reasons(r.Reasons)
	if r.Gone > 0 {
		table.Row(r.Gone, words.Form(r.Gone, "of these is of a record that its topic has no more, whose key could not be compared",
			"of these are of records that their topics have no more, whose keys could not be compared"))
	}
	if o.DryRun && r.Driven > 0 {
		again := text.Sum(r.Again)
		table.Row(again, "of these would become "+words.Form(again, "a letter", "letters")+" again, by the present settings (what MongoDB refuses is not asked)")
		reasons(r.Again)
	}
	attempts := words.Count(o.Selection.MaxAttempts, "time") + " or more (--max-attempts)"
	for _, one := range []struct {
		count    int64
		one, all string
	}{
		{r.Arrived, "had arrived already when a former run was cut off", ""},
		{r.Refused, "stays: its topic does not take it; it is named above", "stay: their topics do not take them; each is named above"},
		{r.Doubles, "double, or driven by another selection", "doubles, or driven by another selection"},
		{r.Exhausted, "stays: tried " + attempts, "stay: tried " + attempts},
		{
			r.Cut, "stays: too long for the dead-letter topic, a part of its value is lost; only its source topic may still have it (dlq show)",
			"stay: too long for the dead-letter topic, a part of their value is lost; only their source topic may still have them (dlq show)",
		},
		{r.Strays, "stays: it is not of the record that it names, as is said above", "stay: they are not of the records that they name, as is said above"},
		{r.Others, "is no letter", "are no letters"},
		{r.Unselected, "not selected", ""},
		{r.Total - r.Read, "not looked at yet", ""},
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
	fmt.Fprintf(p.Stderr, "The letter %s stays: %s does not take it: %v\n", r.Place, r.To, r.Err)
}

// tellStaying says what to do about letters that were refused or belong to no record, if there are any.
func (p *Program) tellStaying(r redrive.Report) error {
	if r.Refused > 0 {
		fmt.Fprintf(p.Stderr, "%s %s: change the configuration of their topics, then bring each back with \"waterwheel dlq redrive --letter\" and its place.\n",
			words.Count(r.Refused, "letter"), words.Form(r.Refused, "stays", "stay"))
	}
	if r.Refused > 0 || r.Strays > 0 {
		return errFound
	}
	return nil
}

// mostStrays is how many letters that belong to no record are named.
const mostStrays = 3

// strays counts letters that do not belong to the records that they name, and keeps the first of them.
type strays struct {
	first []string
	count int
}

func (s *strays) add(one redrive.Stray) {
	if s.count++; s.count <= mostStrays {
		s.first = append(s.first, fmt.Sprintf("%s (%s)", one.Place, one.Wrong))
	}
}

// tell prints them in one line.
func (s *strays) tell(w io.Writer) {
	if s.count == 0 {
		return
	}
	list := text.Printable(strings.Join(s.first, ", "))
	if more := s.count - len(s.first); more > 0 {
		list = fmt.Sprintf("%s and %d more", list, more)
	}
	fmt.Fprintf(w, "Not of the records that they name: %s. These letters stay: see who may write to the dead-letter topic; \"waterwheel dlq redrive --letter\" brings one back that is right all the same.\n", list)
}
