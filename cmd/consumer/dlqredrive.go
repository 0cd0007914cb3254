package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/dlq"
)

// redriveSettle is how long after a failure a record that was sent may still arrive: the time one request may take, for the
// way there and at the broker.
const redriveSettle = 10 * time.Second

type redriveOptions struct {
	letterFilter
	dryRun      bool
	limit       int64
	rate        int
	maxAttempts int
	letter      string // one alone, by its place
}

func (p *program) dlqRedriveCommand() *cobra.Command {
	var o redriveOptions
	cmd := &cobra.Command{
		Use:   "redrive",
		Short: "Bring the records of dead letters back to their topics, each once",
		Long: "Produces the record of each letter to the partition it came from, as it was, with the headers waterwheel.attempt, which\n" +
			"counts up, and waterwheel.driven, which names the letter. A record that fails again becomes a letter again; one tried\n" +
			"--max-attempts times stays. So does a letter whose record its topic does not take (too large, say), and one that is not\n" +
			"of the record it names: its topic, partition or offset does not exist, or the record there has another key. These are\n" +
			"named, and the exit code is 3. Letters stay in the dead-letter topic: what was driven is kept by the offsets of a\n" +
			"consumer group, KAFKA_GROUP_ID with \".redrive\", one for each selection of letters. Letters driven by one selection\n" +
			"are not driven by another. A run that was cut off goes on where it was, and looks first which records have arrived.\n\n" +
			"No selection drives a letter again that was refused, or that was of no record. --letter brings it back, each time it is\n" +
			"said, and tells what speaks against it: of this alone no account is kept.\n\n" +
			"Kafka forgets the offsets of a group that is not used for offsets.retention.minutes (a week unless set otherwise), and\n" +
			"letters would then be driven again: delete those that are done from the topic before, with kafka-delete-records.sh.",
		Example: "  consumer dlq redrive --dry-run\n  consumer dlq redrive --reason bad_time --rate 1000\n  consumer dlq redrive --letter events.dlq/0/12",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"reason", "topic", "from", "to", "dry-run", "limit", "rate", "max-attempts"} {
				if o.letter != "" && cmd.Flags().Changed(name) {
					return usageError{fmt.Errorf("--letter is about one letter: --%s has no place beside it", name)}
				}
			}
			return p.redriveLetters(cmd.Context(), o)
		},
	}
	o.flags(cmd)
	cmd.Flags().Lookup("from").Usage = "only records of this time or later: RFC 3339, or a date"
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only count what would be driven, and what of it would become letters again")
	cmd.Flags().Int64Var(&o.limit, "limit", 0, "drive at most so many letters, those that are refused included; 0: all")
	cmd.Flags().IntVar(&o.rate, "rate", 0, "drive at most so many letters a second; 0: as fast as it goes")
	cmd.Flags().IntVar(&o.maxAttempts, "max-attempts", dlq.DefaultMaxAttempts, "leave letters of records that were tried so often, the first time included")
	cmd.Flags().StringVar(&o.letter, "letter", "", "bring back the one at TOPIC/PARTITION/OFFSET of a dead-letter topic, which its topic refused before")
	p.outputFlag(cmd, "table")
	return cmd
}

func (o *redriveOptions) check() error {
	if o.limit < 0 || o.rate < 0 || o.maxAttempts < 1 {
		return usageError{errors.New("--limit and --rate must not be negative, and --max-attempts must be 1 or more")}
	}
	return nil
}

func (p *program) redriveLetters(ctx context.Context, o redriveOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	c, log, err := p.quietSettings()
	if err != nil {
		return err
	}
	if o.letter != "" {
		return p.redriveLetter(ctx, c, log, o)
	}
	filter, err := o.filter(c, time.Now())
	if err != nil {
		return err
	}
	if (isDistance(o.from) || isDistance(o.to)) && !o.dryRun {
		return usageError{errors.New("--from and --to need a time here, not a distance from now: a run that is repeated must select the same letters")}
	}
	reader, err := p.openLetters(ctx, c, log)
	if err != nil {
		return err
	}
	defer reader.Close()
	if len(reader.topics) == 0 {
		return p.printRedrive(o, "", dlq.Report{})
	}
	selection := dlq.Selection{Filter: filter, MaxAttempts: o.maxAttempts}
	group := redriveGroup(c, selection)
	line := p.progress("letters driven back")
	letters := letterOptions(c)
	var astray strays
	options := dlq.RedriveOptions{
		Selection: selection, Sources: c.Kafka.Topics, TopicFor: letters.TopicFor, Limit: o.limit, Rate: o.rate, DryRun: o.dryRun,
		Settle: redriveSettle, Stray: astray.add,
		Report: func(r dlq.Report) { line.At(r.Read, r.Total) },
		Refused: func(r dlq.Refusal) {
			line.End()
			p.nameRefused(r)
		},
	}
	var report dlq.Report
	if o.dryRun {
		report, err = p.countRedrive(ctx, c, reader, options)
	} else {
		err = withRedriveGroup(ctx, c, log, reader, group, func(ctx context.Context, m *redriveMembership) (err error) {
			report, err = p.drive(ctx, c, reader, m, options)
			return err
		})
	}
	line.End()
	astray.tell(p.stderr)
	unknown := err == nil && p.warnOfReasons(o.reasons, report.Reasons)
	if report.Reasons != nil {
		if err := p.printRedrive(o, group, report); err != nil {
			return err
		}
	}
	if unknown && report.Read == report.Unselected+report.Others {
		return usageError{errors.New("no letter is selected")}
	}
	if err == nil {
		return p.tellStaying(report)
	}
	return redriveError(ctx, err, selection)
}

// redriveError says how to go on.
func redriveError(ctx context.Context, err error, selection dlq.Selection) error {
	var unfinished *dlq.UnfinishedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unfinished):
		return fmt.Errorf("a re-drive of another selection was cut off and must be finished first: run %q, then this again",
			redriveCommandLine(unfinished.Selection))
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: what was begun is done; %q goes on", redriveCommandLine(selection))
	}
	return fmt.Errorf("driving letters back: %w; the same command goes on where it stopped", err)
}

// redriveCommandLine is the command that selects these letters.
func redriveCommandLine(s dlq.Selection) string {
	words := []string{"consumer", "dlq", "redrive"}
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag, value)
		}
	}
	add("--reason", strings.Join(s.Reasons, ","))
	add("--topic", strings.Join(s.Topics, ","))
	for flag, t := range map[string]time.Time{"--from": s.From, "--to": s.To} {
		if !t.IsZero() {
			add(flag, t.Format(time.RFC3339Nano))
		}
	}
	if s.MaxAttempts != dlq.DefaultMaxAttempts {
		add("--max-attempts", fmt.Sprint(s.MaxAttempts))
	}
	return strings.Join(words, " ")
}

// countRedrive is a dry run.
func (p *program) countRedrive(ctx context.Context, c config.Config, reader *letterReader, o dlq.RedriveOptions) (dlq.Report, error) {
	spans, err := dlq.Spans(ctx, reader, reader.topics)
	if err != nil {
		return dlq.Report{}, err
	}
	pasts, err := redrivePasts(ctx, c, reader, spans)
	if err != nil {
		return dlq.Report{}, err
	}
	o.Own, o.Others = splitPasts(pasts, o.Selection)
	again, err := newRetrial(c)
	if err != nil {
		return dlq.Report{}, err
	}
	o.Again = func(l *dlq.Letter) string {
		if bad := again.of(l); bad != nil {
			return string(bad.Reason)
		}
		return ""
	}
	return dlq.NewRedrive(reader, nil, nil, o).Run(ctx, spans)
}

// drive is a run of the group's only member.
func (p *program) drive(ctx context.Context, c config.Config, reader *letterReader, m *redriveMembership, o dlq.RedriveOptions) (dlq.Report, error) {
	spans, err := dlq.Spans(ctx, reader, reader.topics)
	if err != nil {
		return dlq.Report{}, err
	}
	pasts, err := redrivePasts(ctx, c, reader, spans)
	if err != nil {
		return dlq.Report{}, err
	}
	if err := checkReturn(ctx, c, reader.Client); err != nil {
		return dlq.Report{}, err
	}
	_, o.Others = splitPasts(pasts, o.Selection)
	o.Own = dlq.Past{Selection: o.Selection, Committed: m.committed()}
	if o.Own.IsCutOff() {
		fmt.Fprintf(p.stderr, "The last run was cut off: in %v it is looked up which records have arrived.\n", o.Settle)
	}
	transport, err := security(c.Security).Transport(c.Kafka.Topics, nil)
	if err != nil {
		return dlq.Report{}, err
	}
	returner := dlq.NewReturner(c.Kafka.Brokers, transport, redriveSettle/2, m.hold)
	defer returner.Close()
	return dlq.NewRedrive(reader, returner, m, o).Run(ctx, spans)
}
