package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/plot"
	"waterwheel/internal/cli/rows"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/rollup"
	"waterwheel/internal/words"
	"waterwheel/reader"
)

const (
	// flushEvery is the longest time that printed rows wait in the buffer.
	flushEvery = 200 * time.Millisecond
	// sampleSize is how many measurements are sampled to learn which fields there are.
	sampleSize = 40
	// hintAfter is the number of measurements after which missing fields are reported.
	hintAfter = 1000
	// badBucketsTold bounds the number of unreadable buckets whose errors are printed.
	badBucketsTold = 5
)

// querying prints the result of a query.
type querying struct {
	*query
	p     *Program
	from  measurementSource
	out   *bufio.Writer
	rows  rows.Writer // Nil means that no rows are printed.
	plot  *plot.Plot  // Nil means that nothing is drawn.
	label func(meta bson.RawValue) string

	found      int64
	missing    []string // the named fields that no measurement had
	mistaken   bool     // a condition is on a path that no meta has
	badBuckets int
	flushed    time.Time
}

func newQuerying(p *Program, from measurementSource, q *query) *querying {
	r := &querying{query: q, p: p, from: from, out: bufio.NewWriterSize(p.Stdout, 64<<10), flushed: time.Now(), label: labels()}
	o := rows.Options{TimeField: from.Options().TimeField, MetaField: from.Options().MetaField, Fields: q.words.fields, Location: q.location}
	if q.totals != nil { // each field has several columns
		o.Fields, o.Flat = nil, true
	}
	r.missing = slices.Clone(q.words.fields)
	if q.queryFlags.plot != "" {
		field, path := q.drawn()
		r.plot = &plot.Plot{Title: path}
		if !slices.Contains(r.missing, field) {
			r.missing = append(r.missing, field)
		}
	}
	if r.missing != nil {
		q.Fields = slices.Clone(r.missing)
	}
	switch {
	case r.plot != nil && q.words.fields == nil:
	case q.format == "csv":
		r.rows = rows.NewCSV(r.out, o)
	case q.format == "json":
		r.rows = rows.NewJSON(r.out, o)
	default:
		r.rows = rows.NewTable(r.out, o)
	}
	return r
}

// labels returns a function that names series. It caches the last name.
func labels() func(bson.RawValue) string {
	last, name := bson.RawValue{}, rows.Label(bson.RawValue{})
	return func(meta bson.RawValue) string {
		if meta.Type != last.Type || !slices.Equal(meta.Value, last.Value) {
			last = bson.RawValue{Type: meta.Type, Value: slices.Clone(meta.Value)}
			name = text.Printable(rows.Label(meta))
		}
		return name
	}
}

// run prints the result.
func (r *querying) run(ctx context.Context) error {
	if r.explain {
		return r.explained(ctx)
	}
	var err error
	switch {
	case r.series:
		err = r.listSeries(ctx)
	case r.follow:
		err = r.followed(ctx)
	case r.totals != nil:
		err = r.print(ctx, r.windows(ctx))
	case r.latest:
		err = r.print(ctx, r.from.Latest(ctx, r.Query))
	default:
		err = r.print(ctx, r.from.Find(ctx, r.Query))
	}
	if flushing := r.out.Flush(); err == nil {
		err = flushing
	}
	if err != nil {
		return err
	}
	if err := r.hints(ctx); err != nil {
		return err
	}
	r.hintIndex(ctx)
	if r.badBuckets > 0 {
		return fmt.Errorf("%s could not be read: the output lacks their measurements", words.Count(r.badBuckets, "bucket"))
	}
	return nil
}

// print prints measurements, or draws them.
func (r *querying) print(ctx context.Context, all iter.Seq2[reader.Measurement, error]) error {
	for m, err := range all {
		if err != nil {
			if err = r.bad(err); err != nil {
				if r.rows != nil { // print the rows before the error
					err = errors.Join(err, r.rows.Flush())
				}
				return err
			}
			continue
		}
		if err := r.take(ctx, rows.Row{Time: m.Time, Meta: m.Meta, Fields: m.Fields}); err != nil {
			return err
		}
	}
	if r.rows != nil {
		if err := r.rows.Flush(); err != nil {
			return err
		}
	}
	if r.plot != nil && !r.plot.Empty() {
		if r.rows != nil {
			fmt.Fprintln(r.out)
		}
		r.plot.Draw(r.out, r.p.plotOptions(r.query))
	}
	return nil
}

// take prints or draws one measurement.
func (r *querying) take(ctx context.Context, row rows.Row) error {
	r.found++
	if len(r.missing) > 0 {
		r.missing = slices.DeleteFunc(r.missing, row.Has)
		if r.found == hintAfter {
			if err := r.hintFields(ctx); err != nil {
				return err
			}
		}
	}
	if r.plot != nil {
		value, there, ok := row.Number(r.plot.Title)
		switch {
		case ok:
			r.plot.Add(r.label(row.Meta), row.Time.UnixMilli(), value)
		case there:
			r.plot.AddNotNumber()
		}
	}
	if r.rows == nil {
		return nil
	}
	if err := r.rows.Write(row); err != nil {
		return err
	}
	if r.follow {
		if err := r.rows.Flush(); err != nil {
			return err
		}
	} else if time.Since(r.flushed) < flushEvery {
		return nil
	}
	r.flushed = time.Now()
	return r.out.Flush()
}

// bad reports a bucket that cannot be read. It returns any other error.
func (r *querying) bad(err error) error {
	var bucket *reader.BucketError
	if !errors.As(err, &bucket) {
		return err
	}
	if r.badBuckets++; r.badBuckets <= badBucketsTold {
		fmt.Fprintf(r.p.Stderr, "waterwheel: %s\n", text.Printable(err.Error()))
	}
	return nil
}

// followed prints measurements stored from now on. The newest existing measurements determine the columns.
func (r *querying) followed(ctx context.Context) error {
	q := r.Query
	q.Limit = sampleSize
	if sampler, ok := r.rows.(rows.Sampler); ok {
		for m, err := range r.from.Latest(ctx, q) {
			if err == nil {
				sampler.Sample(rows.Row{Time: m.Time, Meta: m.Meta, Fields: m.Fields})
			}
		}
	}
	return r.print(ctx, r.from.Follow(ctx, r.Query, 0))
}

// listSeries prints the metas, in the form of conditions.
func (r *querying) listSeries(ctx context.Context) error {
	metaField := r.from.Options().MetaField
	for meta, err := range r.from.Series(ctx, r.Query) {
		if err != nil {
			return err
		}
		r.found++
		if r.format != "json" {
			fmt.Fprintln(r.out, text.Printable(rows.Label(meta)))
			continue
		}
		line := bson.D{}
		if meta.Type != 0 {
			line = bson.D{{Key: metaField, Value: meta}}
		}
		encoded, err := bson.MarshalExtJSON(line, false, false)
		if err != nil {
			return fmt.Errorf("writing a meta as JSON: %w", err)
		}
		fmt.Fprintf(r.out, "%s\n", encoded)
	}
	return nil
}

// readTotals parses the flags of totals. Without --every it does nothing.
func (q *query) readTotals() (err error) {
	if q.every == "" {
		return nil
	}
	t := &reader.TotalsQuery{Exact: q.exact, Zone: q.location, Aggregations: []reader.Aggregation{reader.Mean}}
	if t.Every, err = reader.ParseStep(q.every); err != nil {
		return usageError{fmt.Errorf("--every %w", err)}
	}
	if q.agg != "" {
		if t.Aggregations, err = rollup.ParseAggregations(q.agg); err != nil {
			return usageError{fmt.Errorf("--agg %w", err)}
		}
	}
	if q.zone != "" {
		if t.Zone, err = words.ParseZone(q.zone); err != nil {
			return usageError{fmt.Errorf("--zone %w", err)}
		}
		q.location = t.Zone
	}
	q.totals = t
	return nil
}

// windows returns the totals as rows, that is, as measurements whose fields are the statistics.
func (r *querying) windows(ctx context.Context) iter.Seq2[reader.Measurement, error] {
	q := *r.totals
	q.Query = r.Query
	return func(yield func(reader.Measurement, error) bool) {
		for w, err := range r.from.Totals(ctx, q) {
			if !yield(reader.Measurement{Time: w.Time, Meta: w.Meta, Fields: w.Fields}, err) {
				return
			}
		}
	}
}

// drawn returns the field that --plot names, and the path of the value to draw. For totals that is the named statistic, or the
// first of --agg.
func (q *query) drawn() (field, path string) {
	name := q.queryFlags.plot
	if q.totals == nil {
		return name, name
	}
	for _, a := range q.totals.Aggregations {
		if field, ok := strings.CutSuffix(name, "."+string(a)); ok {
			return field, name
		}
	}
	return name, name + "." + string(q.totals.Aggregations[0])
}

// noun returns the word for a printed row.
func (q *query) noun() string {
	if q.totals != nil {
		return "window"
	}
	return "measurement"
}

// This is the size of a picture that is not for a terminal.
const (
	plainWidth  = 80
	plainHeight = 20
)

// terminalRest is how many rows of a terminal are not for the picture. tallestPlot is the maximum height of the picture.
const (
	terminalRest = 12
	tallestPlot  = 30
)

// plotOptions returns the options of a picture on standard output. It has colours and fine dots on a terminal that supports them.
func (p *Program) plotOptions(q *query) plot.Options {
	o := plot.Options{From: q.times.from, To: q.times.to, Location: q.location, Width: plainWidth, Height: plainHeight}
	if n, err := strconv.Atoi(p.variable("COLUMNS")); err == nil && n > 0 {
		o.Width = n
	}
	o.ASCII = true
	if p.screen == (terminal{}) || p.variable("TERM") == "dumb" {
		return o
	}
	o.Width, o.Height = p.screen.width, min(tallestPlot, p.screen.height-terminalRest)
	o.ASCII = !p.showsUnicode()
	o.Color = p.variable("NO_COLOR") == ""
	return o
}
