package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"waterwheel/internal/collection"
	"waterwheel/internal/keeper"
	"waterwheel/internal/rollup"
	"waterwheel/internal/words"
)

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
		for _, series := range with.series {
			to := into
			if to == "" {
				to = series + nestedSuffix
			}
			if err := p.exportRollups(ctx, with, series, to, aggregations); err != nil {
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

func (p *Program) exportRollups(ctx context.Context, with collections, series, into string, aggregations []rollup.Aggregation) error {
	documents, err := collection.Nested(ctx, with.database, into)
	if err != nil {
		return fmt.Errorf("--into: %w", err)
	}
	r, command, err := rollups(ctx, with.database, series)
	if err != nil {
		return err
	}
	defer r.Close()
	line := p.progress("exporting rollups of " + series + ", months of series")
	months, err := command.Nest(ctx, &keeper.Nested{Documents: documents, Aggregations: aggregations}, func(months int) { line.At(int64(months), 0) })
	line.End()
	if err != nil {
		return fmt.Errorf("%s: the export was interrupted: %w; run the same command again", series, err)
	}
	fmt.Fprintf(p.Stdout, "%s: %s in %s.\n", series, words.Form(int64(months), "1 month of a series is", fmt.Sprint(months, " months of series are")), into)
	return nil
}
