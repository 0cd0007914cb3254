package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/check"
	"waterwheel/internal/cli/rows"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/reader"
)

// hints prints hints about a result on stderr: why there is none, which fields no measurement has, and what CSV left out.
func (r *querying) hints(ctx context.Context) error {
	switch {
	case r.follow || ctx.Err() != nil:
	case r.found == 0:
		return r.hintNothing(ctx)
	case r.found < hintAfter:
		if err := r.hintFields(ctx); err != nil {
			return err
		}
	}
	if r.rows == nil {
		return nil
	}
	if names, n := r.rows.Omitted(); n > 0 {
		fmt.Fprintf(r.p.Stderr, "The header has the columns of the first measurements. The output omits other fields: %s also had %s. Name the "+
			"fields, or use --format json.\n", words.Count(n, "later row"), text.Printable(text.List(names)))
	}
	return nil
}

// hintFields reports named fields that no measurement had so far.
func (r *querying) hintFields(ctx context.Context) error {
	if len(r.missing) == 0 {
		return nil
	}
	have, err := r.sample(ctx, reader.Query{Meta: r.Meta, From: r.From, To: r.To})
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(r.missing), func(name string) bool {
		first, _, _ := strings.Cut(name, ".")
		ofMeta := slices.Contains(have.parts, first)
		if ofMeta {
			fmt.Fprintf(r.p.Stderr, "%q is not a field but a part of the meta, which is always printed.\n", text.Printable(name))
		}
		return ofMeta
	})
	if len(missing) > 0 {
		fmt.Fprintf(r.p.Stderr, "None of the %s has %s. Existing fields: %s.\n",
			words.Count(r.found, r.noun()), text.Printable(strings.Join(missing, ", ")), text.Printable(text.List(have.fields)))
	}
	return nil
}

// hintNothing says why nothing was found, as far as it knows: there is nothing, no series is selected, or none in that time.
func (r *querying) hintNothing(ctx context.Context) error {
	selected, err := r.sample(ctx, reader.Query{Meta: r.Meta})
	if err != nil {
		return err
	}
	if len(selected.series) > 0 {
		newest := "the newest of them is at"
		if !selected.all {
			newest = fmt.Sprintf("the newest of the first %d series is at", sampleSize)
		}
		fmt.Fprintf(r.p.Stderr, "No measurement%s%s: %s %s.\n", r.conditions(" of "), r.times, newest, rows.Time(selected.newest, r.location))
		return nil
	}
	have, err := r.sample(ctx, reader.Query{})
	switch {
	case err != nil:
		return err
	case len(have.series) == 0:
		fmt.Fprintf(r.p.Stderr, "%s has no measurements yet.\n", r.words.collection)
		return nil
	}
	fmt.Fprintf(r.p.Stderr, "No series%s. There is %s, for example; \"waterwheel query %s --series\" lists all.\n",
		r.conditions(" matches "), text.Printable(have.series[0]), r.words.collection)
	for _, path := range r.paths() {
		if mistake := have.mistaken(path, r.from.Options()); mistake != "" {
			r.mistaken = true
			fmt.Fprintln(r.p.Stderr, text.Printable(mistake))
		}
	}
	return nil
}

// paths returns the paths that the query has conditions on, in the terms of measurements.
func (r *querying) paths() (all []string) {
	for _, c := range r.words.conditions {
		all = append(all, c.fullPath(r.from.Options().MetaField))
	}
	filter, err := r.onMeasurements()
	if err != nil {
		return all
	}
	advice, err := r.from.Options().Advise(filter, nil)
	if err != nil {
		return all
	}
	return slices.Compact(slices.Sorted(slices.Values(append(all, advice.Misses...))))
}

// mistaken says that no meta of the sample has a path of the query. Empty means that one has it, or that no meta has parts.
func (s sampled) mistaken(path string, o timeseries.Options) string {
	name, within := strings.CutPrefix(path, o.MetaField+".")
	first, _, _ := strings.Cut(name, ".")
	switch {
	case !within || len(s.parts) == 0 || slices.Contains(s.parts, first):
		return ""
	case slices.Contains(s.fields, first):
		return fmt.Sprintf("%q is a field of the measurements: conditions are on the meta, which has %s. Filter the output, or query the view.",
			first, text.List(s.parts))
	}
	return fmt.Sprintf("The meta has no %q: it has %s.", first, text.List(s.parts))
}

// conditions returns the conditions of the command line, for a sentence.
func (r *querying) conditions(before string) string {
	var all []string
	for _, c := range r.words.conditions {
		all = append(all, c.word)
	}
	if r.filter != "" {
		all = append(all, r.filter)
	}
	if len(all) == 0 {
		return ""
	}
	return before + text.Printable(strings.Join(all, " "))
}

// sampled describes a sample of the measurements.
type sampled struct {
	series, parts, fields []string
	newest                time.Time
	all                   bool // every series is in the sample
}

// sample reads the newest measurements of some series.
func (r *querying) sample(ctx context.Context, q reader.Query) (s sampled, err error) {
	add := func(list []string, names ...string) []string {
		for _, name := range names {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
		return list
	}
	q.Limit = sampleSize
	looked := 0
	for m, err := range r.from.Latest(ctx, q) {
		if err != nil {
			if err := r.bad(err); err != nil {
				return s, err
			}
			continue
		}
		looked++
		row := rows.Row{Time: m.Time, Meta: m.Meta, Fields: m.Fields}
		s.series = add(s.series, rows.Label(m.Meta))
		s.parts, s.fields = add(s.parts, row.MetaNames()...), add(s.fields, row.Names()...)
		if m.Time.After(s.newest) {
			s.newest = m.Time
		}
	}
	s.all = looked < sampleSize
	return s, nil
}

// adviseFrom is the number of buckets from which on a hint about an index is given. Fewer are read quickly.
const adviseFrom = 1000

// hintIndex says that an index would have helped a query for a part of the meta, if the collection has many buckets. It judges by
// the indexes alone. It ignores errors.
func (r *querying) hintIndex(ctx context.Context) {
	if r.follow || r.mistaken || r.totals != nil || ctx.Err() != nil {
		return
	}
	filter, err := r.onMeasurements()
	if err != nil {
		return
	}
	if without, err := r.from.Options().Advise(filter, nil); err != nil || without.Keys == nil {
		return // no index could help, so no request is needed
	}
	advice, err := r.advice(ctx, filter)
	if err != nil || advice.Keys == nil || slices.ContainsFunc(advice.Narrows, r.from.Options().OfMeta) {
		return
	}
	if size, err := r.from.Size(ctx); err == nil && size.Documents >= adviseFrom && size.Documents > r.found {
		fmt.Fprintf(r.p.Stderr, "No index supports queries on %s: up to %s and segments were read. This command creates an index: %s.\n",
			text.Printable(strings.Join(advice.Misses, ", ")), words.Count(size.Documents, "bucket"), text.Printable(check.IndexCommand(advice.Keys, "")))
	}
}

// onMeasurements returns the query as a filter on measurements.
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

func (r *querying) advice(ctx context.Context, filter bson.Raw) (timeseries.Advice, error) {
	list, err := r.from.PlainIndexes(ctx)
	if err != nil {
		return timeseries.Advice{}, err
	}
	byID := !r.From.IsZero() // the _id is bounded if there is a lower bound of the time
	return list.Options.Advise(filter, list.Definitions(byID))
}

// explained prints which index finds the buckets of the query. It judges by the definitions, and by a trial if MongoDB supports
// explain.
func (r *querying) explained(ctx context.Context) error {
	filter, err := r.onMeasurements()
	if err != nil {
		return err
	}
	advice, err := r.advice(ctx, filter)
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
		table.Row("Index", "no index supports the filter: every bucket is read")
	} else {
		table.Row("Index", fmt.Sprintf("%s supports the filter on %s", advice.Index, strings.Join(advice.Narrows, ", ")))
	}
	if len(advice.Wide) > 0 {
		table.Row("No index for", strings.Join(advice.Wide, ", "))
	}
	if err != nil {
		table.Row("Tried", "this MongoDB does not report what a query examines")
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

// mistakes returns which paths of the query no meta has, if an index on them would be advised otherwise.
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

// tried adds what MongoDB examined to find the series, if necessary, and to read them.
func tried(table *text.Table, plan reader.Plan) {
	said := func(c reader.Cost, what string) string {
		used := text.List(c.Indexes)
		if len(c.Indexes) == 0 {
			used = "no index"
		}
		return fmt.Sprintf("%s and %s examined to find %s, with %s", words.Count(c.DocumentsExamined, what), words.Count(c.KeysExamined, "key"), words.Count(c.Buckets, what), used)
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
