package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/keeper"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

// rollupFlags are the flags of the commands on a range of time.
type rollupFlags struct {
	from, to, filter string
}

func (f *rollupFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "begin at this time: "+whenForms+"; default: the oldest measurement")
	flags.StringVar(&f.to, "to", "", "end before this time, in the same form as --from; default: after the newest measurement")
	flags.StringVar(&f.filter, "filter", "", "query on the meta, as JSON; default: all series")
}

// span parses the range for a time series from the flags. False means that it has no measurements and no range was requested.
func (f *rollupFlags) span(ctx context.Context, s timeSeries, command *keeper.Command) (r keeper.Range, ok bool, err error) {
	from, err := parseWhen("--from", f.from, time.Now(), time.UTC)
	if err != nil {
		return r, false, err
	}
	to, err := parseWhen("--to", f.to, time.Now(), time.UTC)
	if err != nil {
		return r, false, err
	}
	if f.filter != "" {
		query, err := parseObject("--filter", f.filter)
		if err != nil {
			return r, false, err
		}
		o, err := s.options(ctx)
		if err != nil {
			return r, false, err
		}
		if r.Filter, err = o.BucketDelete(timeseries.MetaDelete{Query: query, Multi: true}); err != nil {
			return r, false, translated(s.name, err)
		}
	}
	first, last, found, err := command.Extent(ctx)
	if err != nil || !found && (from.IsZero() || to.IsZero()) {
		return r, false, err
	}
	if r.From, r.To = from, to; from.IsZero() {
		r.From = first
	}
	if to.IsZero() {
		r.To = last
	}
	if !from.IsZero() && !to.IsZero() && !r.From.Before(r.To) {
		return r, false, usageError{fmt.Errorf("--from is %s and --to is %s: --to must be later than --from", f.from, f.to)}
	}
	return r, r.From.Before(r.To), nil
}

func (p *Program) rollupBuildCommand() *cobra.Command {
	var f rollupFlags
	var replace bool
	cmd := p.onCollections(&cobra.Command{
		Use:   "build",
		Short: "Compute the rows of past measurements",
		Long: "Computes rows day by day, the oldest first, from the stored measurements. Use it for a level or a field that was added\n" +
			"later, and after buckets were edited by hand. Rows whose measurements have expired stay as they are. Rows that would hold\n" +
			"fewer measurements than before stay too, unless --replace is given. Consumers may keep running. The command may be\n" +
			"repeated: it replaces rows, and never adds to them. To continue an interrupted build, give --from with the day that the\n" +
			"error names.",
		Example: "  waterwheel rollup build\n  waterwheel rollup build --from 2026-03-01 --to 2026-04-01 --replace",
		Args:    noArguments,
	}, func(ctx context.Context, with collections, _ []string) error {
		for _, name := range with.series {
			if err := p.buildRollups(ctx, with.of(name), &f, replace); err != nil {
				return err
			}
		}
		return nil
	})
	f.flags(cmd)
	cmd.Flags().BoolVar(&replace, "replace", false, "replace rows also if they would hold fewer measurements than before")
	return cmd
}

func (p *Program) buildRollups(ctx context.Context, s timeSeries, f *rollupFlags, replace bool) error {
	r, command, err := rollups(ctx, s)
	if err != nil {
		return err
	}
	defer r.Close()
	span, ok, err := f.span(ctx, s, command)
	if err != nil {
		return err
	}
	if !ok {
		fmt.Fprintf(p.Stdout, "%s: no measurements are stored, so there is nothing to build.\n", s.name)
		return nil
	}
	line, next := p.overDays("building rollups of "+s.name, span)
	last := span.From
	err = command.Build(ctx, span, replace, func(b keeper.Built) {
		last = b.Day
		next(b)
	})
	line.End()
	if err != nil {
		return fmt.Errorf("%s: the build of rollups stopped: %w; to continue, repeat the command with --from %s", s.name, err, last.Format(time.RFC3339))
	}
	if f.filter == "" && f.to == "" {
		since := span.From
		if f.from == "" {
			since = time.Time{}
		}
		if err := s.WholeSince(ctx, since); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fmt.Fprintf(p.Stdout, "%s: the rows from %s to %s are built.\n", s.name, text.Time(span.From), text.Time(span.To))
	return nil
}

// overDays begins a progress line for work on the days of a range. next is called before each day that the work does not leave out.
func (p *Program) overDays(what string, r keeper.Range) (line *text.Progress, next func(keeper.Built)) {
	line = p.progress(what + ", days")
	const day = 24 * 60 * 60
	daysTo := func(at time.Time) int64 { return (at.Unix()-r.From.Unix())/day + 1 } // a Duration ends after 292 years
	return line, func(b keeper.Built) { line.At(daysTo(b.Day), daysTo(r.To)) }
}

// rollupVerification is the result of rollup verify for a time series.
type rollupVerification struct {
	Series string `json:"collection"`
	keeper.Verified
	Wrong []wrongRow `json:"wrong"`
}

// wrongRow is a row that contradicts its measurements.
type wrongRow struct {
	Meta metaText `json:"meta,omitzero"`
	keeper.Difference
}

func (p *Program) rollupVerifyCommand() *cobra.Command {
	var f rollupFlags
	var list int
	cmd := p.onCollections(&cobra.Command{
		Use:   "verify",
		Short: "Compare stored rows with rows computed from the measurements",
		Long: "Computes the rows of minutes and hours from the stored measurements, and the rows of days from the rows of hours. It\n" +
			"compares them with the stored rows, and stores nothing. It skips rows whose measurements have expired, and rows that the\n" +
			"next pass of a consumer computes. The exit code is 3 if a row is wrong: `waterwheel rollup build --replace` computes it\n" +
			"again.",
		Example: "  waterwheel rollup verify\n  waterwheel rollup verify --from -7d",
		Args:    noArguments,
	}, func(ctx context.Context, with collections, _ []string) error {
		found, err := eachSeries(with, func(s timeSeries) (*rollupVerification, error) { return p.verifyRollups(ctx, s, &f, list) })
		if err != nil {
			return err
		}
		err = p.show(found, printAll(found))
		if err == nil && slices.ContainsFunc(found, func(one *rollupVerification) bool { return one.Differences > 0 }) {
			err = errFound
		}
		return err
	})
	f.flags(cmd)
	cmd.Flags().IntVar(&list, "list", 20, "maximum number of wrong rows to list")
	return cmd
}

func (p *Program) verifyRollups(ctx context.Context, s timeSeries, f *rollupFlags, list int) (*rollupVerification, error) {
	found := &rollupVerification{Series: s.name, Wrong: []wrongRow{}}
	r, command, err := rollups(ctx, s)
	if err != nil {
		return found, err
	}
	defer r.Close()
	span, ok, err := f.span(ctx, s, command)
	if err != nil || !ok {
		return found, err
	}
	line, next := p.overDays("verifying rollups of "+s.name, span)
	found.Verified, err = command.Verify(ctx, span, list, next)
	line.End()
	for _, d := range found.Listed {
		found.Wrong = append(found.Wrong, wrongRow{metaText{d.Meta}, d})
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	return found, err
}

func (v *rollupVerification) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s compared, %d wrong.\n", v.Series, words.Count(v.Rows, "row"), v.Differences)
	if v.Frozen > 0 {
		fmt.Fprintf(w, "Not compared: %s whose measurements may have expired.\n", words.Count(v.Frozen, "row"))
	}
	if v.Behind > 0 {
		fmt.Fprintf(w, "Not compared: %s that a consumer has not computed yet.\n", words.Count(v.Behind, "row"))
	}
	if v.Unbuilt > 0 {
		fmt.Fprintf(w, "Missing: %s from before their level was complete; `waterwheel rollup build` creates them.\n", words.Count(v.Unbuilt, "row"))
	}
	if len(v.Wrong) == 0 {
		return
	}
	table := text.NewTable(w, "LEVEL", "WINDOW", "META", "IN THE ROW", "STORED")
	for _, one := range v.Wrong {
		table.Row(one.Level, text.Time(one.Time), one.Meta.cell(w), one.Stored, one.Wanted)
	}
	table.Flush()
}
