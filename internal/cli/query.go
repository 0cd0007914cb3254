package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/connect"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/reader"
)

const queryHelp = `Prints measurements series by series, each in the order of time. It reads MongoDB only. The only settings that it needs are
MONGODB_URI and the other settings of the connection to MongoDB.

COLLECTION is the name of the time series. It may be omitted if KAFKA_TOPICS has one topic and the first argument is a
condition.

NAME=VALUE is a condition on the meta: sensor=s-17 compares its part "sensor". NAME!=VALUE excludes the value, and NAME=A,B
accepts either value. A number, true, false and null also match the same text: n=17 finds 17 and "17", and n='"17"' finds only
the text. meta=VALUE compares the whole meta, with its fields in any order. --filter takes any filter on the meta, in Extended
JSON and with the names of the view, such as meta.sensor.

FIELDs are the fields to print besides time and meta, or dotted paths. Without FIELDs all fields are printed.

The columns of the table are the fields of the first 40 measurements. Other fields are at the end of their line, as name=value.
CSV without FIELDs has the columns of the first 1000 measurements, and reports on standard error which fields it omits. A line
of JSON is relaxed Extended JSON: it keeps all types except the width of integers. --plot draws the smallest and the largest
value of each column of the terminal, and leaves gaps where measurements are missing. With FIELDs it also prints these before
the plot.

--every computes totals of each series by windows of time, for example 15m, 1h, 1d, 1w, 1mo or 1y long. --agg names the
aggregations of each numeric field. Windows are whole: the first and the last may extend beyond --from and --to. The totals
come from rollups (ROLLUP_LEVELS) where rollups exist. --exact reads measurements only. Days begin at midnight in --zone.`

const queryExample = `  waterwheel query measurements sensor=s-17 --last 1h celsius humidity --plot celsius
  waterwheel query measurements site=north,south --from 2026-03-01 --to 2026-03-02 --format csv celsius > march.csv
  waterwheel query measurements --latest
  waterwheel query measurements sensor!=s-17 --follow --format json
  waterwheel query measurements sensor=s-17 --last 30d --every 1h --agg mean,max --plot celsius
  waterwheel query measurements --last 1y --every 1d --agg min,max --zone Europe/Berlin --format csv celsius > days.csv`

// queryFlags are the unparsed flags of query.
type queryFlags struct {
	from, to, last, filter, format, plot string
	limit                                int64
	latest, follow, series, local        bool
	explain                              bool
	every, agg, zone                     string
	exact                                bool
}

// measurementSource reads a time series. A storedSeries implements it.
type measurementSource interface {
	Options() timeseries.Options
	Find(ctx context.Context, q reader.Query) iter.Seq2[reader.Measurement, error]
	Latest(ctx context.Context, q reader.Query) iter.Seq2[reader.Measurement, error]
	Follow(ctx context.Context, q reader.Query, every time.Duration) iter.Seq2[reader.Measurement, error]
	Series(ctx context.Context, q reader.Query) iter.Seq2[bson.RawValue, error]
	Totals(ctx context.Context, q reader.TotalsQuery) iter.Seq2[reader.Window, error]
	Explain(ctx context.Context, q reader.Query) (reader.Plan, error)
	PlainIndexes(ctx context.Context) (collection.IndexList, error)
	Size(ctx context.Context) (collection.Size, error)
}

// storedSeries is a time series: its measurements, and its collections.
type storedSeries struct {
	*measurements
	collection.TimeSeries
}

// measurements is an alias, because an embedded reader.Series would hide its method Series.
type measurements = reader.Series

func (p *Program) queryCommand() *cobra.Command {
	var flags queryFlags
	cmd := &cobra.Command{
		Use:     "query [COLLECTION] [NAME=VALUE ...] [FIELD ...]",
		Short:   "Print measurements that are stored, as a table, CSV, JSON or a plot",
		Long:    queryHelp,
		Example: queryExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			words, err := parseWords(args)
			if err != nil {
				return err
			}
			q, err := flags.query(words, time.Now())
			if err != nil {
				return err
			}
			q.formatGiven = cmd.Flags().Changed("format")
			if err := q.check(); err != nil {
				return err
			}
			return p.query(cmd.Context(), q)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.from, "from", "", "begin of the range: "+whenForms+"; --local and --zone change the zone")
	f.StringVar(&flags.to, "to", "", "end of the range, not included; in the same form as --from")
	f.StringVar(&flags.last, "last", "", "length of the range before --to, or before now: 90s, 1h30m, 7d")
	f.Int64Var(&flags.limit, "limit", 0, "maximum number of measurements; 0 for all")
	flags.format = "table"
	f.Var(choice{&flags.format, []string{"table", "csv", "json"}}, "format", "table, csv or json (one line per measurement); --output means the same")
	f.StringVar(&flags.filter, "filter", "", `filter on the meta in Extended JSON, such as '{"meta.sensor": {"$gt": "s-1"}}'`)
	f.BoolVar(&flags.latest, "latest", false, "print only the newest measurement of each series")
	f.BoolVar(&flags.follow, "follow", false, "print measurements stored from now on, until ctrl-C")
	f.BoolVar(&flags.series, "series", false, "print the metas of the series instead of measurements")
	f.StringVar(&flags.plot, "plot", "", "draw this field over time")
	f.BoolVar(&flags.explain, "explain", false, "print which index finds the measurements, and which index would find them better, instead of measurements")
	f.StringVar(&flags.every, "every", "", "compute totals by windows of this length: 15m, 1h, 1d, 1w, 1mo, 1y")
	f.StringVar(&flags.agg, "agg", "", "aggregations of each field with --every, separated by commas: mean, max, min, sum, count, first, last (default mean)")
	f.StringVar(&flags.zone, "zone", "", "time zone of the windows of --every, such as Europe/Berlin (default UTC)")
	f.BoolVar(&flags.exact, "exact", false, "with --every: read measurements only, and no rollups")
	f.BoolVar(&flags.local, "local", false, "use the local time zone instead of UTC; not in JSON")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.Replace(name, "output", "format", 1))
	})
	return cmd
}

// query is the parsed request of the words and flags.
type query struct {
	queryFlags
	words       queryWords
	times       timeRange
	also        bson.D // --filter
	location    *time.Location
	formatGiven bool
	totals      *reader.TotalsQuery // Nil means that measurements are requested.

	reader.Query // complete after the time series was opened
}

// query parses the flags.
func (f queryFlags) query(words queryWords, now time.Time) (*query, error) {
	q := &query{queryFlags: f, words: words, location: time.UTC}
	if f.local {
		q.location = time.Local //nolint:gosmopolitan // asked for
	}
	err := q.readTotals()
	if err != nil {
		return nil, err
	}
	if q.times, err = parseRange("--", f.from, f.to, f.last, now, q.location); err != nil {
		return nil, err
	}
	if f.filter != "" {
		filter, err := parseObject("--filter", f.filter)
		if err != nil {
			return nil, err
		}
		if err := bson.Unmarshal(filter, &q.also); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// check rejects flags that exclude each other.
func (q *query) check() error {
	for _, c := range []struct {
		wrong bool
		why   string
	}{
		{q.limit < 0, fmt.Sprintf("--limit is %d: it must not be negative", q.limit)},
		{countTrue(q.latest, q.follow, q.series, q.plot != "") > 1, "give only one of --latest, --follow, --series and --plot"},
		{q.totals != nil && countTrue(q.latest, q.follow, q.series, q.explain) > 0, "--every computes totals by windows of time: omit --latest, --follow, --series and --explain"},
		{q.totals == nil && q.agg != "", "--agg is for totals: add --every, the length of the windows, such as --every 15m"},
		{q.totals == nil && q.zone != "", "--zone is for totals: add --every, the length of the windows, such as --every 1d; --local prints times of the local time zone"},
		{q.totals == nil && q.exact, "--exact is for totals: add --every, the length of the windows, such as --every 15m"},
		{q.local && q.zone != "", "--local and --zone both set the time zone: give only one of them"},
		{q.explain && (q.follow || q.plot != "" || q.formatGiven), "--explain prints its own text: omit --follow, --plot and --format"},
		{q.follow && (q.to != "" || q.last != ""), "--follow has no end: omit --to and --last"},
		{q.series && len(q.words.fields) > 0, "--series prints no fields: omit " + strings.Join(q.words.fields, ", ")},
		{q.series && q.format == "csv", "--series cannot print csv: use --format table or json"},
		{q.plot != "" && q.formatGiven && q.format != "table", "--plot draws a picture: omit --format " + q.format},
	} {
		if c.wrong {
			return usageError{errors.New(c.why)}
		}
	}
	return nil
}

func countTrue(list ...bool) (n int) {
	for _, one := range list {
		if one {
			n++
		}
	}
	return n
}

// query opens the time series and prints the result.
func (p *Program) query(ctx context.Context, q *query) error {
	c, err := config.LoadDatabase(p.Lookup, p.Environ)
	if err != nil {
		return err
	}
	if q.words.collection == "" {
		if len(c.Kafka.Topics) != 1 || c.Kafka.HasPatterns() {
			return usageError{errors.New("which time series? Give its collection first, such as: waterwheel query measurements (the collection may be omitted " +
				"only if KAFKA_TOPICS has one topic)")}
		}
		q.words.collection = c.SeriesFor(c.Kafka.Topics[0])
	}
	if c.Service.LogLevel == "info" {
		c.Service.LogLevel = "warn"
	}
	return p.read(ctx, c, newLogger(p.Stderr, c.Service.LogLevel, c.Service.LogFormat, p.onTerminal), q.words.collection,
		func(from measurementSource) (err error) {
			if q.Meta, err = q.words.filter(from.Options().MetaField, q.also); err != nil {
				return err
			}
			if err := q.leaveFields(from.Options()); err != nil {
				return err
			}
			q.From, q.To, q.Limit = q.times.from, q.times.to, q.limit
			err = newQuerying(p, from, q).run(ctx)
			if _, ok := errors.AsType[*reader.QueryError](err); ok {
				return usageError{err}
			}
			return err
		})
}

// leaveFields removes time and meta from the fields, because they are printed in any case.
func (q *query) leaveFields(o timeseries.Options) error {
	none := func(name string) bool { return name == o.TimeField || o.MetaField != "" && o.OfMeta(name) }
	if q.queryFlags.plot != "" && none(q.queryFlags.plot) {
		return usageError{fmt.Errorf("--plot draws a field of the measurements over time, and %s is not a field", q.queryFlags.plot)}
	}
	q.words.fields = slices.DeleteFunc(q.words.fields, none)
	return nil
}

// readSeries opens a time series, calls use, and closes it.
func readSeries(ctx context.Context, c config.Config, log *slog.Logger, name string, use func(measurementSource) error) error {
	if err := timeseries.CheckSeriesName(c.MongoDB.Database, name, timeseries.MaxNamespace); err != nil {
		return usageError{fmt.Errorf("the collection %q %w", name, err)}
	}
	database, err := mongodb.Open(ctx, connect.DatabaseOptions(c, log))
	if err != nil {
		return err
	}
	defer connect.CloseDatabase(database)
	series, err := reader.Open(ctx, database.Driver(), name)
	switch {
	case errors.Is(err, reader.ErrNotSetUp):
		return noSuchSeries(ctx, database, name)
	case err != nil:
		return database.Explain(err)
	}
	return database.Explain(use(storedSeries{series, collection.Of(database, name)}))
}

// noSuchSeries returns an error that names the existing time series.
func noSuchSeries(ctx context.Context, database *mongodb.Database, name string) error {
	names, err := collection.Names(ctx, database)
	switch {
	case mongodb.LacksRight(err): // this user may not know which others there are
		return fmt.Errorf("%s.%s: %w", database.Name(), name, reader.ErrNotSetUp)
	case err != nil:
		return err
	case len(names) == 0:
		return fmt.Errorf("the database %s has no time series yet: is MONGODB_DATABASE right? `waterwheel init` creates them", database.Name())
	}
	return fmt.Errorf("the database %s has no time series %q; it has %s. Name the collection first, then conditions and fields",
		database.Name(), name, text.List(names))
}

// timeRange is the range of --from, --to and --last. Zero means no bound.
type timeRange struct{ from, to time.Time }

// parseRange parses the flags --from, --to and --last, or parameters with these names if before is empty. last counts back from
// to, or from now. Times without a zone are in the given zone.
func parseRange(before, from, to, last string, now time.Time, zone *time.Location) (r timeRange, err error) {
	if r.from, err = parseWhen(before+"from", from, now, zone); err != nil {
		return r, err
	}
	if r.to, err = parseWhen(before+"to", to, now, zone); err != nil {
		return r, err
	}
	if last != "" {
		length, ok := words.ParseSpan(last)
		switch {
		case !ok || length <= 0:
			return r, usageError{fmt.Errorf("%slast is %q: it must be a length of time such as 90s, 1h30m, 7d or 2w", before, last)}
		case from != "":
			return r, usageError{fmt.Errorf("%[1]slast and %[1]sfrom both set the beginning: give only one of them", before)}
		}
		if r.to.IsZero() {
			r.to = now.UTC().Truncate(time.Millisecond).Add(time.Millisecond)
		}
		r.from = r.to.Add(-length)
	}
	if !r.from.IsZero() && !r.to.IsZero() && !r.from.Before(r.to) {
		return r, usageError{fmt.Errorf("the range ends at %s, but begins at %s: %[3]sfrom must be before %[3]sto", r.to.Format(time.RFC3339), r.from.Format(time.RFC3339), before)}
	}
	return r, nil
}

// String returns the range for a sentence. Empty means no bound.
func (r timeRange) String() (s string) {
	if !r.from.IsZero() {
		s = " from " + r.from.UTC().Format(time.RFC3339)
	}
	if !r.to.IsZero() {
		s += " to " + r.to.UTC().Format(time.RFC3339)
	}
	return s
}
