package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/sink"
)

// expireFlags are those of collection expire.
type expireFlags struct {
	before      string
	dryRun, yes bool
}

// moment is --before; zero: it is not given.
func (f *expireFlags) moment() (time.Time, error) { return parseWhen("--before", f.before, time.Now()) }

func (p *program) expireCommand() *cobra.Command {
	var f expireFlags
	cmd := p.onCollections(&cobra.Command{
		Use:   "expire",
		Short: "Delete what has expired, once",
		Long: "Deletes the buckets that hold only measurements older than the collection keeps them (MONGODB_EXPIRE_AFTER, collection\n" +
			"set-expiry), or than --before. It is for servers that delete nothing by themselves, and for once; run it as often as is\n" +
			"needed. Whole buckets go, so some older measurements stay until all of their bucket may be deleted.\n\n" +
			"It can be run beside consumers: one that meets a bucket which is gone opens another. With --before the command notes\n" +
			"the Kafka positions of what it deletes, as delete-meta does: `consumer verify` counts them as deleted, and a reset of\n" +
			"the group's offsets does not bring them back. What the collection keeps no longer is not noted: `verify` counts it as\n" +
			"expired by its time. A run that was interrupted is finished by the same command.",
		Example: "  consumer collection expire --dry-run\n  consumer collection expire --yes\n" +
			"  consumer collection expire --before 2026-01-01T00:00:00Z --yes",
		Args: noArguments,
		PreRunE: func(*cobra.Command, []string) error {
			if f.dryRun && f.yes {
				return usageError{errors.New("--dry-run and --yes exclude each other")}
			}
			_, err := f.moment()
			return err
		},
	}, func(ctx context.Context, with collections, _ []string) error {
		views, err := p.expire(ctx, with, &f)
		if err = errors.Join(err, p.show(views, func(w io.Writer) { printExpiries(w, views) })); err != nil || f.dryRun || f.yes {
			return err
		}
		return errors.New("nothing was deleted: repeat it with --yes to do it, or with --dry-run to only look")
	})
	flags := cmd.Flags()
	flags.StringVar(&f.before, "before", "", "delete what is from before this time: "+whenForms+"; default: what the collection keeps no longer")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what would be deleted, and do nothing")
	flags.BoolVar(&f.yes, "yes", false, "do it; without it the command shows what it would do, and fails")
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

// expire looks at all time series before it deletes in the first.
func (p *program) expire(ctx context.Context, with collections, f *expireFlags) ([]Expiry, error) {
	views, selections := []Expiry{}, []*sink.Selection{}
	before, err := f.moment()
	if err != nil {
		return views, err
	}
	for _, name := range with.series {
		selection, until, err := with.database.Expired(ctx, name, before)
		switch {
		case errors.Is(err, sink.ErrNotSetUp):
			return views, fmt.Errorf("there is no time series %s yet", name)
		case errors.Is(err, sink.ErrNeverExpires):
			return views, fmt.Errorf("%s: %w: give --before, or let it expire with `consumer collection set-expiry`", name, err)
		case err != nil:
			return views, fmt.Errorf("%s: %w", name, err)
		}
		line := p.progress("looking at buckets of " + name)
		amount, err := selection.Amount(ctx, func(buckets int64) { line.At(buckets, 0) })
		if line.End(); err != nil {
			return views, fmt.Errorf("%s: %w", name, err)
		}
		views, selections = append(views, Expiry{Series: name, DryRun: !f.yes, Before: until.UTC(), Selected: amount}), append(selections, selection)
	}
	if !f.yes {
		return views, nil
	}
	for i := range views {
		if views[i].Edited, err = p.deleteSelected(ctx, views[i].Series, selections[i], views[i].Selected); err != nil {
			return views, err
		}
	}
	return views, nil
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
