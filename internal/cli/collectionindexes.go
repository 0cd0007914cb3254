package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"waterwheel/internal/cli/text"
	"waterwheel/sink"
)

func (p *Program) indexesCommand() *cobra.Command {
	return p.onCollections(&cobra.Command{
		Use:   "indexes",
		Short: "List the indexes of collections in the terms of measurements",
		Long: "Lists the indexes of collections: on which fields of measurements each is, whose it is, how large, and how often MongoDB has used\n" +
			"it since it started. An index that no index on measurements becomes is shown as it is on the buckets. It also says which\n" +
			"indexes META_INDEXES asks for and which it does not any more.",
		Args: noArguments,
	}, func(ctx context.Context, with collections, _ []string) error {
		views := []IndexesView{}
		for _, name := range with.series {
			list, err := with.database.Indexes(ctx, name)
			if err != nil {
				return fmt.Errorf("listing the indexes of %s: %w", name, seriesError(name, err))
			}
			views = append(views, indexesView(name, list, with.config.MongoDB.MetaIndexes))
		}
		return p.show(views, func(w io.Writer) { printIndexes(w, views) })
	})
}

func (p *Program) dropIndexCommand() *cobra.Command {
	var told confirmation
	cmd := p.onCollections(&cobra.Command{
		Use:   "drop-index NAME",
		Short: "Drop an index of collections",
		Long: "Drops an index, and the definition that is kept beside it. The indexes that waterwheel needs stay: \"collection indexes\" says which\n" +
			"these are. To see first what dropping an index costs, hide it by \"collection hide-index\".",
		Example: "  waterwheel collection drop-index meta.sensor_1_time_-1 --yes",
		Args:    oneArgument("the name of an index"),
		PreRunE: func(*cobra.Command, []string) error { return told.check() },
	}, func(ctx context.Context, with collections, args []string) error {
		plan, err := planDrop(ctx, with, args[0])
		if err != nil {
			return err
		}
		if do, err := p.confirmed(ctx, told, plan, plan.print); !do {
			return err
		}
		return p.changeIndex(with.series, args[0], "dropping", "dropped", func(series string) (bool, error) {
			return true, with.database.DropIndex(ctx, series, args[0])
		})
	})
	told.flags(cmd)
	return cmd
}

// indexDrop is what drop-index would drop.
type indexDrop struct {
	Series  string     `json:"collection"`
	DryRun  bool       `json:"dryRun"`
	Index   *IndexView `json:"index"` // null: only a definition is left of it, or there is none
	Missing bool       `json:"missing"`
}

type indexDrops []indexDrop

// planDrop looks for the index of a name in all time series. That none has it, or that one must keep it, is an error.
func planDrop(ctx context.Context, with collections, name string) (plan indexDrops, err error) {
	var none error
	for _, series := range with.series {
		index, err := with.database.DroppableIndex(ctx, series, name)
		missing := (*sink.NoIndexError)(nil)
		switch {
		case errors.As(err, &missing):
			none = fmt.Errorf("dropping the index of %s: %w", series, err)
		case err != nil:
			return nil, fmt.Errorf("dropping the index of %s: %w", series, seriesError(series, err))
		}
		one := indexDrop{Series: series, DryRun: true, Missing: err != nil}
		if index != nil {
			one.Index = new(indexView(*index))
		}
		plan = append(plan, one)
	}
	if slices.ContainsFunc(plan, func(one indexDrop) bool { return !one.Missing }) {
		return plan, nil
	}
	return nil, none
}

func (d indexDrops) print(w io.Writer) {
	for _, one := range d {
		switch {
		case one.Missing:
			fmt.Fprintf(w, "%s: the index is not there.\n", one.Series)
		case one.Index == nil:
			fmt.Fprintf(w, "%s: the definition of an index that is gone would be deleted.\n", one.Series)
		default:
			size := ""
			if one.Index.Bytes != nil {
				size = fmt.Sprintf(" (%s, to be built again if it is missed)", text.Bytes(*one.Index.Bytes))
			}
			fmt.Fprintf(w, "%s: the index %s on %s would be dropped%s.\n", one.Series, text.Printable(one.Index.Name), one.Index.keys(), size)
		}
	}
}

func (p *Program) hideIndexCommand(hidden bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hide-index NAME",
		Short: "Hide an index from queries, to see what dropping it would cost",
		Long: "Hides an index: MongoDB keeps it up to date, and uses it for no query. \"collection unhide-index\" shows it again at once, without\n" +
			"building it anew. The indexes that waterwheel needs cannot be hidden.",
		Example: "  waterwheel collection hide-index meta.sensor_1_time_-1",
		Args:    oneArgument("the name of an index"),
	}
	doing, done := "hiding", "hidden"
	if !hidden {
		cmd.Use, cmd.Short = "unhide-index NAME", "Show a hidden index to queries again"
		cmd.Long, cmd.Example = "Shows a hidden index to queries again.", "  waterwheel collection unhide-index meta.sensor_1_time_-1"
		doing, done = "showing", "shown to queries"
	}
	return p.onCollections(cmd, func(ctx context.Context, with collections, args []string) error {
		return p.changeIndex(with.series, args[0], doing, done, func(series string) (bool, error) {
			return with.database.HideIndex(ctx, series, args[0], hidden)
		})
	})
}

// changeIndex changes the index of a name in one time series after the other. That some do not have it is told; that none has
// it is an error.
func (p *Program) changeIndex(series []string, index, doing, done string, change func(series string) (bool, error)) error {
	changes := indexChanges{done: done, All: []IndexChange{}}
	var none error
	found := false
	for _, name := range series {
		changed, err := change(name)
		if missing := (*sink.NoIndexError)(nil); errors.As(err, &missing) {
			none = fmt.Errorf("%s the index of %s: %w", doing, name, err)
		} else if err != nil {
			return errors.Join(p.show(changes.All, changes.print), fmt.Errorf("%s the index of %s: %w", doing, name, seriesError(name, err)))
		} else {
			found = true
		}
		changes.All = append(changes.All, IndexChange{Series: name, Name: index, Changed: changed && err == nil, Missing: err != nil})
	}
	if !found {
		return none
	}
	return p.show(changes.All, changes.print)
}

// IndexChange is what was done to the index of a time series.
type IndexChange struct {
	Series  string `json:"collection"`
	Name    string `json:"name"`
	Changed bool   `json:"changed"`
	Missing bool   `json:"missing"` // there is no such index
}

type indexChanges struct {
	done string
	All  []IndexChange
}

func (c indexChanges) print(w io.Writer) {
	for _, one := range c.All {
		state := "is " + c.done
		switch {
		case one.Missing:
			state = "is not there"
		case !one.Changed:
			state += " already. Nothing was changed"
		}
		fmt.Fprintf(w, "%s: the index %s %s.\n", one.Series, text.Printable(one.Name), state)
	}
}
