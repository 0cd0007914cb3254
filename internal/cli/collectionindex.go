package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
)

// indexFlags are the flags of create-index.
type indexFlags struct {
	name, partial, options string
	hidden                 bool
	expireAfter            time.Duration
}

func (p *Program) createIndexCommand() *cobra.Command {
	var flags indexFlags
	var user timeseries.Index
	var told confirmation
	cmd := p.onCollections(&cobra.Command{
		Use:   "create-index KEYS",
		Short: "Create an index for queries of measurements",
		Long: "Creates an index on measurements, as createIndex does for MongoDB's own time series. KEYS is an object in (Extended) JSON\n" +
			"that names the meta, the time and other fields of measurements. The command creates the index on the buckets, where it\n" +
			"serves the same queries. Create indexes on parts of the meta: the whole meta and the time are indexed already.\n\n" +
			"The command rejects the indexes that MongoDB rejects for its time series: unique and text indexes; partial filters on\n" +
			"anything but the meta; on fields other than the meta, sparse indexes and all that are not ascending or descending.\n" +
			"An index on a field other than the meta requires that no bucket holds values of different types in this field. Consumers\n" +
			"write no such bucket. While the index exists, MongoDB rejects measurements with an array in the field: they become dead\n" +
			"letters.\n\n" +
			"--expire-after requires the time as the only key, and --partial. It deletes measurements of some series only: the command\n" +
			"reports how many, and asks first. On a large collection MongoDB builds an index for a long time, and may continue after\n" +
			"this command is interrupted.",
		Example: "  waterwheel collection create-index '{\"meta.sensor\": 1, \"time\": -1}'\n" +
			"  waterwheel collection create-index '{\"temperature\": 1}' --name warm --hidden\n" +
			"  waterwheel collection create-index '{\"time\": 1}' --expire-after 24h --partial '{\"meta.kind\": \"debug\"}' --yes",
		Args: oneArgument("the keys of an index, as '{\"meta.sensor\": 1, \"time\": -1}'"),
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			user, err = flags.index(args[0])
			return err
		},
	}, func(ctx context.Context, with collections, _ []string) error {
		if _, lasting := user.Options.LookupErr("expireAfterSeconds"); lasting == nil || told.dryRun {
			plan, err := p.planIndexes(ctx, with, user)
			if err != nil {
				return err
			}
			if do, err := p.confirmed(ctx, told, plan, plan.print); !do {
				return err
			}
		}
		made := madeIndexes{}
		for _, name := range with.series {
			stop := p.still("building the index of " + name)
			index, is, err := with.of(name).CreateIndex(ctx, user)
			stop()
			if err != nil {
				return errors.Join(p.show(made, made.print), fmt.Errorf("creating an index of %s: %w", name, seriesError(name, err)))
			}
			made = append(made, madeIndex{Series: name, Made: is, Index: newIndexView(index), Doubts: index.Doubts})
		}
		return p.show(made, made.print)
	})
	cmd.Flags().StringVar(&flags.name, "name", "", "name of the index; default: made from its keys, such as meta.sensor_1_time_-1")
	cmd.Flags().BoolVar(&flags.hidden, "hidden", false, "create a hidden index: no query uses it until unhide-index")
	cmd.Flags().StringVar(&flags.partial, "partial", "", "index only measurements that match this filter on the meta")
	cmd.Flags().Var(length{&flags.expireAfter}, "expire-after", "delete measurements older than this; requires --partial, and the time as the only key")
	cmd.Flags().StringVar(&flags.options, "options", "", "more options of createIndexes, such as '{\"sparse\": true}'")
	told.flags(cmd)
	return cmd
}

// plannedIndex is an index that create-index would create.
type plannedIndex struct {
	Series     string          `json:"collection"`
	DryRun     bool            `json:"dryRun"`
	Keys       json.RawMessage `json:"keys"`
	BucketKeys json.RawMessage `json:"bucketKeys"`
	// Deletes is what MongoDB would delete at once because of the index. Nil means that it deletes nothing.
	Deletes *collection.Amount `json:"deletes,omitempty"`
}

type plannedIndexes []plannedIndex

// planIndexes determines the definition of an index in each time series, and what the index would delete.
func (p *Program) planIndexes(ctx context.Context, with collections, user timeseries.Index) (plannedIndexes, error) {
	return eachSeries(with, func(s timeSeries) (one plannedIndex, err error) {
		options, err := s.options(ctx)
		if err != nil {
			return one, err
		}
		index, err := options.BucketIndex(user)
		if err != nil {
			return one, fmt.Errorf("creating an index of %s: %w", s.name, err)
		}
		one = plannedIndex{Series: s.name, DryRun: true, Keys: extended(user.Keys), BucketKeys: extended(index.Keys)}
		if _, err := user.Options.LookupErr("expireAfterSeconds"); err == nil {
			selection, err := s.ExpiredBy(ctx, user)
			if err != nil {
				return one, err
			}
			one.Deletes, err = p.amountOf(ctx, s.name, selection)
			return one, err
		}
		return one, nil
	})
}

func (i plannedIndexes) print(w io.Writer) {
	for _, one := range i {
		fmt.Fprintf(w, "%s: would create an index on %s; on the buckets its keys are %s.\n", one.Series, text.Printable(string(one.Keys)), text.Printable(string(one.BucketKeys)))
		if one.Deletes != nil {
			fmt.Fprintf(w, "%s: the index would delete %s, and more as they expire.\n", one.Series, amountText(*one.Deletes))
		}
	}
}

// index returns the index that the flags and the keys describe. The rules of time series are checked later.
func (f indexFlags) index(keys string) (index timeseries.Index, err error) {
	if index.Keys, err = parseObject("the keys of the index", keys); err != nil {
		return index, err
	}
	options := bson.D{}
	if f.options != "" {
		given, err := parseObject("--options", f.options)
		if err != nil {
			return index, err
		}
		if err := bson.Unmarshal(given, &options); err != nil {
			return index, usageError{fmt.Errorf("--options is %q: %w", f.options, err)}
		}
	}
	if f.name != "" {
		options = append(options, bson.E{Key: "name", Value: f.name})
	}
	if f.hidden {
		options = append(options, bson.E{Key: "hidden", Value: true})
	}
	if f.partial != "" {
		partial, err := parseObject("--partial", f.partial)
		if err != nil {
			return index, err
		}
		options = append(options, bson.E{Key: "partialFilterExpression", Value: partial})
	}
	if f.expireAfter != 0 {
		if f.expireAfter < 0 || f.expireAfter%time.Second != 0 {
			return index, usageError{fmt.Errorf("--expire-after is %v: it must be a positive number of whole seconds", f.expireAfter)}
		}
		options = append(options, bson.E{Key: "expireAfterSeconds", Value: int64(f.expireAfter / time.Second)})
	}
	if len(options) == 0 {
		return index, nil
	}
	seen := map[string]bool{}
	for _, e := range options {
		if seen[e.Key] {
			return index, usageError{fmt.Errorf("%s is given twice: by its own flag and in --options", e.Key)}
		}
		seen[e.Key] = true
	}
	index.Options, err = bson.Marshal(options)
	return index, err
}

// oneArgument takes exactly one argument. what describes it in errors.
func oneArgument(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usageError{fmt.Errorf("%q takes one argument, %s; not %q", cmd.CommandPath(), what, args)}
		}
		return nil
	}
}

// still shows on a terminal that work is going on, and for how long, until stop is called.
func (p *Program) still(what string) (stop func()) {
	line, done, ended := p.progress(what), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				line.Still()
			case <-done:
				line.End()
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// madeIndex is the result of create-index for a time series.
type madeIndex struct {
	Series string    `json:"collection"`
	Made   bool      `json:"made"` // False means that it existed.
	Index  indexView `json:"index"`
	// Doubts say why the index may not do what its user expects, or what else it does.
	Doubts []string `json:"doubts,omitempty"`
}

type madeIndexes []madeIndex

func (m madeIndexes) print(w io.Writer) {
	for _, one := range m {
		i := one.Index
		if one.Made {
			fmt.Fprintf(w, "%s: created the index %s on %s; on the buckets its keys are %s", one.Series, text.Printable(i.Name), i.keys(), text.Printable(string(i.BucketKeys)))
			if words := i.words(); words != "" {
				fmt.Fprintf(w, " (%s)", words)
			}
			fmt.Fprintln(w)
		} else {
			fmt.Fprintf(w, "%s: the index %s on %s exists already. Nothing was changed.\n", one.Series, text.Printable(i.Name), i.keys())
		}
		for _, doubt := range one.Doubts {
			fmt.Fprintf(w, "%s: note: %s.\n", one.Series, text.Printable(doubt))
		}
	}
}
