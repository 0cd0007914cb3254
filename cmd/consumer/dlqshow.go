package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/measurement"
	"waterwheel/record"
)

// errNoLetter: nothing stands at the place asked for.
var errNoLetter = errors.New("no such letter")

func (p *program) dlqShowCommand() *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "show TOPIC/PARTITION/OFFSET",
		Short: "Print one dead letter with its record",
		Long: "Prints a letter, its record, and a mark at the field that is wrong. The place is the letter's in the dead-letter topic,\n" +
			"or that of its record in the topic it comes from: the topic's name tells which. A record may have several letters. What\n" +
			"the present settings would make of the record is said too.",
		Example: "  consumer dlq show events.dlq/0/12\n  consumer dlq show events/3/182 --raw > record.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("%q needs one place: TOPIC/PARTITION/OFFSET", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return p.showLetter(cmd.Context(), args[0], raw) },
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the value of the record alone, as it is")
	p.outputFlag(cmd, "table")
	return cmd
}

func (p *program) showLetter(ctx context.Context, at string, raw bool) error {
	place, err := parsePlace(at)
	if err != nil {
		return err
	}
	c, log, err := p.quietSettings()
	if err != nil {
		return err
	}
	again, err := newRetrial(c)
	if err != nil {
		return err
	}
	show := func(f *dlq.Found) error {
		switch {
		case f.Err != nil:
			return fmt.Errorf("%s: %w", f.Place, f.Err)
		case raw:
			_, err := p.stdout.Write(f.Letter.Value)
			return err
		}
		now := again.of(&f.Letter)
		return p.show(newShownLetter(f, now), func(w io.Writer) {
			printLetter(w, f, c.Event.Format == string(measurement.BSON), now)
		})
	}
	n, err := p.findLetters(ctx, c, log, place, show)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: %s; \"consumer dlq list\" shows the places of letters and of their records", errNoLetter, at)
	}
	return err
}

// parsePlace reads topic/partition/offset.
func parsePlace(text string) (record.Place, error) {
	place, err := record.ParsePlace(text)
	if err != nil {
		return place, usageError{fmt.Errorf("%q %w", text, err)}
	}
	return place, nil
}

// findLetters calls show for the letter at a place of a dead-letter topic, or for every letter of the record at a place of
// a source topic, and counts them.
func (p *program) findLetters(ctx context.Context, c config.Config, log *slog.Logger, place record.Place, show func(*dlq.Found) error) (n int, err error) {
	reader, err := p.openLetters(ctx, c, log)
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	counted := func(f *dlq.Found) error {
		n++
		return show(f)
	}
	if !slices.Contains(reader.topics, place.Topic) {
		err := p.scan(ctx, reader, func(f *dlq.Found) error {
			if f.Err == nil && f.Letter.Place == place {
				return counted(f)
			}
			return nil
		})
		return n, err
	}
	spans, err := dlq.Spans(ctx, reader, []string{place.Topic})
	if err != nil {
		return 0, err
	}
	err = dlq.At(ctx, reader, spans, place, counted)
	return n, err
}
