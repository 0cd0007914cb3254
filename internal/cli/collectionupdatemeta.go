package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

func (p *Program) updateMetaCommand() *cobra.Command {
	var f metaFlags
	cmd := p.onCollections(&cobra.Command{
		Use:   "update-meta",
		Short: "Change the meta of whole series",
		Long: "Changes the meta of the series that a query on it finds, by the operators of MongoDB's updates ($set, $unset, $rename,\n" +
			"…). MongoDB itself works out what each meta becomes; it is then brought into the normal form, in which consumers store\n" +
			"it, and a meta that consumers would refuse is refused before anything is written. Each bucket is changed in one write.\n" +
			"It can be run beside consumers: they notice it, and go on. The meta of new measurements is what producers send: change\n" +
			"it there first, or a series goes on under its former meta.\n\n" + aboutClosed +
			"Series whose new metas are equal become one, which nothing takes apart again: --dry-run says so. Without any meta left\n" +
			"a series is that of the measurements without meta, which is another one than null.\n\n" +
			"The command notes the Kafka positions of what it changes: `waterwheel verify --content` counts these metas as changed.\n\n" +
			"A run that was interrupted is finished by the same command, unless the update changes its own results again, as $inc\n" +
			"does: the output says so before.",
		Example: "  waterwheel collection update-meta --filter '{\"meta.sensor\": \"s-17\"}' --update '{\"$set\": {\"meta.site\": \"north\"}}' --dry-run\n" +
			"  waterwheel collection update-meta --filter '{\"meta.site\": \"old\"}' --update '{\"$unset\": {\"meta.site\": \"\"}}' --closed --yes",
		Args: noArguments,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if f.update == "" {
				return usageError{errors.New(`--update is missing: say what changes, as {"$set": {"meta.site": "north"}}`)}
			}
			return f.check(cmd, args)
		},
	}, func(ctx context.Context, with collections, _ []string) error {
		views, plans, err := p.planUpdates(ctx, with, &f)
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
		return errors.Join(p.updateMetas(ctx, views, plans), p.show(views, print))
	})
	f.flags(cmd)
	cmd.Flags().StringVar(&f.update, "update", "", "operators on the meta, as JSON")
	return cmd
}

// planUpdates plans the update of all time series before anything is written to the first.
func (p *Program) planUpdates(ctx context.Context, with collections, f *metaFlags) ([]MetaUpdate, []*metaPlan, error) {
	views, plans := []MetaUpdate{}, []*metaPlan{}
	query, err := queryFlag("--filter", f.filter)
	if err != nil {
		return views, nil, err
	}
	update, err := jsonFlag("--update", f.update)
	if err != nil {
		return views, nil, err
	}
	for _, name := range with.series {
		plan, err := p.planUpdate(ctx, with.database, name, timeseries.MetaUpdate{Query: query, Update: update, Multi: true}, f)
		if err != nil {
			return views, nil, err
		}
		view, err := plan.view(ctx, name, f)
		if err != nil {
			return views, nil, err
		}
		views, plans = append(views, view), append(plans, plan)
	}
	return views, plans, nil
}

// updateMetas carries plans out, and notes in the views what became of them.
func (p *Program) updateMetas(ctx context.Context, views []MetaUpdate, plans []*metaPlan) error {
	for i := range views {
		views[i].DryRun = false
	}
	for i := range views {
		view, plan := &views[i], plans[i]
		line := p.progress("changing buckets of " + view.Series)
		change := plan.selection.Change(plan.all, plan.changes, func(e sink.Edited) { line.At(e.Done.Buckets, view.Changed.Buckets) })
		err := carryOut(ctx, change)
		line.End()
		edited := change.Edited()
		if view.Edited = &edited; err != nil {
			return fmt.Errorf("%s: interrupted: %s: %w", view.Series, view.wayOut(), err)
		}
	}
	return nil
}

// planUpdate works out what becomes of each series, and refuses what may not be.
func (p *Program) planUpdate(
	ctx context.Context, database *sink.Database, name string, u timeseries.MetaUpdate, f *metaFlags,
) (*metaPlan, error) {
	options, err := definition(ctx, database, name)
	if err != nil {
		return nil, err
	}
	query, update, err := options.BucketUpdate(u)
	if err != nil {
		return nil, translated(name, err)
	}
	if err := p.compacted(ctx, database, name, f); err != nil {
		return nil, err
	}
	selection := database.Select(name, query, f.closed)
	plan := &metaPlan{selection: selection, closed: f.closed}
	if plan.all, err = p.selected(ctx, name, plan.selection); err != nil {
		return nil, err
	}
	metas := plan.metas()
	after, err := p.tried(ctx, name, plan.selection, update, metas)
	if err != nil {
		return nil, err
	}
	if err := refusals(name, metas, after); err != nil {
		return nil, err
	}
	plan.setChanges(metas, after)
	// Once more: what changes again then, a run that is to finish this one would change again.
	results := plan.results()
	again, err := p.tried(ctx, name, plan.selection, update, results)
	if err != nil {
		return nil, err
	}
	plan.repeats = slices.ContainsFunc(again, func(one triedMeta) bool { return one.err != nil })
	for i := range again {
		plan.repeats = plan.repeats || !sameMeta(results[i], again[i].meta)
	}
	return plan, nil
}
