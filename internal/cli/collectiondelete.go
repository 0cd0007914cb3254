package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

func (p *Program) deleteMetaCommand() *cobra.Command {
	var f metaFlags
	cmd := p.onCollections(&cobra.Command{
		Use:   "delete-meta",
		Short: "Delete whole series",
		Long: "Deletes all measurements of the series whose meta matches a query. Consumers may keep running. Records of these\n" +
			"series that they read for the first time afterwards are stored as usual.\n\n" + aboutClosed +
			"The command notes the Kafka positions of the deleted measurements in the collection's options. `waterwheel verify`\n" +
			"counts these measurements as deleted. Consumers that read their records again, after a reset of the group's offsets,\n" +
			"do not store them again. The runbook describes how to undo this.\n\n" +
			"Consumers that maintain rollups delete the totals of these series within some minutes. With --keep-rollups the\n" +
			"totals stay.\n\n" +
			"If a run is interrupted, run the same command again to finish it.",
		Example: "  waterwheel collection delete-meta --filter '{\"meta.sensor\": \"s-17\"}' --dry-run\n" +
			"  waterwheel collection delete-meta --filter '{\"meta.sensor\": \"s-17\"}' --closed --yes",
		Args:    noArguments,
		PreRunE: f.check,
	}, func(ctx context.Context, with collections, _ []string) error {
		views, selections, err := p.planDeletions(ctx, with, &f)
		print := func(w io.Writer) {
			for i := range views {
				views[i].print(w)
			}
		}
		return p.edit(ctx, f.confirmation, err, views, print, func() (err error) {
			for i := range views {
				views[i].DryRun = false
			}
			for i := range views {
				if err = p.deleteSeries(ctx, with.database, &views[i], selections[i], f.keepRollups); err != nil {
					break
				}
			}
			return err
		})
	})
	f.flags(cmd)
	cmd.Flags().BoolVar(&f.keepRollups, "keep-rollups", false, "keep the totals of the deleted series in rollups")
	return cmd
}

// deleteSeries deletes the series of a view. Unless keepRollups is set, it also has their rollups updated.
func (p *Program) deleteSeries(ctx context.Context, database *mongodb.Database, view *MetaDeletion, s *collection.Selection, keepRollups bool) (err error) {
	var noted *sink.RollupEdit
	if !keepRollups {
		if noted, err = p.noteEdit(ctx, database, view.Series, view.all, true); err != nil {
			return err
		}
	}
	if view.Edited, err = p.deleteSelected(ctx, view.Series, s, view.Selected); err != nil {
		return err
	}
	return p.editOver(ctx, noted, *view.Edited)
}

// planDeletions examines all time series before anything is deleted.
func (p *Program) planDeletions(ctx context.Context, with collections, f *metaFlags) ([]MetaDeletion, []*collection.Selection, error) {
	views, selections := []MetaDeletion{}, []*collection.Selection{}
	query, err := queryFlag("--filter", f.filter)
	if err != nil {
		return views, nil, err
	}
	for _, name := range with.series {
		options, err := definition(ctx, with.database, name)
		if err != nil {
			return views, nil, err
		}
		onBuckets, err := options.BucketDelete(timeseries.MetaDelete{Query: query, Multi: true})
		if err != nil {
			return views, nil, translated(name, err)
		}
		left, err := p.compacted(ctx, with.database, name, f)
		if err != nil {
			return views, nil, err
		}
		selection := with.of(name).Select(options.TimeField, onBuckets, f.closed)
		all, err := p.selected(ctx, name, selection)
		if err != nil {
			return views, nil, err
		}
		views, selections = append(views, newMetaDeletion(name, all, left, f)), append(selections, selection)
	}
	return views, selections, nil
}

// deleteSelected deletes the buckets of a selection. selected is their approximate amount.
func (p *Program) deleteSelected(ctx context.Context, name string, s *collection.Selection, selected collection.Amount) (*collection.Edited, error) {
	line := p.progress("deleting buckets of " + name)
	deletion := s.Delete(func(e collection.Edited) { line.At(e.Done.Buckets, selected.Buckets) })
	err := carryOut(ctx, deletion)
	line.End()
	edited := deletion.Edited()
	if err != nil {
		err = fmt.Errorf("%s: not all was deleted: %w; run the same command again to delete the rest", name, err)
	}
	return &edited, err
}

// selected lists the series of a selection.
func (p *Program) selected(ctx context.Context, name string, s *collection.Selection) (all []collection.SelectedSeries, err error) {
	line := p.progress("reading buckets of " + name)
	defer line.End()
	err = through(ctx, func() (bool, error) {
		all, err = s.Series(ctx, func(buckets int64) { line.At(buckets, 0) })
		return false, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}

// MetaDeletion is the result of delete-meta for a time series.
type MetaDeletion struct {
	Series string `json:"collection"`
	DryRun bool   `json:"dryRun"`
	// Selected is the amount to be deleted. It belongs to SeriesCount series, of which Metas lists the first.
	Selected    collection.Amount `json:"selected"`
	SeriesCount int               `json:"series"`
	Metas       []metaAmount      `json:"metas"`
	// ClosedLeft is the amount in closed buckets, which are left alone.
	ClosedLeft collection.Amount `json:"closedLeft"`
	// Segments counts the segments of a dry run. Their measurements are in no other count.
	Segments int                `json:"segments,omitempty"`
	Edited   *collection.Edited `json:"edited,omitempty"`

	all []bson.RawValue // the series that lose measurements
}

// metaAmount is a series, and how much of it is edited.
type metaAmount struct {
	Meta metaText `json:"meta,omitzero"`
	collection.Amount
}

func newMetaDeletion(name string, all []collection.SelectedSeries, segments int, f *metaFlags) MetaDeletion {
	view := MetaDeletion{Series: name, DryRun: true, Segments: segments, Metas: []metaAmount{}}
	for i := range all {
		within, left := scope(&all[i], f.closed)
		view.ClosedLeft.Add(left)
		if within.IsZero() {
			continue
		}
		view.SeriesCount++
		view.Selected.Add(within)
		view.all = append(view.all, all[i].Meta)
		if len(view.Metas) < f.series {
			view.Metas = append(view.Metas, metaAmount{metaText{all[i].Meta}, within})
		}
	}
	return view
}

// scope returns how much of a series is edited, and how much is left alone.
func scope(s *collection.SelectedSeries, closed bool) (within, left collection.Amount) {
	if !closed {
		return s.Open, s.Closed
	}
	within = s.Open
	within.Add(s.Closed)
	return within, left
}

func (v *MetaDeletion) print(w io.Writer) {
	verb := "would be deleted"
	if !v.DryRun {
		verb = "were selected"
	}
	fmt.Fprintf(w, "%s: %s of %s %s.\n", v.Series, amountText(v.Selected), seriesText(v.SeriesCount), verb)
	if len(v.Metas) > 0 {
		table := text.NewTable(w, "META", "BUCKETS", "MEASUREMENTS")
		for _, one := range v.Metas {
			table.Row(one.Meta.cell(w), one.Buckets, one.Measurements)
		}
		table.Flush()
	}
	printMore(w, v.SeriesCount-len(v.Metas))
	printClosed(w, v.ClosedLeft)
	printSegments(w, v.Segments)
	printEdited(w, v.Edited, "deleted")
}

// expireFlags are the flags of collection expire.
type expireFlags struct {
	before string
	confirmation
}

// moment parses --before. Zero means that it is not given.
func (f *expireFlags) moment() (time.Time, error) {
	return parseWhen("--before", f.before, time.Now(), time.UTC)
}

func (p *Program) expireCommand() *cobra.Command {
	var f expireFlags
	cmd := p.onCollections(&cobra.Command{
		Use:   "expire",
		Short: "Delete expired measurements once",
		Long: "Deletes the buckets whose measurements are all older than the collection's expiry (MONGODB_EXPIRE_AFTER, collection\n" +
			"set-expiry), or older than --before. Use it once, or regularly on servers that do not delete expired documents\n" +
			"themselves. It deletes whole buckets only, so some older measurements stay until their whole bucket is old enough.\n\n" +
			"Consumers may keep running: they open a new bucket in place of a deleted one. With --before the command notes the\n" +
			"Kafka positions of the deleted measurements, as delete-meta does. `waterwheel verify` then counts them as deleted, and\n" +
			"a reset of the group's offsets does not store them again. Without --before it notes nothing: `verify` counts these\n" +
			"measurements as expired by their time. If a run is interrupted, run the same command again to finish it.",
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
		return p.edit(ctx, f.confirmation, err, views, print, func() (err error) {
			for i := range views {
				views[i].DryRun = false
			}
			for i := range views {
				if views[i].Edited, err = p.deleteSelected(ctx, views[i].Series, selections[i], views[i].Selected); err != nil {
					break
				}
			}
			return err
		})
	})
	flags := cmd.Flags()
	flags.StringVar(&f.before, "before", "", "delete measurements older than this time: "+whenForms+"; default: the collection's expiry")
	f.flags(cmd)
	return cmd
}

// expiryView is the result of expire for a time series.
type expiryView struct {
	Series   string             `json:"collection"`
	DryRun   bool               `json:"dryRun"`
	Before   time.Time          `json:"before"`
	Selected collection.Amount  `json:"selected"`
	Edited   *collection.Edited `json:"edited,omitempty"`
}

// planExpiries examines all time series before anything is deleted.
func (p *Program) planExpiries(ctx context.Context, with collections, f *expireFlags) ([]expiryView, []*collection.Selection, error) {
	views, selections := []expiryView{}, []*collection.Selection{}
	before, err := f.moment()
	if err != nil {
		return views, nil, err
	}
	for _, name := range with.series {
		selection, until, err := with.of(name).Expired(ctx, before)
		switch {
		case errors.Is(err, collection.ErrNotSetUp):
			return views, nil, fmt.Errorf("there is no time series %s yet", name)
		case errors.Is(err, collection.ErrNeverExpires):
			return views, nil, fmt.Errorf("%s: %w: give --before, or set an expiry with `waterwheel collection set-expiry`", name, err)
		case err != nil:
			return views, nil, fmt.Errorf("%s: %w", name, err)
		}
		amount, err := p.amountOf(ctx, name, selection)
		if err != nil {
			return views, nil, err
		}
		views, selections = append(views, expiryView{Series: name, DryRun: true, Before: until.UTC(), Selected: *amount}), append(selections, selection)
	}
	return views, selections, nil
}

// amountOf counts the selected buckets of a time series.
func (p *Program) amountOf(ctx context.Context, series string, s *collection.Selection) (*collection.Amount, error) {
	line := p.progress("reading buckets of " + series)
	defer line.End()
	amount, err := s.Amount(ctx, func(buckets int64) { line.At(buckets, 0) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", series, err)
	}
	return &amount, nil
}

func printExpiries(w io.Writer, views []expiryView) {
	for _, v := range views {
		verb := "would be deleted"
		if !v.DryRun {
			verb = "were selected"
		}
		fmt.Fprintf(w, "%s: %s from before %s %s.\n", v.Series, amountText(v.Selected), text.Time(v.Before), verb)
		printEdited(w, v.Edited, "deleted")
	}
}
