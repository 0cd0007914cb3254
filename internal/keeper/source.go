package keeper

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// source collects the measurements of some series in a span of time, as they are shown at one moment.
type source struct {
	options  timeseries.Options
	from, to int64
	series   map[string]*measurements // by key
	unpacker *timeseries.Unpacker
	places   map[timeseries.Source]int // the index of each partition in sources
	sources  []timeseries.Source
	n        int
	spare    []measurements // empty, with capacity, from series that were forgotten
}

// measurements are the measurements of one series.
type measurements struct {
	rows  []measured
	chunk []byte // has capacity for the fields of more rows
}

// measured is one measurement.
type measured struct {
	time     int64
	place    int
	position timeseries.Position
	fields   bson.Raw
}

func newSource(o timeseries.Options, r *run) *source {
	s := &source{options: o, from: r.from, to: r.to, series: map[string]*measurements{}, unpacker: timeseries.NewUnpacker(o), places: map[timeseries.Source]int{}}
	for _, key := range r.keys {
		s.series[key] = &measurements{}
	}
	return s
}

// buckets reads the buckets of some series that are shown at a moment, and then orders the measurements of the series. The
// segments were read before. A compaction moves measurements from segments to buckets, and deletes a segment only well after it
// has ended. So no measurement is missed in between.
func (s *source) buckets(ctx context.Context, r *sink.Rollups, now time.Time, keys []string) (read int, err error) {
	metas := make([]bson.RawValue, 0, len(keys))
	for _, key := range keys {
		metas = append(metas, metaOf(key))
	}
	before := s.n
	if err := r.Shown(ctx, s.options, now, metas, s.from, s.to, s.add); err != nil {
		return 0, err
	}
	for _, key := range keys {
		s.order(s.series[key])
	}
	return s.n - before, nil
}

// forget drops the measurements of some series. The next series reuse their memory.
func (s *source) forget(keys []string) {
	for _, key := range keys {
		of := s.series[key]
		if of.rows != nil {
			s.spare = append(s.spare, measurements{of.rows[:0], of.chunk[:0]})
		}
		*of = measurements{}
	}
}

// append adds a measurement to a series, with a copy of its fields.
func (s *source) append(of *measurements, at int, m *timeseries.Unpacked) {
	if last := len(s.spare) - 1; of.rows == nil && last >= 0 {
		*of, s.spare = s.spare[last], s.spare[:last]
	}
	if room := cap(of.chunk); room-len(of.chunk) < len(m.Fields) {
		of.chunk = make([]byte, 0, max(min(2*room, mostChunk), firstChunk, len(m.Fields)))
	}
	start := len(of.chunk)
	of.chunk = append(of.chunk, m.Fields...)
	of.rows = append(of.rows, measured{m.Time, at, m.Position, of.chunk[start:len(of.chunk):len(of.chunk)]})
	s.n++
}

// These bound the memory, in bytes, that is allocated at a time for the fields of a series.
const firstChunk, mostChunk = 1 << 10, 64 << 10

// add adds the measurements of a document. A document that cannot be read ends the pass, because its content is unknown.
func (s *source) add(document bson.Raw) error {
	u := s.unpacker
	if err := u.Reset(document); err != nil {
		return newDamagedError(document, err)
	}
	if !u.IsSegment() && s.series[timeseries.Key(u.Meta())] == nil {
		return nil // The metas are only equal in MongoDB's order.
	}
	from := u.Source()
	from.Topic = ""
	at := s.place(from)
	var m timeseries.Unpacked
	for u.Next(&m) {
		if m.Time < s.from || m.Time >= s.to {
			continue
		}
		of := s.series[timeseries.Key(m.Meta)]
		if of == nil {
			continue
		}
		s.append(of, at, &m)
	}
	if err := u.Err(); err != nil {
		return newDamagedError(document, err)
	}
	return nil
}

func (s *source) place(p timeseries.Source) int {
	at, ok := s.places[p]
	if !ok {
		at = len(s.sources)
		s.places[p] = at
		s.sources = append(s.sources, p)
	}
	return at
}

// order sorts the measurements of a series by time, and those of equal time by position. It removes repeated positions.
func (s *source) order(of *measurements) {
	if s.inOrder(of) {
		return
	}
	slices.SortStableFunc(of.rows, func(a, b measured) int {
		if c := cmp.Compare(a.time, b.time); c != 0 {
			return c
		}
		return cmp.Or(s.sources[a.place].Compare(s.sources[b.place]), a.position.Compare(b.position))
	})
	type positioned struct {
		place int
		timeseries.Position
	}
	seen := make(map[positioned]struct{}, len(of.rows))
	of.rows = slices.DeleteFunc(of.rows, func(m measured) bool {
		if m.position.Offset == timeseries.Unlisted { // its position is unknown
			return false
		}
		key := positioned{m.place, m.position}
		_, again := seen[key]
		seen[key] = struct{}{}
		return again
	})
}

// inOrder reports whether the measurements came from one partition, in the order of time and of their positions. Then no position
// is repeated. This is true for most series.
func (s *source) inOrder(of *measurements) bool {
	for i := 1; i < len(of.rows); i++ {
		a, b := &of.rows[i-1], &of.rows[i]
		if a.place != b.place || a.time > b.time || a.position.Compare(b.position) >= 0 {
			return false
		}
	}
	return true
}

// levelRows are the rows of a series by the name of their level, in the order of time.
type levelRows map[string][]rollup.Stored

// rows returns the rows of minutes and hours of a series, whose measurements must be in order. The row of an hour is made of the
// rows of its minutes, even if the time series has no level of minutes. So the sum of an hour does not depend on the levels.
func rows(of []measured, defined rollup.Definition) levelRows {
	all := levelRows{}
	var minutes, hours *windows
	for _, level := range defined.Levels {
		switch level.Name {
		case rollup.Minute:
			minutes = newWindows(rollup.Minute, level.Rules(), true)
		case rollup.Hour:
			hours = newWindows(rollup.Hour, level.Rules(), true)
		}
	}
	switch {
	case hours == nil:
	case minutes != nil && minutes.rules.Equal(hours.rules):
		minutes.coarser = hours
	default:
		own := newWindows(rollup.Minute, hours.rules, false)
		own.coarser = hours
		own.make(of)
	}
	if minutes != nil {
		minutes.make(of)
		all[rollup.Minute] = minutes.rows
	}
	if hours != nil {
		all[rollup.Hour] = hours.rows
	}
	return all
}

// windows makes the rows of the windows of one level, one after the other.
type windows struct {
	step    rollup.Level
	rules   *rollup.Rules
	stored  bool     // the rows are kept
	coarser *windows // gets each row as well, unless nil

	row       *rollup.Row
	rows      []rollup.Stored
	documents []byte // the documents of the rows, one after the other
}

func newWindows(step string, rules *rollup.Rules, stored bool) *windows {
	w := &windows{rules: rules, stored: stored, row: rules.NewRow(0)}
	w.step, _ = rollup.LevelOf(step)
	return w
}

// make makes the rows of measurements.
func (w *windows) make(of []measured) {
	for i := range of {
		w.at(of[i].time).Add(of[i].fields)
	}
	w.end()
}

// at returns the row of the window with a time. It ends the row of the window before.
func (w *windows) at(time int64) *rollup.Row {
	if begin := w.step.Window(time); w.row.Count == 0 || begin != w.row.Time {
		w.endRow()
		w.row.Reset(begin)
	}
	return w.row
}

func (w *windows) endRow() {
	if w.row.Count == 0 {
		return
	}
	if w.coarser != nil {
		w.coarser.at(w.row.Time).Merge(w.row)
	}
	if w.stored {
		start := len(w.documents)
		w.documents = w.row.AppendDocument(w.documents)
		w.rows = append(w.rows, rollup.Stored{Time: w.row.Time, Fields: w.documents[start:len(w.documents):len(w.documents)]})
	}
}

// end ends the last row of this level and of the coarser one.
func (w *windows) end() {
	w.endRow()
	if w.coarser != nil {
		w.coarser.end()
	}
}
