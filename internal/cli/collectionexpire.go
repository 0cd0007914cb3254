package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/internal/cli/text"
	"waterwheel/sink"
)

// expireFlags are those of collection expire.
type expireFlags struct {
	before string
	confirmation
}

// moment is --before; zero: it is not given.
func (f *expireFlags) moment() (time.Time, error) { return parseWhen("--before", f.before, time.Now()) }

func (p *Program) expireCommand() *cobra.Command {
	var f expireFlags
	cmd := p.onCollections(&cobra.Command{
		Use:   "expire",
		Short: "Delete what has expired, once",
		Long: "Deletes the buckets that hold only measurements older than the collection keeps them (MONGODB_EXPIRE_AFTER, collection\n" +
			"set-expiry), or than --before. It is for servers that delete nothing by themselves, and for once; run it as often as is\n" +
			"needed. Whole buckets go, so some older measurements stay until all of their bucket may be deleted.\n\n" +
			"It can be run beside consumers: one that meets a bucket which is gone opens another. With --before the command notes\n" +
			"the Kafka positions of what it deletes, as delete-meta does: `waterwheel verify` counts them as deleted, and a reset of\n" +
			"the group's offsets does not bring them back. What the collection keeps no longer is not noted: `verify` counts it as\n" +
			"expired by its time. A run that was interrupted is finished by the same command.",
		Example: "  waterwheel collection expire --dry-run\n  waterwheel collection expire --yes\n" +
			"  waterwheel collection expire --before 2026-01-01T00:00:00Z --yes",
		Args: noArguments,
		PreRunE: func(*cobra.Command, []string) error {
			if _, err := f.moment(); err != nil {
				return err
			}
			return f.check()
		},
	}, func(ctx context.Context, with collections, _ []string) error {
		views, selections, err := p.planExpiries(ctx, with, &f)
		print := func(w io.Writer) { printExpiries(w, views) }
		if err != nil {
			return errors.Join(err, p.show(views, print))
		}
		if do, err := p.confirmed(ctx, f.confirmation, views, print); !do {
			return err
		}
		for i := range views {
			views[i].DryRun = false
		}
		for i := range views {
			if views[i].Edited, err = p.deleteSelected(ctx, views[i].Series, selections[i], views[i].Selected); err != nil {
				break
			}
		}
		return errors.Join(err, p.show(views, print))
	})
	flags := cmd.Flags()
	flags.StringVar(&f.before, "before", "", "delete what is from before this time: "+whenForms+"; default: what the collection keeps no longer")
	f.flags(cmd)
	return cmd
}

// Expiry is what expire does to a time series.
type Expiry struct {
	Series   string       `json:"collection"`
	DryRun   bool         `json:"dryRun"`
	Before   time.Time    `json:"before"`
	Selected sink.Amount  `json:"selected"`
	Edited   *sink.Edited `json:"edited,omitempty"`
}

// planExpiries looks at all time series before anything is deleted in the first.
func (p *Program) planExpiries(ctx context.Context, with collections, f *expireFlags) ([]Expiry, []*sink.Selection, error) {
	views, selections := []Expiry{}, []*sink.Selection{}
	before, err := f.moment()
	if err != nil {
		return views, nil, err
	}
	for _, name := range with.series {
		selection, until, err := with.database.Expired(ctx, name, before)
		switch {
		case errors.Is(err, sink.ErrNotSetUp):
			return views, nil, fmt.Errorf("there is no time series %s yet", name)
		case errors.Is(err, sink.ErrNeverExpires):
			return views, nil, fmt.Errorf("%s: %w: give --before, or let it expire with `waterwheel collection set-expiry`", name, err)
		case err != nil:
			return views, nil, fmt.Errorf("%s: %w", name, err)
		}
		amount, err := p.amountOf(ctx, name, selection)
		if err != nil {
			return views, nil, err
		}
		views, selections = append(views, Expiry{Series: name, DryRun: true, Before: until.UTC(), Selected: *amount}), append(selections, selection)
	}
	return views, selections, nil
}

// amountOf counts what is selected of a time series.
func (p *Program) amountOf(ctx context.Context, series string, s *sink.Selection) (*sink.Amount, error) {
	line := p.progress("looking at buckets of " + series)
	defer line.End()
	amount, err := s.Amount(ctx, func(buckets int64) { line.At(buckets, 0) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", series, err)
	}
	return &amount, nil
}

func printExpiries(w io.Writer, views []Expiry) {
	for _, v := range views {
		verb := "would be deleted"
		if !v.DryRun {
			verb = "were to be deleted"
		}
		fmt.Fprintf(w, "%s: %s from before %s %s.\n", v.Series, amountText(v.Selected), text.Time(v.Before), verb)
		printEdited(w, v.Edited, "deleted")
	}
}
