package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/dlq/redrive"
)

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
	cmd.Flags().IntVar(&o.maxAttempts, "max-attempts", redrive.DefaultMaxAttempts, "leave letters of records that were tried so often, the first time included")
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
		return p.printRedrive(o, "", redrive.Report{})
	}
	line := p.progress("letters driven back")
	var astray strays
	options := p.redriving(c, log, reader)
	options.Selection = redrive.Selection{Filter: filter, MaxAttempts: o.maxAttempts}
	options.Limit, options.Rate, options.DryRun = o.limit, o.rate, o.dryRun
	options.Report = func(r redrive.Report) { line.At(r.Read, r.Total) }
	options.Stray = astray.add
	options.Refused = func(r redrive.Refusal) {
		line.End()
		p.nameRefused(r)
	}
	if o.dryRun {
		if options.Again, err = reasonNow(c); err != nil {
			return err
		}
	}
	report, err := redrive.Run(ctx, reader.Scanner, options)
	line.End()
	astray.tell(p.stderr)
	unknown := err == nil && p.warnOfReasons(o.reasons, report.Reasons)
	if report.Reasons != nil {
		if err := p.printRedrive(o, redrive.Group(c.Kafka.GroupID, options.Selection), report); err != nil {
			return err
		}
	}
	if unknown && report.Read == report.Unselected+report.Others {
		return usageError{errors.New("no letter is selected")}
	}
	if err == nil {
		return p.tellStaying(report)
	}
	return redriveError(ctx, err, options.Selection)
}

// redriving are the options that the settings decide.
func (p *program) redriving(c config.Config, log *slog.Logger, reader *letterReader) redrive.Options {
	return redrive.Options{
		Member: groupOptions(c, log), Topics: reader.topics, TopicFor: c.DLQ.TopicFor,
		CutOff: func(wait time.Duration) {
			fmt.Fprintf(p.stderr, "The last run was cut off. Waiting %v before looking which of its records have arrived.\n", wait)
		},
	}
}

// redriveLetter brings one letter back by its place.
func (p *program) redriveLetter(ctx context.Context, c config.Config, log *slog.Logger, o redriveOptions) error {
	place, err := parsePlace(o.letter)
	if err != nil {
		return err
	}
	reader, err := p.openLetters(ctx, c, log)
	if err != nil {
		return err
	}
	defer reader.Close()
	if !slices.Contains(reader.topics, place.Topic) {
		return usageError{fmt.Errorf("--letter is %q: %s is no dead-letter topic", o.letter, place.Topic)}
	}
	options := p.redriving(c, log, reader)
	options.Refused = p.nameRefused
	options.Stray = func(s redrive.Stray) {
		fmt.Fprintf(p.stderr, "The letter %s is not of the record that it names (%s). It is brought back all the same.\n", s.Place, s.Wrong)
	}
	report, err := redrive.One(ctx, reader.Scanner, place, options)
	switch {
	case err != nil:
		return err
	case report.Total == 0:
		return fmt.Errorf("%w: %s; \"consumer dlq list\" shows the places of letters", errNoLetter, o.letter)
	}
	return errors.Join(p.printRedrive(o, "", report), p.tellStaying(report))
}

// redriveError says how to go on.
func redriveError(ctx context.Context, err error, selection redrive.Selection) error {
	var unfinished *redrive.UnfinishedError
	switch {
	case errors.As(err, &unfinished):
		return fmt.Errorf("a re-drive of another selection was cut off and must be finished first: run %q, then this again",
			redriveCommandLine(unfinished.Selection))
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: what was begun is done; %q goes on", redriveCommandLine(selection))
	}
	return fmt.Errorf("driving letters back: %w; the same command goes on where it stopped", err)
}

// redriveCommandLine is the command that selects these letters.
func redriveCommandLine(s redrive.Selection) string {
	words := []string{"consumer", "dlq", "redrive"}
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
	return strings.Join(words, " ")
}
