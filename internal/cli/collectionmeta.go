package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/rows"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

// aboutClosed is the part of the help of the commands on metas about closed buckets and running consumers.
const aboutClosed = "The command selects whole series: the filter may name the meta field and its parts, nothing else. Like MongoDB's\n" +
	"own time series, it skips closed buckets, which are full or past their time span. The output counts them, and\n" +
	"--closed includes them. No consumer writes to a closed bucket any more, so --closed is safe. Without --closed a\n" +
	"series may be edited only in part. Buckets made from segments are always included.\n\n" +
	"The command edits buckets only. It first asks the running consumers to move measurements from segments into buckets,\n" +
	"and waits about a minute plus COMPACT_VISIBILITY_DELAY. If no consumer does this, the command ends after at most three\n" +
	"minutes, edits nothing, and says what to start. A --dry-run does not wait, and ignores measurements in segments.\n\n"

// metaFlags are the flags of the commands that edit whole series.
type metaFlags struct {
	filter, update string
	query          bson.Raw      // the parsed filter
	change         bson.RawValue // the parsed update
	closed         bool
	series         int
	keepRollups    bool // only for delete-meta
	confirmation
}

func (f *metaFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.filter, "filter", "", "query on the meta, as JSON; {} for all series")
	flags.BoolVar(&f.closed, "closed", false, "include closed buckets")
	flags.IntVar(&f.series, "series", 20, "maximum number of series to list")
	f.confirmation.flags(cmd)
}

// check parses the flags, and rejects those that are wrong whatever the settings are.
func (f *metaFlags) check(*cobra.Command, []string) (err error) {
	switch {
	case f.filter == "":
		return usageError{errors.New(`--filter is missing: select series, such as {"meta.sensor": "s-17"}, or {} for all`)}
	case f.series < 0:
		return usageError{fmt.Errorf("--series is %d: it must be 0 or more", f.series)}
	}
	f.query, err = parseObject("--filter", f.filter)
	return err
}

// compacted waits until the measurements in segments are in buckets. A dry run does not wait. left counts its segments, whose
// measurements it ignores.
func (p *Program) compacted(ctx context.Context, s timeSeries, f *metaFlags) (left int, err error) {
	compaction := s.RequestCompaction()
	line := p.progress("waiting for compaction of " + s.name + ", segments left")
	defer line.End()
	err = through(ctx, func() (progress bool, err error) {
		if f.dryRun {
			left, err = compaction.Left(ctx)
			return false, err
		}
		return compaction.Wait(ctx, func(segments int) { line.At(int64(segments), 0) })
	})
	if err != nil {
		return left, fmt.Errorf("%s: nothing was edited: %w", s.name, err)
	}
	return left, nil
}

// translated handles the error of a translation to buckets. A rejection is a mistake in the flags.
func translated(series string, err error) error {
	if _, ok := errors.AsType[*timeseries.Error](err); ok {
		return usageError{fmt.Errorf("%s: %w", series, err)}
	}
	return err
}

// edit is a collection.Change or a collection.Deletion.
type edit interface {
	Run(ctx context.Context) error
	Resolve(ctx context.Context) error
	Edited() collection.Edited
}

// These bound how long an edit continues through outages.
const (
	editTries      = 12 // consecutive tries without progress
	editPause      = 250 * time.Millisecond
	longEditPause  = 10 * time.Second
	resolveTimeout = 5 * time.Second
)

// carryOut runs an edit to its end, through outages. If it fails, it finds out how far the edit came.
func carryOut(ctx context.Context, e edit) error {
	err := through(ctx, func() (bool, error) {
		before := e.Edited().Done
		err := e.Run(ctx)
		return e.Edited().Done != before, err
	})
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
		defer cancel()
		_ = e.Resolve(ctx) // if this fails, the output says for how many buckets the result is unknown
	}
	return err
}

// through retries after outages, as long as there is some progress.
func through(ctx context.Context, try func() (progress bool, err error)) error {
	for tries := 1; ; tries++ {
		progress, err := try()
		if _, ok := errors.AsType[*mongodb.OutageError](err); !ok || ctx.Err() != nil {
			return err
		}
		if progress {
			tries = 1
		}
		if tries == editTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(editPause<<(tries-1), longEditPause)):
		}
	}
}

// retried retries after outages, for work that has no progress of its own.
func retried(ctx context.Context, try func() error) error {
	return through(ctx, func() (progress bool, err error) { return false, try() })
}

// noteEdit records an edit of series for the rollups of a time series, before the edit begins.
func noteEdit(ctx context.Context, s timeSeries, metas []bson.RawValue, deletes bool) (noted *sink.RollupEdit, err error) {
	err = retried(ctx, func() error {
		if noted != nil {
			return noted.Note(ctx)
		}
		noted, err = sink.BeginRollupEdit(ctx, s.Ports(), s.database.WriteTimeout(), metas, deletes)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: nothing was edited: %w", s.name, err)
	}
	return noted, err
}

// editOver records the end of an edit of series, so that consumers compute the rollups for the last time.
func editOver(ctx context.Context, noted *sink.RollupEdit, edited collection.Edited) error {
	return retried(ctx, func() error { return noted.Done(ctx, edited.Shown) })
}

// shownMeta is the maximum number of characters of a meta in a table.
const shownMeta = 80

// metaText is a meta, formatted for people and JSON.
type metaText struct{ bson.RawValue }

// IsZero reports whether there is no meta. JSON then omits it.
func (m metaText) IsZero() bool { return m.Type == 0 }

// MarshalJSON returns relaxed Extended JSON.
func (m metaText) MarshalJSON() ([]byte, error) { return rows.Extended(m.RawValue) }

// String returns the whole meta.
func (m metaText) String() string {
	if m.IsZero() {
		return "(no meta)"
	}
	written, err := m.MarshalJSON()
	if err != nil {
		return fmt.Sprintf("a malformed %s", m.Type)
	}
	return string(written)
}

// cell returns the meta for a table.
func (m metaText) cell(w io.Writer) string { return text.Fit(w, m.String(), shownMeta) }

func amountText(a collection.Amount) string {
	return fmt.Sprintf("%s with %s", words.Count(a.Buckets, "bucket"), words.Count(a.Measurements, "measurement"))
}

func seriesText(n int) string { return words.Count(n, "series") }

// printMore reports the number of series that are not listed.
func printMore(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(w, "… and %s more; --series sets how many are listed\n", seriesText(n))
	}
}

// printClosed reports closed buckets that are left alone.
func printClosed(w io.Writer, left collection.Amount) {
	if left.Buckets > 0 {
		fmt.Fprintf(w, "Closed buckets are skipped, as MongoDB does: %s of these series. --closed includes them.\n", amountText(left))
	}
}

// printSegments reports segments that a dry run has ignored.
func printSegments(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(w, "Not counted: measurements in %s. The command waits for their compaction, and edits their buckets too; a dry run does not wait.\n",
			words.Count(n, "segment"))
	}
}

// printEdited reports the result of an edit. Nil means that there was none.
func printEdited(w io.Writer, e *collection.Edited, done string) { printAmount(w, e, amountText, done) }

// printAmount is printEdited with another text for the amount.
func printAmount(w io.Writer, e *collection.Edited, amount func(collection.Amount) string, done string) {
	if e == nil {
		fmt.Fprintln(w, "Nothing was changed.")
		return
	}
	fmt.Fprintf(w, "Done: %s %s.\n", amount(e.Done), done)
	if e.Missed > 0 {
		fmt.Fprintf(w, "Skipped: %s that other processes closed, edited or deleted in the meantime.\n", words.Count(e.Missed, "document"))
	}
	if e.Appeared > 0 {
		fmt.Fprintf(w, "Skipped: %s of series that appeared in the meantime; run the same command again for them.\n", words.Count(e.Appeared, "bucket"))
	}
	if e.Unsure > 0 {
		fmt.Fprintf(w, "Outcome unknown: %s, because MongoDB did not answer.\n", words.Count(e.Unsure, "document"))
	}
}

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
		views, err := eachSeries(with, func(s timeSeries) (*MetaDeletion, error) { return p.planDeletion(ctx, s, &f) })
		return editSeries(ctx, p, f.confirmation, err, views, func(v *MetaDeletion) error {
			return p.deleteSeries(ctx, with.of(v.Series), v, f.keepRollups)
		})
	})
	f.flags(cmd)
	cmd.Flags().BoolVar(&f.keepRollups, "keep-rollups", false, "keep the totals of the deleted series in rollups")
	return cmd
}

// deleteSeries deletes the series of a view. Unless keepRollups is set, it also has their rollups updated.
func (p *Program) deleteSeries(ctx context.Context, s timeSeries, view *MetaDeletion, keepRollups bool) (err error) {
	var noted *sink.RollupEdit
	if !keepRollups {
		if noted, err = noteEdit(ctx, s, view.all, true); err != nil {
			return err
		}
	}
	deletion := func(progress func(collection.Edited)) *collection.Deletion {
		return view.selection.DeleteSeries(view.all, progress)
	}
	if view.Edited, err = p.deleteSelected(ctx, s.name, deletion, view.Selected); err != nil {
		return err
	}
	return editOver(ctx, noted, *view.Edited)
}

// planDeletion determines what would be deleted of a time series.
func (p *Program) planDeletion(ctx context.Context, s timeSeries, f *metaFlags) (*MetaDeletion, error) {
	options, err := s.options(ctx)
	if err != nil {
		return nil, err
	}
	onBuckets, err := options.BucketDelete(timeseries.MetaDelete{Query: f.query, Multi: true})
	if err != nil {
		return nil, translated(s.name, err)
	}
	left, err := p.compacted(ctx, s, f)
	if err != nil {
		return nil, err
	}
	selection := s.Select(options.TimeField, onBuckets, f.closed)
	all, err := p.selected(ctx, s.name, selection)
	if err != nil {
		return nil, err
	}
	return newMetaDeletion(s.name, selection, all, left, f), nil
}

// deleteSelected runs a deletion, which begin makes. selected is the approximate amount of its buckets.
func (p *Program) deleteSelected(
	ctx context.Context, name string, begin func(progress func(collection.Edited)) *collection.Deletion, selected collection.Amount,
) (*collection.Edited, error) {
	line := p.progress("deleting buckets of " + name)
	deletion := begin(func(e collection.Edited) { line.At(e.Done.Buckets, selected.Buckets) })
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
	err = retried(ctx, func() error {
		all, err = s.Series(ctx, func(buckets int64) { line.At(buckets, 0) })
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}

// MetaDeletion is the result of delete-meta for a time series.
type MetaDeletion struct {
	editPlan
	// Selected is the amount to be deleted. It belongs to SeriesCount series, of which Metas lists the first.
	Selected    collection.Amount `json:"selected"`
	SeriesCount int               `json:"series"`
	Metas       []metaAmount      `json:"metas"`
	// ClosedLeft is the amount in closed buckets, which are left alone.
	ClosedLeft collection.Amount `json:"closedLeft"`
	// Segments counts the segments of a dry run. Their measurements are in no other count.
	Segments int                `json:"segments,omitempty"`
	Edited   *collection.Edited `json:"edited,omitempty"`

	selection *collection.Selection
	all       []bson.RawValue // the series that lose measurements
}

// metaAmount is a series, and how much of it is edited.
type metaAmount struct {
	Meta metaText `json:"meta,omitzero"`
	collection.Amount
}

func newMetaDeletion(name string, s *collection.Selection, all []collection.SelectedSeries, segments int, f *metaFlags) *MetaDeletion {
	view := &MetaDeletion{editPlan: editPlan{name, true}, selection: s, Segments: segments, Metas: []metaAmount{}}
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
	fmt.Fprintf(w, "%s: %s of %s %s.\n", v.Series, amountText(v.Selected), seriesText(v.SeriesCount), v.verb("would be deleted"))
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
