package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/check"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/reader"
	"waterwheel/sink"
)

// adviseFrom is from how many buckets on it is said that an index would help: fewer are read quickly.
const adviseFrom = 1000

// indexSource is where the indexes of a time series are known; where measurements are read may be one.
type indexSource interface {
	Indexes(ctx context.Context) (sink.IndexList, error)
	Size(ctx context.Context) (sink.Size, error)
}

// indexedSeries is a time series with its indexes.
type indexedSeries struct {
	measurementSource
	database *sink.Database
	name     string
}

// Indexes implements indexSource.
func (s indexedSeries) Indexes(ctx context.Context) (sink.IndexList, error) {
	return s.database.PlainIndexes(ctx, s.name)
}

// Size implements indexSource.
func (s indexedSeries) Size(ctx context.Context) (sink.Size, error) {
	return s.database.Size(ctx, s.name)
}

// hintIndex says that an index would have helped a query for a part of the meta, of a collection with many buckets. It judges by
// the indexes alone; that it cannot is no reason to fail.
func (r *querying) hintIndex(ctx context.Context) {
	from, ok := r.from.(indexSource)
	if !ok || r.follow || r.mistaken || ctx.Err() != nil {
		return
	}
	filter, err := r.onMeasurements()
	if err != nil {
		return
	}
	if without, err := r.from.Options().Advise(filter, nil); err != nil || without.Keys == nil {
		return // no index could help, so nothing is asked
	}
	advice, err := r.advice(ctx, from, filter)
	if err != nil || advice.Keys == nil || narrowsByMeta(r.from.Options(), advice) {
		return
	}
	if size, err := from.Size(ctx); err == nil && size.Documents >= adviseFrom && size.Documents > r.found {
		fmt.Fprintf(r.p.Stderr, "No index serves %s: up to %s and segments were looked through. This makes one: %s.\n",
			text.Printable(strings.Join(advice.Misses, ", ")), words.Count(size.Documents, "bucket"), text.Printable(check.IndexCommand(advice.Keys, "")))
	}
}

// onMeasurements is the query as a filter on measurements.
func (r *querying) onMeasurements() (bson.Raw, error) {
	clauses := bson.A{}
	if meta, ok := r.Meta.(bson.D); ok && len(meta) > 0 {
		clauses = append(clauses, meta)
	}
	times := bson.D{}
	if !r.From.IsZero() {
		times = append(times, bson.E{Key: "$gte", Value: bson.NewDateTimeFromTime(r.From)})
	}
	if !r.To.IsZero() {
		times = append(times, bson.E{Key: "$lt", Value: bson.NewDateTimeFromTime(r.To)})
	}
	if len(times) > 0 {
		clauses = append(clauses, bson.D{{Key: r.from.Options().TimeField, Value: times}})
	}
	if len(clauses) == 0 {
		return bson.Marshal(bson.D{})
	}
	return bson.Marshal(bson.D{{Key: "$and", Value: clauses}})
}

func (r *querying) advice(ctx context.Context, from indexSource, filter bson.Raw) (timeseries.Advice, error) {
	list, err := from.Indexes(ctx)
	if err != nil {
		return timeseries.Advice{}, err
	}
	byID := !r.From.IsZero() // the _id is bounded where a time begins
	return list.Options.Advise(filter, list.Definitions(byID))
}

func narrowsByMeta(o timeseries.Options, a timeseries.Advice) bool {
	for _, path := range a.Narrows {
		if o.OfMeta(path) {
			return true
		}
	}
	return false
}

// explained says which index finds the buckets of the query, by its definition and, where MongoDB tells, by trying.
func (r *querying) explained(ctx context.Context) error {
	from, ok := r.from.(indexSource)
	if !ok {
		return errors.New("the indexes of the time series are not known")
	}
	filter, err := r.onMeasurements()
	if err != nil {
		return err
	}
	advice, err := r.advice(ctx, from, filter)
	if err != nil {
		return err
	}
	plan, err := r.from.Explain(ctx, r.Query)
	if err != nil && !errors.Is(err, reader.ErrNoExplain) {
		return err
	}
	table := text.NewTable(r.out)
	table.Row("Filter", string(extended(filter)))
	if advice.Index == "" {
		table.Row("Index", "none serves it: every bucket is read")
	} else {
		table.Row("Index", fmt.Sprintf("%s narrows by %s", advice.Index, strings.Join(advice.Narrows, ", ")))
	}
	if len(advice.Wide) > 0 {
		table.Row("No index for", strings.Join(advice.Wide, ", "))
	}
	if err != nil {
		table.Row("Tried", "this MongoDB does not tell what a query examines")
	} else {
		tried(table, plan)
	}
	mistake, err := r.mistakes(ctx, advice)
	switch {
	case err != nil:
		return err
	case mistake != "":
		table.Row("Better", mistake)
	case advice.Keys != nil:
		table.Row("Better", check.IndexCommand(advice.Keys, ""))
	}
	table.Flush()
	return r.out.Flush()
}

// mistakes says which paths of the query are in no meta, if an index on them would be advised otherwise.
func (r *querying) mistakes(ctx context.Context, advice timeseries.Advice) (string, error) {
	if advice.Keys == nil {
		return "", nil
	}
	have, err := r.sample(ctx, reader.Query{})
	var all []string
	for _, path := range advice.Misses {
		if mistake := have.mistaken(path, r.from.Options()); mistake != "" {
			all = append(all, mistake)
		}
	}
	return strings.Join(all, " "), err
}

// tried adds what MongoDB examined: to find the series, if they had to be found, and to read them.
func tried(table *text.Table, plan reader.Plan) {
	said := func(c reader.Cost, what string) string {
		used := text.List(c.Indexes)
		if len(c.Indexes) == 0 {
			used = "no index"
		}
		return fmt.Sprintf("%s and %s examined for %s, by %s", words.Count(c.DocumentsExamined, what), words.Count(c.KeysExamined, "key"), words.Count(c.Buckets, what), used)
	}
	if plan.Segments != nil {
		table.Row("Tried: segments", said(*plan.Segments, "document"))
	}
	if plan.Listing != nil {
		table.Row("Tried: listing", said(*plan.Listing, "bucket"))
	}
	if plan.Series == 0 {
		table.Row("Tried: reading", "there is no such series")
		return
	}
	of := words.Count(plan.Series, "series")
	if plan.Explained < plan.Series {
		of = fmt.Sprintf("the first %d of %d series", plan.Explained, plan.Series)
	}
	table.Row("Tried: reading", fmt.Sprintf("%s: %s", of, said(plan.Reading, "bucket")))
}
