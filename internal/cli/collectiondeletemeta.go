package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

func (p *Program) deleteMetaCommand() *cobra.Command {
	var f metaFlags
	cmd := p.onCollections(&cobra.Command{
		Use:   "delete-meta",
		Short: "Delete whole series",
		Long: "Deletes the measurements of the series that a query on their meta finds. It can be run beside consumers: they notice\n" +
			"it, and go on; what they read of these series for the first time afterwards is stored, as ever.\n\n" + aboutClosed +
			"The command notes the Kafka positions of what it deletes in the collection's options. `waterwheel verify` counts these\n" +
			"measurements as deleted, and consumers that read their records again, after a reset of the group's offsets, do not\n" +
			"store them again. The runbook says how to take that back.\n\n" +
			"A run that was interrupted is finished by the same command.",
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
	f.flags(cmd)
	return cmd
}

// planDeletions looks at all time series before anything is deleted in the first.
func (p *Program) planDeletions(ctx context.Context, with collections, f *metaFlags) ([]MetaDeletion, []*sink.Selection, error) {
	views, selections := []MetaDeletion{}, []*sink.Selection{}
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
		if err := p.compacted(ctx, with.database, name, f); err != nil {
			return views, nil, err
		}
		selection := with.database.Select(name, onBuckets, f.closed)
		all, err := p.selected(ctx, name, selection)
		if err != nil {
			return views, nil, err
		}
		views, selections = append(views, newMetaDeletion(name, all, f)), append(selections, selection)
	}
	return views, selections, nil
}

// deleteSelected deletes the buckets of a selection, of which there are about so many.
func (p *Program) deleteSelected(ctx context.Context, name string, s *sink.Selection, selected sink.Amount) (*sink.Edited, error) {
	line := p.progress("deleting buckets of " + name)
	deletion := s.Delete(func(e sink.Edited) { line.At(e.Done.Buckets, selected.Buckets) })
	err := carryOut(ctx, deletion)
	line.End()
	edited := deletion.Edited()
	if err != nil {
		err = fmt.Errorf("%s: interrupted; run it again to delete the rest: %w", name, err)
	}
	return &edited, err
}

// selected lists the series of a selection.
func (p *Program) selected(ctx context.Context, name string, s *sink.Selection) (all []sink.SelectedSeries, err error) {
	line := p.progress("looking at buckets of " + name)
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

// MetaDeletion is what delete-meta does to a time series.
type MetaDeletion struct {
	Series string `json:"collection"`
	DryRun bool   `json:"dryRun"`
	// Selected is what is deleted, in Metas of SeriesCount series, the first of which are listed.
	Selected    sink.Amount  `json:"selected"`
	SeriesCount int          `json:"series"`
	Metas       []metaAmount `json:"metas"`
	// ClosedLeft is in closed buckets, which are left alone.
	ClosedLeft sink.Amount  `json:"closedLeft"`
	Edited     *sink.Edited `json:"edited,omitempty"`
}

// metaAmount is a series and how much of it is edited.
type metaAmount struct {
	Meta metaText `json:"meta,omitzero"`
	sink.Amount
}

func newMetaDeletion(name string, all []sink.SelectedSeries, f *metaFlags) MetaDeletion {
	view := MetaDeletion{Series: name, DryRun: true, Metas: []metaAmount{}}
	for i := range all {
		within, left := scope(&all[i], f.closed)
		view.ClosedLeft.Add(left)
		if within.IsZero() {
			continue
		}
		view.SeriesCount++
		view.Selected.Add(within)
		if len(view.Metas) < f.series {
			view.Metas = append(view.Metas, metaAmount{metaText{all[i].Meta}, within})
		}
	}
	return view
}

// scope is what of a series is edited, and what is left alone.
func scope(s *sink.SelectedSeries, closed bool) (within, left sink.Amount) {
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
		verb = "were to be deleted"
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
	printEdited(w, v.Edited, "deleted")
}
