package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

func (p *Program) updateMetaCommand() *cobra.Command {
	var f metaFlags
	cmd := p.onCollections(&cobra.Command{
		Use:   "update-meta",
		Short: "Change the meta of whole series",
		Long: "Changes the meta of the series whose meta matches a query, with MongoDB's update operators ($set, $unset, $rename, …).\n" +
			"MongoDB computes each new meta. The command then brings it into the normal form in which consumers store metas. If\n" +
			"consumers would reject a new meta, the command writes nothing. It changes each bucket in one write. Consumers may keep\n" +
			"running. New measurements have the meta that producers send: change the producers first, or a series continues under\n" +
			"its former meta.\n\n" + aboutClosed +
			"Series whose new metas are equal merge, which cannot be undone: --dry-run reports them. If an update removes the whole\n" +
			"meta, the measurements join the series without meta, which is not the series with meta null.\n\n" +
			"The command notes the Kafka positions of the changed measurements. `waterwheel verify --content` counts their metas as\n" +
			"changed.\n\n" +
			"If a run is interrupted, run the same command again to finish it. Do not do so if a second run would change the series\n" +
			"again, as $inc does: the output warns about this before the first run.",
		Example: "  waterwheel collection update-meta --filter '{\"meta.sensor\": \"s-17\"}' --update '{\"$set\": {\"meta.site\": \"north\"}}' --dry-run\n" +
			"  waterwheel collection update-meta --filter '{\"meta.site\": \"old\"}' --update '{\"$unset\": {\"meta.site\": \"\"}}' --closed --yes",
		Args: noArguments,
		PreRunE: func(cmd *cobra.Command, args []string) (err error) {
			if f.update == "" {
				return usageError{errors.New(`--update is missing: give update operators, such as {"$set": {"meta.site": "north"}}`)}
			}
			if f.change, err = parseJSON(f.update); err != nil {
				return usageError{fmt.Errorf("--update is not JSON: %w (in %.80s); write double quotes around names and strings, and single quotes around the whole value", err, f.update)}
			}
			return f.check(cmd, args)
		},
	}, func(ctx context.Context, with collections, _ []string) error {
		views, err := eachSeries(with, func(s timeSeries) (*metaUpdate, error) { return p.planUpdate(ctx, s, &f) })
		return editSeries(ctx, p, f.confirmation, err, views, func(v *metaUpdate) error { return p.updateMetas(ctx, with.of(v.Series), v) })
	})
	f.flags(cmd)
	cmd.Flags().StringVar(&f.update, "update", "", "MongoDB's update operators on the meta, as JSON")
	return cmd
}

// updateMetas carries out a plan, and records the result.
func (p *Program) updateMetas(ctx context.Context, s timeSeries, view *metaUpdate) error {
	noted, err := noteEdit(ctx, s, view.plan.edited(), false)
	if err != nil {
		return err
	}
	line := p.progress("changing buckets of " + s.name)
	change := view.plan.selection.Change(view.plan.all, view.plan.changes, func(e collection.Edited) { line.At(e.Done.Buckets, view.Changed.Buckets) })
	if err = carryOut(ctx, change); err == nil {
		err = editOver(ctx, noted, change.Edited())
	}
	line.End()
	if view.Edited = new(change.Edited()); err != nil {
		return fmt.Errorf("%s: not all was changed: %w; %s", s.name, err, view.wayOut())
	}
	return nil
}

// planUpdate determines the new meta of each series, and rejects metas that are not allowed.
func (p *Program) planUpdate(ctx context.Context, s timeSeries, f *metaFlags) (*metaUpdate, error) {
	options, err := s.options(ctx)
	if err != nil {
		return nil, err
	}
	query, update, err := options.BucketUpdate(timeseries.MetaUpdate{Query: f.query, Update: f.change, Multi: true})
	if err != nil {
		return nil, translated(s.name, err)
	}
	left, err := p.compacted(ctx, s, f)
	if err != nil {
		return nil, err
	}
	plan := &metaPlan{selection: s.Select(options.TimeField, query, f.closed), closed: f.closed, segments: left}
	if plan.all, err = p.selected(ctx, s.name, plan.selection); err != nil {
		return nil, err
	}
	metas := plan.metas()
	after, err := p.tried(ctx, s.name, plan.selection, update, metas)
	if err != nil {
		return nil, err
	}
	refuseArrayKeys(ctx, s, after)
	if err := refusals(s.name, metas, after); err != nil {
		return nil, err
	}
	var results []bson.RawValue
	for i, one := range after {
		if !one.meta.Equal(metas[i]) {
			plan.changes = append(plan.changes, collection.MetaChange{Before: metas[i], After: one.meta})
			results = append(results, one.meta)
		}
	}
	// Apply the update once more. What changes again, would also change in a run that is to finish this one.
	again, err := p.tried(ctx, s.name, plan.selection, update, results)
	if err != nil {
		return nil, err
	}
	for i, one := range again {
		plan.repeats = plan.repeats || one.err != nil || !one.meta.Equal(results[i])
	}
	return plan.view(ctx, s.name, f)
}

const (
	// maxLookedFor bounds the new metas for which it is checked whether their series exist.
	maxLookedFor = 200
	// maxRefusals bounds the series that an error names.
	maxRefusals = 3
)

// triedMeta is the result of the update for a meta, in the form in which consumers would store it. err is the reason if they
// would not.
type triedMeta struct {
	meta bson.RawValue
	err  error
}

// tried applies an update to metas on the server, and brings the results into their normal form.
func (p *Program) tried(ctx context.Context, name string, s *collection.Selection, update bson.Raw, metas []bson.RawValue) ([]triedMeta, error) {
	line := p.progress("trying the update on series of " + name)
	defer line.End()
	var raw []collection.Tried
	err := retried(ctx, func() (err error) {
		raw, err = s.Try(ctx, update, metas, func(done int) { line.At(int64(done), int64(len(metas))) })
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	all := make([]triedMeta, len(raw))
	for i := range raw {
		if all[i].err = raw[i].Err; all[i].err == nil {
			all[i].meta, all[i].err = measurement.NormalMeta(raw[i].Meta)
		}
	}
	return all, nil
}

// refuseArrayKeys refuses results that are arrays if the time series is sharded by the meta. MongoDB would refuse to write them, and
// the edit would stop in the middle. Without the right to read how the time series is sharded, it refuses nothing.
func refuseArrayKeys(ctx context.Context, s timeSeries, after []triedMeta) {
	isArray := func(one triedMeta) bool { return one.err == nil && one.meta.Type == bson.TypeArray }
	if !slices.ContainsFunc(after, isArray) {
		return
	}
	sharding, err := s.Sharding(ctx)
	if err != nil || sharding.Key.Lookup(timeseries.FieldMeta).Type == 0 {
		return
	}
	for i := range after {
		if isArray(after[i]) {
			after[i].err = collection.ErrArrayMetas
		}
	}
}

// refusals returns an error that names the first metas whose results are not allowed.
func refusals(name string, before []bson.RawValue, after []triedMeta) error {
	var all []error
	n := 0
	for i, one := range after {
		if one.err == nil {
			continue
		}
		if n++; n <= maxRefusals {
			all = append(all, fmt.Errorf("%s: %w", text.Shorten(metaText{before[i]}.String(), shownMeta), one.err))
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s: nothing was changed: the update is refused for %s of %d: %w", name, seriesText(n), len(before), errors.Join(all...))
}

// metaPlan is a planned update of metas.
type metaPlan struct {
	selection *collection.Selection
	closed    bool
	segments  int // segments of a dry run, whose measurements are not in all
	all       []collection.SelectedSeries
	changes   []collection.MetaChange
	repeats   bool // a second run would change what the first one has changed
}

// metas returns the metas of the series with measurements to be changed.
func (m *metaPlan) metas() []bson.RawValue {
	var metas []bson.RawValue
	for i := range m.all {
		if within, _ := scope(&m.all[i], m.closed); !within.IsZero() {
			metas = append(metas, m.all[i].Meta)
		}
	}
	return metas
}

// each calls do for each series, with its change. A nil change means that the meta stays.
func (m *metaPlan) each(do func(s *collection.SelectedSeries, change *collection.MetaChange)) {
	changes := m.changes // in the order of all
	for i := range m.all {
		var change *collection.MetaChange
		if len(changes) > 0 && changes[0].Before.Equal(m.all[i].Meta) {
			change, changes = &changes[0], changes[1:]
		}
		do(&m.all[i], change)
	}
}

// edited returns the series that lose measurements, and those that get them.
func (m *metaPlan) edited() []bson.RawValue {
	var metas []bson.RawValue
	for _, c := range m.changes {
		metas = append(metas, c.Before, c.After)
	}
	return metas
}

// view returns the plan in printable form.
func (m *metaPlan) view(ctx context.Context, name string, f *metaFlags) (*metaUpdate, error) {
	view := &metaUpdate{
		editPlan: editPlan{name, true}, plan: m, Segments: m.segments, SeriesCount: len(m.changes), Changes: []changedMeta{}, Repeats: m.repeats && len(m.changes) > 0,
	}
	joins, err := m.joins(ctx, view)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m.each(func(s *collection.SelectedSeries, change *collection.MetaChange) {
		within, left := scope(s, m.closed)
		view.ClosedLeft.Add(left)
		if change == nil {
			view.Unchanged.Add(within)
			return
		}
		view.Changed.Add(within)
		if len(view.Changes) < f.series {
			view.Changes = append(view.Changes, changedMeta{
				Before: metaText{change.Before}, After: metaText{change.After}, Amount: within, Joins: joins[metaKey(change.After)],
			})
		}
	})
	return view, nil
}

// joins returns the new metas that several series get, or that a series has already.
func (m *metaPlan) joins(ctx context.Context, view *metaUpdate) (map[string]bool, error) {
	become := map[string]int{}
	for _, c := range m.changes {
		become[metaKey(c.After)]++
	}
	joins, looked, leaving := map[string]bool{}, map[string]bool{}, m.leaving()
	for _, c := range m.changes {
		key := metaKey(c.After)
		if become[key] > 1 {
			joins[key] = true
		} else if !leaving[key] {
			if view.Cut = len(looked) == maxLookedFor; view.Cut {
				break
			}
			looked[key] = true
			err := retried(ctx, func() (err error) {
				joins[key], err = m.selection.Holds(ctx, c.After)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	for _, c := range m.changes {
		if joins[metaKey(c.After)] {
			view.Joining++
		}
	}
	return joins, nil
}

// leaving returns the series that end, because all their measurements move to another series.
func (m *metaPlan) leaving() map[string]bool {
	leaving := map[string]bool{}
	m.each(func(s *collection.SelectedSeries, change *collection.MetaChange) {
		if _, left := scope(s, m.closed); change != nil && left.Buckets == 0 {
			leaving[metaKey(s.Meta)] = true
		}
	})
	return leaving
}

func metaKey(meta bson.RawValue) string { return string(byte(meta.Type)) + string(meta.Value) }

// metaUpdate is the result of update-meta for a time series.
type metaUpdate struct {
	editPlan
	// Changed is the amount that is changed, in SeriesCount series. Changes lists the first of them.
	Changed     collection.Amount `json:"changed"`
	SeriesCount int               `json:"series"`
	Changes     []changedMeta     `json:"changes"`
	// Joining is how many of the series merge with another series. If Cut is set, it covers only the first new metas.
	Joining int  `json:"joining"`
	Cut     bool `json:"joiningCut,omitempty"`
	// Unchanged is the amount that is selected but stays as it is.
	Unchanged collection.Amount `json:"unchanged"`
	// ClosedLeft is the amount in closed buckets, which are left alone.
	ClosedLeft collection.Amount `json:"closedLeft"`
	// Segments counts the segments of a dry run. Their measurements are in no other count.
	Segments int `json:"segments,omitempty"`
	// Repeats means that a second run would change again what the first one has changed.
	Repeats bool               `json:"changesAgain"`
	Edited  *collection.Edited `json:"edited,omitempty"`

	plan *metaPlan
}

// changedMeta is a series whose meta changes.
type changedMeta struct {
	Before metaText `json:"before,omitzero"`
	After  metaText `json:"after,omitzero"`
	collection.Amount
	Joins bool `json:"joins"` // another series has this meta, or gets it too
}

// wayOut returns what to do after the update was interrupted.
func (v *metaUpdate) wayOut() string {
	if v.Repeats {
		return "do not run the same command again, because it would change the changed series a second time: select the rest with another filter"
	}
	return "run the same command again to change the rest"
}

func (v *metaUpdate) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s of %s %s.\n", v.Series, amountText(v.Changed), seriesText(v.SeriesCount), v.verb("would be changed"))
	if len(v.Changes) > 0 {
		table := text.NewTable(w, "BEFORE", "AFTER", "BUCKETS", "MEASUREMENTS", "")
		for _, one := range v.Changes {
			note := ""
			if one.Joins {
				note = "merges with another series"
			}
			table.Row(one.Before.cell(w), one.After.cell(w), one.Buckets, one.Measurements, note)
		}
		table.Flush()
	}
	printMore(w, v.SeriesCount-len(v.Changes))
	if v.Joining > 0 {
		least := ""
		if v.Cut {
			least = "at least "
		}
		fmt.Fprintf(w, "%s%s %s with another series. This cannot be undone.\n", least, seriesText(v.Joining), words.Form(v.Joining, "merges", "merge"))
	}
	if !v.Unchanged.IsZero() {
		fmt.Fprintf(w, "Unchanged by this update: %s.\n", amountText(v.Unchanged))
	}
	printClosed(w, v.ClosedLeft)
	printSegments(w, v.Segments)
	if v.Repeats && v.DryRun {
		fmt.Fprintln(w, "A second run of this update would change the series again: do not repeat the command to finish an interrupted run.")
	}
	printEdited(w, v.Edited, "changed")
}
