package keeper

import (
	"cmp"
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/sink"
)

// Nested is the place of nested documents, for queries of that classic form. One document has the days, hours and minutes of a
// month of a series. They are made from rows. A keeper replaces each as a whole, by the rule of all rollups: only if its revision
// is the one read before the rows. So after a crash the keeper makes a document again, and counts nothing twice.
type Nested struct {
	Documents mongodb.Collection
	// Aggregations are the statistics of each field. Nil means the stored total.
	Aggregations []rollup.Aggregation
	// Limit bounds a document in bytes. Zero means rollup.NestedLimit.
	Limit int
}

// monthOfSeries is a series and a calendar month in UTC.
type monthOfSeries struct {
	key      string
	from, to int64
}

// monthsOf returns the months in which hours of series were computed.
func monthsOf(runs []run) (all []monthOfSeries) {
	for _, r := range runs {
		for from, to := rollup.Month(r.from); from < r.to; from, to = rollup.Month(to) {
			for _, key := range r.keys {
				all = append(all, monthOfSeries{key, from, to})
			}
		}
	}
	slices.SortFunc(all, func(a, b monthOfSeries) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.key, b.key)) })
	return slices.Compact(all)
}

// nest makes the nested documents of months again.
func (w *work) nest(ctx context.Context, months []monthOfSeries) error {
	if w.nested == nil {
		return nil
	}
	for _, m := range months {
		began := w.now()
		done := false
		for try := 0; !done; try++ {
			if try == computeTries {
				return errContended
			}
			var err error
			if done, err = w.nestOnce(ctx, m); err != nil {
				return err
			}
		}
		if err := w.rest(ctx, w.now().Sub(began)); err != nil {
			return err
		}
	}
	return nil
}

// nesting is one attempt at the documents of a month.
type nesting struct {
	*work
	monthOfSeries
	form rollup.NestedForm
	meta bson.RawValue
	have map[bson.ObjectID]sink.NestedState
	rows rollup.NestedRows // of all hours and days, and of the minutes that were last read
	// minutesFrom and minutesTo bound the times whose minutes were last read.
	minutesFrom, minutesTo int64
}

// nestOnce makes the documents of a month once. False means that another writer replaced one of them first.
func (w *work) nestOnce(ctx context.Context, m monthOfSeries) (done bool, err error) {
	n := nesting{work: w, monthOfSeries: m, meta: metaOf(m.key), rows: rollup.NestedRows{}}
	n.form = rollup.NestedForm{
		Series: w.rollups.Name(), MetaField: w.state.Options.MetaField, Aggregations: w.nested.Aggregations, Rules: map[string]*rollup.Rules{},
		Limit: cmp.Or(w.nested.Limit, rollup.NestedLimit),
	}
	for _, level := range w.state.Levels {
		defined, _ := w.state.Defined.Level(level.Name)
		n.form.Rules[level.Name] = defined.Rules()
	}
	whole := n.form.ID(n.meta, m.from, false)
	ids := []bson.ObjectID{whole}
	for day := m.from; day < m.to; day += dayMs {
		ids = append(ids, n.form.ID(n.meta, day, true))
	}
	if n.have, err = w.rollups.NestedStates(ctx, w.nested.Documents, ids); err != nil {
		return false, err
	}
	for _, level := range w.state.Levels { // after the revisions
		if level.Name == rollup.Minute {
			continue // day by day
		}
		if n.rows[level.Name], err = n.read(ctx, level.Name, m.from, m.to); err != nil {
			return false, err
		}
	}
	if n.have[whole].Cut {
		return n.cut(ctx)
	}
	size, days := 0, []bson.Raw(nil)
	for at := m.from; at < m.to; at += dayMs {
		day, err := n.day(ctx, at)
		if err != nil {
			return false, err
		}
		if day == nil {
			continue
		}
		days = append(days, day)
		if size += len(day); size+len(n.meta.Value) > n.form.Limit {
			return n.cut(ctx)
		}
	}
	return n.put(ctx, rollup.NestedDocument{ID: whole, Date: m.from}, days)
}

// cut makes a document for each day. Before it stores the first of these, it marks the month's document as cut and removes its
// days. So no query finds a day twice.
func (n *nesting) cut(ctx context.Context) (done bool, err error) {
	done, err = n.put(ctx, rollup.NestedDocument{ID: n.form.ID(n.meta, n.from, false), Date: n.from, Cut: true}, nil)
	for at := n.from; at < n.to && done && err == nil; at += dayMs {
		var day bson.Raw
		if day, err = n.day(ctx, at); err != nil {
			return false, err
		}
		var days []bson.Raw
		if day != nil {
			days = append(days, day)
		}
		done, err = n.put(ctx, rollup.NestedDocument{ID: n.form.ID(n.meta, at, true), Date: at}, days)
	}
	return done, err
}

// put stores a document. It does not store a new document without days. It keeps an existing one without days, because its
// revision records that newer rows were read.
func (n *nesting) put(ctx context.Context, d rollup.NestedDocument, days []bson.Raw) (bool, error) {
	d.Meta, d.Revision = n.meta, n.have[d.ID].Revision+1
	if d.Revision == 1 && len(days) == 0 && !d.Cut {
		return true, nil
	}
	return n.rollups.PutNested(ctx, n.nested.Documents, d.ID, d.Revision, n.form.Encode(d, days))
}

// minuteBytes is about how many bytes of minute rows are read at a time. At least one day is read.
const minuteBytes = 4 << 20

// day makes one day. Nil means that the day has no rows.
func (n *nesting) day(ctx context.Context, at int64) (bson.Raw, error) {
	if n.state.Levels.Has(rollup.Minute) && (at < n.minutesFrom || at >= n.minutesTo) {
		to := min(n.to, at+n.daysAtOnce()*dayMs)
		rows, err := n.read(ctx, rollup.Minute, at, to)
		if err != nil {
			return nil, err
		}
		n.rows[rollup.Minute], n.minutesFrom, n.minutesTo = rows, at, to
	}
	return n.form.Day(at, n.rows), nil
}

// daysAtOnce returns for how many days minutes are read at a time. It estimates their size from the rows of hours and days.
func (n *nesting) daysAtOnce() int64 {
	largest := 0
	for _, rows := range n.rows {
		for _, row := range rows {
			largest = max(largest, len(row.Fields))
		}
	}
	if largest == 0 { // the size is unknown
		return 1
	}
	const minutes = 24 * 60
	return max(1, minuteBytes/int64(minutes*largest))
}

// read reads the rows of a level in a span of time, in their order.
func (n *nesting) read(ctx context.Context, level string, from, to int64) ([]rollup.Stored, error) {
	rows, err := n.rowsOf(ctx, level, run{from, to, []string{n.key}})
	return rows[n.key], err
}

// Nest makes the nested documents of all rows of the time series. After each it calls told with the number so far. It returns the
// total. Months that no longer have rows keep their documents.
func (c *Command) Nest(ctx context.Context, nested *Nested, told func(months int)) (months int, err error) {
	w := *c.w
	w.nested = nested
	err = w.inParts(func(t *touched) (fits bool, err error) {
		fits = true
		for _, level := range w.state.Levels {
			err := w.rollups.Periods(ctx, w.state.Options, level.Name, func(meta bson.RawValue, from int64) {
				begin, _ := rollup.Month(from)
				fits = fits && t.add(meta, begin)
			})
			if err != nil {
				return true, err
			}
		}
		if !fits {
			months = 0
			return false, nil
		}
		for _, m := range monthsOf(t.runs()) {
			if err := w.nest(ctx, []monthOfSeries{m}); err != nil {
				return true, err
			}
			months++
			told(months)
		}
		return true, nil
	})
	return months, err
}
