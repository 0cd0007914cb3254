package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/keeper"
	"waterwheel/internal/rollup"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

func (p *Program) rollupCommand() *cobra.Command {
	return family("rollup", "Show rollups, build them for past measurements, and check them",
		"Rollups are totals of measurements by minute, hour and day. `waterwheel run` creates the levels of ROLLUP_LEVELS, and\n"+
			"maintains all levels until `waterwheel rollup drop` deletes them. These commands work on the rollups of the time series\n"+
			"of KAFKA_TOPICS. Consumers may keep running.",
		p.rollupStatusCommand(), p.rollupBuildCommand(), p.rollupVerifyCommand(), p.rollupExportCommand(), p.rollupDropCommand())
}

// rollups prepares work on the rollups of a time series. It returns an error if there are none.
func rollups(ctx context.Context, s timeSeries) (*sink.Rollups, *keeper.Command, error) {
	r := sink.RollupsOf(s.database, s.name)
	command, err := keeper.NewCommand(ctx, r)
	switch {
	case errors.Is(err, collection.ErrNotSetUp):
		err = seriesError(s.name, err)
	case err != nil:
		err = fmt.Errorf("%s: %w", s.name, err)
	case len(command.Levels()) == 0:
		err = fmt.Errorf("%s has no rollups: set ROLLUP_LEVELS, and start `waterwheel run` or `waterwheel init`", s.name)
	}
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return r, command, nil
}

// rollupView is the output of rollup status for a time series.
type rollupView struct {
	Series     string                `json:"collection"`
	Levels     []rollupLevelView     `json:"levels"`
	Partitions []rollupPartitionView `json:"partitions"`
	// Edits is the number of notes of edited series whose rows are computed again.
	Edits int `json:"edits"`
}

// rollupLevelView describes a level.
type rollupLevelView struct {
	Name       string `json:"name"`
	Collection string `json:"collection"`
	// ExpireAfterSeconds is how long rows are kept. Zero means for ever.
	ExpireAfterSeconds int64      `json:"expireAfterSeconds,omitempty"`
	Since              *time.Time `json:"since,omitempty"` // the time from which on it is complete; absent means always
	Fields             []string   `json:"fields,omitempty"`
}

// rollupPartitionView is the progress of the rollups of a partition.
type rollupPartitionView struct {
	Partition string     `json:"partition"`
	Below     int64      `json:"below"`
	At        *time.Time `json:"at,omitempty"`
}

func (p *Program) rollupStatusCommand() *cobra.Command {
	return p.onCollections(&cobra.Command{
		Use:   "status",
		Short: "Show the levels of rollups, since when they are complete, and their progress",
		Long: "Shows the levels of each time series, and the time since which the rows of a level are complete. For each partition it\n" +
			"shows the offset below which all measurements are in rows, and when a consumer reached that offset.",
		Example: "  waterwheel rollup status",
		Args:    noArguments,
	}, func(ctx context.Context, with collections, _ []string) error {
		views, err := eachSeries(with, func(s timeSeries) (*rollupView, error) { return readRollupView(ctx, s) })
		if err != nil {
			return err
		}
		return p.show(views, printAll(views))
	})
}

func readRollupView(ctx context.Context, s timeSeries) (*rollupView, error) {
	view := &rollupView{Series: s.name, Levels: []rollupLevelView{}, Partitions: []rollupPartitionView{}}
	r, command, err := rollups(ctx, s)
	if err != nil {
		return view, err
	}
	defer r.Close()
	for _, level := range command.Levels() {
		defined, _ := command.Defined().Level(level.Name)
		view.Levels = append(view.Levels, rollupLevelView{
			Name: level.Name, Collection: level.SeriesName(s.name), ExpireAfterSeconds: int64(level.Expire / time.Second),
			Since: defined.Since, Fields: defined.Fields,
		})
	}
	partitions, err := r.Partitions(ctx)
	if err != nil {
		return view, err
	}
	for _, p := range partitions {
		for _, mark := range p.Watermarks {
			name := fmt.Sprintf("%s/%d", p.Topic, p.PartitionDocument.Partition)
			if mark.Topic() != p.TopicID {
				name += " (former topic)"
			}
			view.Partitions = append(view.Partitions, rollupPartitionView{Partition: name, Below: mark.Below, At: mark.At})
		}
	}
	notes, err := r.Notes(ctx)
	view.Edits = len(notes)
	return view, err
}

func (v *rollupView) print(w io.Writer) {
	levels := text.NewTable(w, "LEVEL", "COLLECTION", "KEPT", "COMPLETE SINCE")
	for _, l := range v.Levels {
		kept, since := "for ever", "the beginning"
		if l.ExpireAfterSeconds > 0 {
			kept = spanOf(l.ExpireAfterSeconds)
		}
		if l.Since != nil {
			since = text.Time(*l.Since)
		}
		levels.Row(l.Name, l.Collection, kept, since)
	}
	levels.Flush()
	table := text.NewTable(w, "PARTITION", "IN ROWS BELOW", "AS OF")
	for _, p := range v.Partitions {
		at := "no pass yet"
		if p.At != nil {
			at = text.Time(*p.At)
		}
		table.Row(p.Partition, p.Below, at)
	}
	table.Flush()
	if v.Edits > 0 {
		fmt.Fprintf(w, "%s: consumers compute rows again after %s of whole series.\n", v.Series, words.Count(v.Edits, "edit"))
	}
}

func (p *Program) rollupDropCommand() *cobra.Command {
	var told confirmation
	var level rollup.Level
	cmd := p.onCollections(&cobra.Command{
		Use:   "drop LEVEL",
		Short: "Delete the rows of a level, with its collections",
		Long: "Deletes a level with all its rows, including rows whose measurements have expired. Only this command ends a level:\n" +
			"consumers keep a level up to date until then, even if ROLLUP_LEVELS does not name it. First remove the level from\n" +
			"ROLLUP_LEVELS of all consumers, because a consumer that starts with the level in its settings creates it again. Consumers\n" +
			"may keep running. The command waits for MONGODB_WRITE_TIMEOUT, so that no consumer is still storing rows of the level.",
		Example: "  waterwheel rollup drop 1m --dry-run\n  waterwheel rollup drop 1m --yes",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("give one level: 1m, 1h or 1d")}
			}
			var ok bool
			if level, ok = rollup.LevelOf(args[0]); !ok {
				return usageError{fmt.Errorf("%q is not a level: name 1m, 1h or 1d", args[0])}
			}
			return nil
		},
	}, func(ctx context.Context, with collections, _ []string) error {
		views, err := eachSeries(with, func(s timeSeries) (*rollupDrop, error) { return planLevelDrop(ctx, s, level) })
		if err != nil {
			return err
		}
		return p.edit(ctx, told, nil, views, printAll(views), func() (err error) {
			for _, v := range views {
				if v.Dropped, err = with.of(v.Series).DropRollup(ctx, level.Name); err != nil {
					return fmt.Errorf("%s: %w; run the same command again to continue", v.Series, err)
				}
			}
			return nil
		})
	})
	told.flags(cmd)
	return cmd
}

// rollupDrop is the deletion of a level.
type rollupDrop struct {
	Series     string `json:"collection"`
	Collection string `json:"rollup"`
	Dropped    bool   `json:"dropped"`
}

// planLevelDrop rejects the deletion of a level from which another one is folded.
func planLevelDrop(ctx context.Context, s timeSeries, level rollup.Level) (*rollupDrop, error) {
	view := &rollupDrop{Series: s.name, Collection: level.SeriesName(s.name)}
	has, err := s.HasLevel(ctx, level.Name)
	if err != nil {
		return view, fmt.Errorf("%s: %w", s.name, err)
	}
	if !has {
		r, command, err := rollups(ctx, s)
		if err != nil {
			return view, err
		}
		defer r.Close()
		return view, fmt.Errorf("%s has no level %s: it has %s", s.name, level.Name, command.Levels())
	}
	days, err := s.HasLevel(ctx, rollup.Day)
	switch {
	case err != nil:
		return view, fmt.Errorf("%s: %w", s.name, err)
	case level.Name == rollup.Hour && days:
		return view, fmt.Errorf("%s: the level 1d is computed from the level 1h: drop 1d first", s.name)
	}
	return view, nil
}

func (v *rollupDrop) print(w io.Writer) {
	verb := "would be deleted, with all its rows"
	if v.Dropped {
		verb = "is deleted"
	}
	fmt.Fprintf(w, "%s: %s %s.\n", v.Series, v.Collection, verb)
}

// nestedSuffix is the suffix of the default collection of nested documents, which --into overrides.
const nestedSuffix = "_nested"

func (p *Program) rollupExportCommand() *cobra.Command {
	var form, into, agg string
	var aggregations []rollup.Aggregation
	cmd := p.onCollections(&cobra.Command{
		Use:   "export --form nested",
		Short: "Write rollups as nested documents: one for each series and month, with its days, hours and minutes",
		Long: "Writes one document for each series and month, made from rollup rows, for queries on nested documents:\n\n" +
			"  {date, <fields of the meta>, days: [{date, <totals>, hours: [{date, <totals>, minutes: [{date, <totals>}]}]}]}\n\n" +
			"The command replaces each document as a whole, and never increments it, so it can be run again at any time. A month\n" +
			"that would exceed MongoDB's limit of 16 MB becomes one document for each day, and stays so. A day that would exceed\n" +
			"the limit is written without its minutes. With ROLLUP_NESTED `waterwheel run` keeps such documents up to date.",
		Example: "  waterwheel rollup export --form nested --agg sum\n  waterwheel rollup export --form nested --into months --agg sum,max",
		Args:    noArguments,
	}, func(ctx context.Context, with collections, _ []string) error {
		if into != "" && len(with.series) > 1 {
			return usageError{fmt.Errorf("--into names one collection, but there are %s: select one with --topic, or omit --into", words.Count(len(with.series), "time series"))}
		}
		for _, name := range with.series {
			if err := p.exportRollups(ctx, with.of(name), cmp.Or(into, name+nestedSuffix), aggregations); err != nil {
				return err
			}
		}
		return nil
	})
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		switch {
		case form == "":
			return usageError{errors.New("--form is missing: give --form nested")}
		case form != "nested":
			return usageError{fmt.Errorf("--form is %q: the only form is nested", form)}
		case agg == "":
			return nil
		}
		if aggregations, err = rollup.ParseAggregations(agg); err != nil {
			return usageError{fmt.Errorf("--agg %w", err)}
		}
		return nil
	}
	flags := cmd.Flags()
	flags.StringVar(&form, "form", "", "form of the documents: nested")
	flags.StringVar(&into, "into", "", "collection of the documents; default: the name of the time series and "+nestedSuffix)
	flags.StringVar(&agg, "agg", "", "aggregations of each field: one becomes the value of the field, several become an object; default: the whole totals")
	return cmd
}

func (p *Program) exportRollups(ctx context.Context, s timeSeries, into string, aggregations []rollup.Aggregation) error {
	documents, err := collection.Nested(ctx, s.database, into)
	if err != nil {
		return fmt.Errorf("--into: %w", err)
	}
	r, command, err := rollups(ctx, s)
	if err != nil {
		return err
	}
	defer r.Close()
	line := p.progress("exporting rollups of " + s.name + ", months of series")
	months, err := command.Nest(ctx, &keeper.Nested{Documents: documents, Aggregations: aggregations}, func(months int) { line.At(int64(months), 0) })
	line.End()
	if err != nil {
		return fmt.Errorf("%s: the export was interrupted: %w; run the same command again", s.name, err)
	}
	fmt.Fprintf(p.Stdout, "%s: %s in %s.\n", s.name, words.Form(int64(months), "1 month of a series is", fmt.Sprint(months, " months of series are")), into)
	return nil
}
