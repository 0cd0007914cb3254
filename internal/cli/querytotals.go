package cli

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"waterwheel/internal/rollup"
	"waterwheel/internal/words"
	"waterwheel/reader"
)

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

// noun returns the word for what is printed.
func (q *query) noun() string {
	if q.totals != nil {
		return "window"
	}
	return "measurement"
}
