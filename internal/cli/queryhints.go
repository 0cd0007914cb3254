package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"waterwheel/internal/cli/rows"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/reader"
)

// hints say on stderr what a reader may want to know of a result: why there is none, which fields none has, what CSV left out.
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
		fmt.Fprintf(r.p.Stderr, "The header has the columns of the first measurements; %s also had %s, which is left out: name the "+
			"fields, or take --format json.\n", words.Count(n, "later row"), text.Printable(text.List(names)))
	}
	return nil
}

// hintFields tells of fields that are named and that no measurement had so far.
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
			fmt.Fprintf(r.p.Stderr, "%q is no field but a part of the meta, which is printed in any case.\n", text.Printable(name))
		}
		return ofMeta
	})
	if len(missing) > 0 {
		fmt.Fprintf(r.p.Stderr, "None of the %s has %s; there are %s.\n",
			words.Count(r.found, "measurement"), text.Printable(strings.Join(missing, ", ")), text.Printable(text.List(have.fields)))
	}
	return nil
}

// hintNothing says why nothing was found, as far as that can be told: there is nothing, no series is meant, or none of that time.
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

// paths are those that the query has conditions on, in the words of measurements.
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

// mistaken says that a path of the query is in no meta of the sample; empty: it is in one, or no meta has parts.
func (s sampled) mistaken(path string, o timeseries.Options) string {
	name, within := strings.CutPrefix(path, o.MetaField+".")
	first, _, _ := strings.Cut(name, ".")
	switch {
	case !within || len(s.parts) == 0 || slices.Contains(s.parts, first):
		return ""
	case slices.Contains(s.fields, first):
		return fmt.Sprintf("%q is a field of the measurements: conditions are on the meta, which has %s. Filter what is printed, or query the view.",
			first, text.List(s.parts))
	}
	return fmt.Sprintf("The meta has no %q: it has %s.", first, text.List(s.parts))
}

// conditions are those of the command line, for a sentence.
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

// sampled is what some measurements show of all.
type sampled struct {
	series, parts, fields []string
	newest                time.Time
	all                   bool // every series was looked at
}

// sample looks at the newest measurements of some series.
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
