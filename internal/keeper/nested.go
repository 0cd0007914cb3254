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

// Nested is where nested documents of the months of series are kept: days, hours and minutes in one document, for queries of that
// classic form. They are made of rows, and replaced as a whole by the rule of all rollups: only if the revision is there that was read
// before the rows. So what a crash cuts off is made again, and never counted twice.
type Nested struct {
	Documents mongodb.Collection
	// Aggregations are the figures of each field. Nil means the total as it is stored.
	Aggregations []rollup.Aggregation
	// Limit bounds a document in bytes. Zero means rollup.NestedLimit.
	Limit int
}

// monthOfSeries is a series and a calendar month in UTC.
type monthOfSeries struct {
	key      string
	from, to int64
}

// monthsOf are the months in which hours of series were computed.
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
	rows rollup.NestedRows // of all hours and days, and of the minutes that were read last
	// minutesFrom and minutesTo are between which times minutes were read last.
	minutesFrom, minutesTo int64
}

// nestOnce makes the documents of a month once. False means that another writer was quicker with one of them.
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
		if n.rows[level.Name], err = n.read(ctx, level, m.from, m.to); err != nil {
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

// cut makes a document of each day. The month's own document says so, and has no days from then on, before the first of a day is there:
// no query finds a day twice.
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

// put stores a document. One that is not there and would have no days is not stored, and one that is there keeps its place: its revision
// says that newer rows were looked at.
func (n *nesting) put(ctx context.Context, d rollup.NestedDocument, days []bson.Raw) (bool, error) {
	d.Meta, d.Revision = n.meta, n.have[d.ID].Revision+1
	if d.Revision == 1 && len(days) == 0 && !d.Cut {
		return true, nil
	}
	return n.rollups.PutNested(ctx, n.nested.Documents, d.ID, d.Revision, n.form.Encode(d, days))
}

// minuteBytes is how many bytes of rows of minutes are read at a time, about: those of a day at least.
const minuteBytes = 4 << 20

// day makes one day. Nil means that it has no rows.
func (n *nesting) day(ctx context.Context, at int64) (bson.Raw, error) {
	minute, ok := n.level(rollup.Minute)
	if ok && (at < n.minutesFrom || at >= n.minutesTo) {
		to := min(n.to, at+n.daysAtOnce()*dayMs)
		rows, err := n.read(ctx, minute, at, to)
		if err != nil {
			return nil, err
		}
		n.rows[rollup.Minute], n.minutesFrom, n.minutesTo = rows, at, to
	}
	return n.form.Day(at, n.rows), nil
}

// daysAtOnce is of how many days minutes are read at a time, by how large the rows of hours and days are.
func (n *nesting) daysAtOnce() int64 {
	largest := 0
	for _, rows := range n.rows {
		for _, row := range rows {
			largest = max(largest, len(row.Fields))
		}
	}
	if largest == 0 { // nobody knows
		return 1
	}
	const minutes = 24 * 60
	return max(1, minuteBytes/int64(minutes*largest))
}

// read reads the rows of a level in a span of time, in their order.
func (n *nesting) read(ctx context.Context, level rollup.Level, from, to int64) (rows []rollup.Stored, err error) {
	documents, err := n.documents(ctx, level, run{from, to, []string{n.key}})
	for _, d := range documents {
		rows = append(rows, d.Rows...)
	}
	slices.SortStableFunc(rows, func(a, b rollup.Stored) int { return cmp.Compare(a.Time, b.Time) })
	return rows, err
}

// Nest makes the nested documents of all rows of the time series, and calls told after each with how many there were. It returns how many
// there are. Months that have no rows any more keep their documents.
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
