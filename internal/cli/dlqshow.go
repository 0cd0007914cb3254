package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// errNoLetter: nothing stands at the place asked for.
var errNoLetter = errors.New("no such letter")

func (p *Program) dlqShowCommand() *cobra.Command {
	var raw bool
	var place record.Place
	var again retrial
	cmd := p.onLetters(&cobra.Command{
		Use:   "show TOPIC/PARTITION/OFFSET",
		Short: "Print one dead letter with its record",
		Long: "Prints a letter, its record, and a mark at the field that is wrong. The place is the letter's in the dead-letter topic,\n" +
			"or that of its record in the topic it comes from: the topic's name tells which. A record may have several letters. What\n" +
			"the present settings would make of the record is said too.",
		Example: "  waterwheel dlq show events.dlq/0/12\n  waterwheel dlq show events/3/182 --raw > record.json",
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) != 1 {
				return usageError{fmt.Errorf("%q needs one place: TOPIC/PARTITION/OFFSET", cmd.CommandPath())}
			}
			place, err = parsePlace(args[0])
			return err
		},
	}, func(c config.Config) (err error) {
		again, err = newRetrial(c)
		return err
	}, func(ctx context.Context, from *letters) error {
		return p.showLetters(ctx, from, place, func(f *dlq.Found) error {
			if raw {
				_, err := p.Stdout.Write(f.Letter.Value)
				return err
			}
			now := again.of(f)
			return p.show(newShownLetter(f, now), func(w io.Writer) {
				printLetter(w, f, from.config.Event.Format == string(measurement.BSON), now)
			})
		})
	})
	cmd.Flags().BoolVar(&raw, "raw", false, "write the value of the record alone, as it is")
	return cmd
}

// parsePlace reads topic/partition/offset.
func parsePlace(text string) (record.Place, error) {
	place, err := record.ParsePlace(text)
	if err != nil {
		return place, usageError{fmt.Errorf("%q %w", text, err)}
	}
	return place, nil
}

// showLetters calls show for the letter at a place of a dead-letter topic, or for every letter of the record at a place of
// a source topic. There must be one.
func (p *Program) showLetters(ctx context.Context, from *letters, place record.Place, show func(*dlq.Found) error) error {
	n := 0
	counted := func(f *dlq.Found) error {
		if n++; f.Err != nil {
			return fmt.Errorf("%s: %w", f.Place, f.Err)
		}
		return show(f)
	}
	err := p.atPlace(ctx, from, place, counted)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: %s; \"waterwheel dlq list\" shows the places of letters and of their records", errNoLetter, place)
	}
	return err
}

func (p *Program) atPlace(ctx context.Context, from *letters, place record.Place, each func(*dlq.Found) error) error {
	if !slices.Contains(from.topics, place.Topic) {
		return p.scan(ctx, from, func(f *dlq.Found) error {
			if f.Err == nil && f.Letter.Place == place {
				return each(f)
			}
			return nil
		})
	}
	spans, err := dlq.Spans(ctx, from, []string{place.Topic})
	if err != nil {
		return err
	}
	return dlq.At(ctx, from, spans, place, each)
}
