package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/words"
)

func (p *Program) expireCommand() *cobra.Command {
	var told confirmation
	var given string
	var before time.Time // Zero means that --before is not given.
	cmd := p.onCollections(&cobra.Command{
		Use:   "expire",
		Short: "Delete expired measurements and rollup rows once",
		Long: "Deletes the buckets whose measurements are all older than the collection's expiry (MONGODB_EXPIRE_AFTER, collection\n" +
			"set-expiry), or older than --before. Use it once, or regularly on servers that do not delete expired documents\n" +
			"themselves. It deletes whole buckets only, so some older measurements stay until their whole bucket is old enough.\n" +
			"Without --before it also deletes the expired rows of rollups, by the expiries of ROLLUP_LEVELS.\n\n" +
			"Consumers may keep running: they open a new bucket in place of a deleted one. With --before the command notes the\n" +
			"Kafka positions of the deleted measurements, as delete-meta does. `waterwheel verify` then counts them as deleted, and\n" +
			"a reset of the group's offsets does not store them again. Without --before it notes nothing: `verify` counts these\n" +
			"measurements as expired by their time. If a run is interrupted, run the same command again to finish it.",
		Example: "  waterwheel collection expire --dry-run\n  waterwheel collection expire --yes\n" +
			"  waterwheel collection expire --before 2026-01-01T00:00:00Z --yes",
		Args: noArguments,
		PreRunE: func(*cobra.Command, []string) (err error) {
			before, err = parseWhen("--before", given, time.Now(), time.UTC)
			return err
		},
	}, func(ctx context.Context, with collections, _ []string) error {
		views, err := p.planExpiries(ctx, with, before)
		return editSeries(ctx, p, told, err, views, func(v *expiryView) (err error) {
			v.Edited, err = p.deleteSelected(ctx, v.Series, v.selection.Delete, v.Selected)
			return err
		})
	})
	cmd.Flags().StringVar(&given, "before", "", "delete measurements older than this time: "+whenForms+"; default: the collection's expiry")
	told.flags(cmd)
	return cmd
}

// expiryView is the result of expire for a time series.
type expiryView struct {
	editPlan
	// Rollup reports that this is a level of rollups. Its measurements are rows.
	Rollup   bool               `json:"rollup,omitempty"`
	Before   time.Time          `json:"before"`
	Selected collection.Amount  `json:"selected"`
	Edited   *collection.Edited `json:"edited,omitempty"`

	selection *collection.Selection
}

func (v *expiryView) print(w io.Writer) {
	amount := amountText
	if v.Rollup {
		amount = rowsText
	}
	fmt.Fprintf(w, "%s: %s from before %s %s.\n", v.Series, amount(v.Selected), text.Time(v.Before), v.verb("would be deleted"))
	printAmount(w, v.Edited, amount, "deleted")
}

// rowsText formats an amount of rollups.
func rowsText(a collection.Amount) string {
	return fmt.Sprintf("%s with %s of rollups", words.Count(a.Buckets, "document"), words.Count(a.Measurements, "row"))
}

// planExpiries determines what would be deleted of each time series. Rollups outlive their measurements, so --before leaves them
// alone. Without --before each level with an expiry has a plan of its own.
func (p *Program) planExpiries(ctx context.Context, with collections, before time.Time) (plans []*expiryView, err error) {
	for _, name := range with.series {
		s := with.of(name)
		var levels []*expiryView
		if before.IsZero() {
			if levels, err = p.planLevels(ctx, with, s); err != nil {
				return plans, err
			}
		}
		plan, err := p.planExpiry(ctx, s, before)
		switch {
		case err == nil:
			plans = append(plans, plan)
		case !errors.Is(err, collection.ErrNeverExpires):
			return plans, seriesError(name, err)
		case len(levels) == 0:
			return plans, fmt.Errorf("%w: give --before, or set an expiry with `waterwheel collection set-expiry`", err)
		}
		plans = append(plans, levels...)
	}
	return plans, nil
}

// planLevels determines what would be deleted of the rollups of a time series. It leaves out levels without an expiry, and levels
// that are being dropped.
func (p *Program) planLevels(ctx context.Context, with collections, s timeSeries) (plans []*expiryView, err error) {
	names, err := s.LevelNames(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	for _, name := range names {
		plan, err := p.planExpiry(ctx, with.of(name), time.Time{})
		switch {
		case err == nil:
			plan.Rollup = true
			plans = append(plans, plan)
		case !errors.Is(err, collection.ErrNeverExpires) && !errors.Is(err, collection.ErrNotSetUp):
			return plans, err
		}
	}
	return plans, nil
}

// planExpiry determines what would be deleted of a time series, or of a level of rollups.
func (p *Program) planExpiry(ctx context.Context, s timeSeries, before time.Time) (*expiryView, error) {
	selection, until, err := s.Expired(ctx, before)
	switch {
	case errors.Is(err, collection.ErrNotSetUp):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	amount, err := p.amountOf(ctx, s.name, selection)
	if err != nil {
		return nil, err
	}
	return &expiryView{editPlan: editPlan{s.name, true}, Before: until.UTC(), Selected: *amount, selection: selection}, nil
}
