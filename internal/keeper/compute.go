package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// DamagedError means that a document cannot be read, so the right rows of its series are unknown.
type DamagedError struct {
	ID  string
	Err error
}

// Error names the document.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("the document %s is damaged, so the rows of its hours cannot be computed: %v; repair or delete the document", e.ID, e.Err)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

func newDamagedError(document bson.Raw, err error) error {
	return &DamagedError{ID: document.Lookup(timeseries.FieldID).String(), Err: err}
}

var (
	errContended = errors.New("other processes have replaced the same rollup documents repeatedly")
	errSlow      = fmt.Errorf("MongoDB is too slow: reading buckets and segments for rollups took longer than %v", longestLook)
)

const (
	// computeTries is how often rows are computed if other writers replace their documents first.
	computeTries = 10
	// longestLook bounds how long one moment is read. Segments that have ended are kept for longer than that.
	longestLook = 30 * time.Second
	// frozenMargin is how long before its first measurement could expire an hour is frozen. A day is frozen as long before its
	// hours could expire.
	frozenMargin = time.Hour
	// expiredMargin is how long rows are still computed after their document has expired. Readers count on rows that have not
	// expired by their own clock, which may be behind.
	expiredMargin = time.Minute
)

// work is the state of a pass, a note or a command.
type work struct {
	rollups *sink.Rollups
	state   sink.RollupState
	metrics *Metrics
	// nested is the place of nested documents. Nil means that there are none.
	nested *Nested
	// free means that rows may shrink, because of a note or --replace. purges means that rows of frozen hours are removed as
	// well.
	free, purges bool
	// rest is called after each step with the time that the step took.
	rest func(ctx context.Context, worked time.Duration) error
	now  func() time.Time // of this process
	// linger is noteLinger.
	linger time.Duration
	// most is mostHours.
	most int
	// size is how many series are read at a time. It adapts to the number of measurements that the last ones had.
	size int
	// together is how many rollup documents are replaced by one command. It adapts to what other writers have replaced first.
	together int

	frozen int64 // late measurements that are in no row
	tried  int64 // offsets of the present topic by which a pass was to move the watermark
}

// These bound how many series are read at a time. aimedPerLook is the intended number of measurements.
const (
	firstSeries  = 16
	mostSeries   = 500
	aimedPerLook = 50_000
	// seriesPerMoment is how many series are computed for one moment if there are segments. All segments are read for each
	// moment.
	seriesPerMoment = 1000
)

// hours computes the rows of minutes and hours of a run, for some series at a time.
func (w *work) hours(ctx context.Context, r run, t *touched) error {
	return w.inChunks(ctx, r.keys, seriesPerMoment, func(some []string) (left []string, err error) {
		return w.attempt(ctx, run{r.from, r.to, some}, t)
	})
}

// inChunks calls attempt for chunks of series, and again for the series that an attempt has left, until none is left. It gives
// up after some attempts in a row that have left all their series.
func (w *work) inChunks(ctx context.Context, keys []string, size int, attempt func(some []string) (left []string, err error)) error {
	for some := range slices.Chunk(keys, size) {
		for tries := 0; len(some) > 0; tries++ {
			if tries == computeTries {
				return errContended
			}
			began := w.now()
			left, err := attempt(some)
			if err != nil {
				return err
			}
			if len(left) < len(some) {
				tries = 0
			}
			some = left
			if err := w.rest(ctx, w.now().Sub(began)); err != nil {
				return err
			}
		}
	}
	return nil
}

// target is a rollup document to be replaced, with the content that was read.
type target struct {
	level rollup.Level
	key   string
	to    int64 // the end of its period
	dirty bool  // some of its rows were computed
	late  int64 // late measurements that are in none of its rows
	rollup.Document
}

// attempt computes the rows of series once. It reads the documents of the rows, then what is shown at one moment, and stores the
// rows. It returns the series that are left, because another writer replaced one of their documents first, or because the moment
// is too long ago.
func (w *work) attempt(ctx context.Context, r run, t *touched) (left []string, err error) {
	targets, err := w.targets(ctx, r)
	if err != nil {
		return nil, err
	}
	began := w.now()
	s, now, err := w.source(ctx, r)
	if err != nil {
		return nil, err
	}
	for rest := r.keys; len(rest) > 0; {
		w.size = max(1, min(w.size, mostSeries))
		some := rest[:min(w.size, len(rest))]
		read, err := s.buckets(ctx, w.rollups, now, some)
		if err != nil {
			return nil, err
		}
		if w.now().Sub(began) > longestLook {
			w.size /= 4
			if len(some) == 1 && len(rest) == len(r.keys) {
				return nil, errSlow
			}
			return append(left, rest...), nil
		}
		w.size = len(some) * aimedPerLook / max(read, 1)
		var of []*target
		for _, key := range some {
			of = append(of, targets[key]...)
		}
		w.replace(of, s, now, t)
		lost, err := w.put(ctx, of)
		if err != nil {
			return nil, err
		}
		left = append(left, lost...)
		s.forget(some)
		rest = rest[len(some):]
	}
	return left, nil
}

// source begins to read what is shown now of a run, with the segments. The buckets are still to be read.
func (w *work) source(ctx context.Context, r run) (s *source, now time.Time, err error) {
	if now, err = w.rollups.Clock(ctx); err != nil {
		return nil, now, err
	}
	s = newSource(w.state.Options, &r)
	if w.state.Segments {
		err = w.rollups.Segments(ctx, s.options, now, s.from, s.to, s.add)
	}
	return s, now, err
}

// targets reads the documents that hold the rows of a run, of all levels except days. A missing document has revision 0.
func (w *work) targets(ctx context.Context, r run) (map[string][]*target, error) {
	all := map[string][]*target{}
	for _, level := range w.state.Levels {
		if level.Name == rollup.Day {
			continue
		}
		of, err := w.documents(ctx, level, r)
		if err != nil {
			return nil, err
		}
		for _, d := range of {
			all[d.key] = append(all[d.key], d)
		}
	}
	return all, nil
}

// documents reads the documents of a level that hold the rows of a run.
func (w *work) documents(ctx context.Context, level rollup.Level, r run) (all []*target, err error) {
	byID := map[bson.ObjectID]*target{}
	var ids []bson.ObjectID
	for _, key := range r.keys {
		meta := metaOf(key)
		for from, to := level.Period(r.from); from < r.to; from, to = level.Period(to) {
			d := &target{level: level, key: key, to: to, Document: rollup.Document{ID: level.ID(meta, from), Meta: meta, From: from}}
			if other := byID[d.ID]; other != nil {
				return nil, fmt.Errorf("two series have the same _id %s in level %s: change the meta of one of them", d.ID.Hex(), level.Name)
			}
			byID[d.ID] = d
			ids, all = append(ids, d.ID), append(all, d)
		}
	}
	options := level.Options(w.state.Options)
	for some := range slices.Chunk(ids, mostIDs) {
		var failed error
		err = w.rollups.Documents(ctx, level.Name, some, func(raw bson.Raw) error {
			d, bad := rollup.Decode(raw, options)
			if bad == nil && !d.Meta.Equal(byID[d.ID].Meta) {
				bad = fmt.Errorf("the rollup document %s of level %s has the meta %v, but its _id belongs to the meta %v: the document was edited by hand; delete the document, and run `waterwheel rollup build`",
					d.ID.Hex(), level.Name, d.Meta, byID[d.ID].Meta)
			}
			if failed = cmp.Or(failed, bad); bad == nil {
				byID[d.ID].Document = d
			}
			return nil
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// mostIDs bounds the _ids of one query.
const mostIDs = 2000

// replace puts computed rows into the documents, which are in the order of their series. The documents of the coarsest level that
// is computed from measurements count the late measurements that are in no row.
func (w *work) replace(targets []*target, s *source, now time.Time, t *touched) {
	coarsest := w.coarsest()
	var computed levelRows
	for i, d := range targets {
		if i == 0 || d.key != targets[i-1].key {
			computed = rows(s.series[d.key].rows, w.state.Defined)
		}
		defined, _ := w.state.Defined.Level(d.level.Name)
		count := defined.Rules().CountField()
		from, to := max(s.from, d.From), min(s.to, d.to)
		for hour := from; hour < to; hour += hourMs {
			late := int64(0)
			if d.level.Name == coarsest {
				late = t.late(d.key, hour)
			}
			if w.isFrozen(d.level, hour, now) {
				if w.purges {
					d.Replace(hour, hour+hourMs, nil)
					d.dirty = true
				}
				if !w.isInDay(hour, now) {
					d.late += late
				}
				continue
			}
			d.dirty = true
			if w.replaceHour(d, hour, rollup.Within(computed[d.level.Name], hour, hour+hourMs), count) {
				d.late += late
			}
		}
	}
}

// coarsest returns the name of the coarsest level that is computed from measurements.
func (w *work) coarsest() string {
	if w.state.Levels.Has(rollup.Hour) {
		return rollup.Hour
	}
	return rollup.Minute
}

// replaceHour replaces the rows of an hour. A row that would shrink stays as it is, unless rows may shrink (R3). kept reports
// that a row stayed.
func (w *work) replaceHour(d *target, from int64, fresh []rollup.Stored, count string) (kept bool) {
	if w.free {
		d.Replace(from, from+hourMs, fresh)
		return false
	}
	step := d.level.Step.Milliseconds()
	for at := from; at < from+hourMs; at += step {
		one := rollup.Within(fresh, at, at+step)
		if countOf(one, count) < countOf(rollup.Within(d.Rows, at, at+step), count) {
			kept = true
			continue
		}
		d.Replace(at, at+step, one)
	}
	return kept
}

func countOf(rows []rollup.Stored, count string) (n int64) {
	for _, row := range rows {
		n += row.Count(count)
	}
	return n
}

// isFrozen reports whether the rows of an hour are no longer computed, because MongoDB may soon delete its measurements, or has
// deleted its rows.
func (w *work) isFrozen(level rollup.Level, hour int64, now time.Time) bool {
	return w.lacksMeasurements(hour, now) || hasExpired(level, hour, now.Add(-expiredMargin))
}

// lacksMeasurements reports whether MongoDB may soon delete the first measurements from a time on.
func (w *work) lacksMeasurements(from int64, now time.Time) bool {
	if kept := w.state.Options.ExpireAfterSeconds; kept > 0 && from < now.Add(frozenMargin).UnixMilli()-kept*1000 {
		return true
	}
	return false
}

// hasExpired reports whether the document with the row of a time has expired. MongoDB deletes the document no earlier, because its
// TTL index adds the span of the document to the expiry. Until then readers count on the document's newer rows.
func hasExpired(level rollup.Level, at int64, now time.Time) bool {
	if level.Expire == 0 {
		return false
	}
	_, to := level.Period(at)
	return to < now.Add(-level.Expire).UnixMilli()
}

// put stores the documents with computed rows. It returns the series that are left, because another writer replaced one of their
// documents first. put does not store a new document without rows. The error is errDropped if a level was dropped since the work
// began, because an insert would create its collection again.
func (w *work) put(ctx context.Context, targets []*target) (left []string, err error) {
	defined, err := w.rollups.Defined(ctx)
	if err != nil {
		return nil, err
	}
	for _, level := range w.state.Levels {
		if _, kept := defined.Level(level.Name); !kept {
			return nil, errDropped
		}
	}
	lost := map[string]bool{} // by key of the series
	for _, level := range w.state.Levels {
		var documents []rollup.Document
		keys := map[bson.ObjectID]string{}
		rows := 0
		for _, d := range targets {
			if d.level.Name != level.Name || !d.dirty || d.Revision == 0 && len(d.Rows) == 0 {
				continue
			}
			d.Revision++
			documents, keys[d.ID] = append(documents, d.Document), d.key
			rows += len(d.Rows)
		}
		if len(documents) == 0 {
			continue
		}
		replaced, err := w.rollups.Put(ctx, level.Name, level.Options(w.state.Options), documents, w.together)
		if err != nil {
			return nil, err
		}
		for _, id := range replaced {
			lost[keys[id]] = true
		}
		w.metrics.rows(level.Name, rows)
	}
	for _, d := range targets {
		if !lost[d.key] {
			w.frozen += d.late
		}
	}
	if len(lost) > 0 {
		w.together = max(w.together/4, 1) // at 1, each document is known to be replaced or not
	} else {
		w.together = min(2*w.together, sink.MostTogether)
	}
	return slices.Sorted(maps.Keys(lost)), nil
}
