package pipeline_test

import (
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
)

// staging is the checks' state about segments.
type staging struct {
	open    map[[16]byte]bool  // compactions that have frozen segments
	frozen  map[[16]byte]int   // number of frozen segments of each compaction
	places  map[int64][]string // _ids of the documents that hold a measurement, by its value
	loose   map[int64]bool     // measurements with a document that an operator has deleted
	renamed map[int64]bool     // measurements in a hidden bucket whose meta an operator may have changed
}

func newStaging() staging {
	return staging{open: map[[16]byte]bool{}, frozen: map[[16]byte]int{}, places: map[int64][]string{}, loose: map[int64]bool{}, renamed: map[int64]bool{}}
}

// compacts reports whether an action writes whole segments.
func compacts(a pipeline.Action) bool {
	switch a.(type) {
	case pipeline.ChangeSegments, pipeline.DeleteCompacted, pipeline.SweepSegments:
		return true
	}
	return false
}

// clock returns the server's time.
func (m *mongod) clock() time.Time { return time.UnixMilli(eventEpoch).Add(m.w.now) }

// place says when a document is shown.
type place struct {
	segment     bool
	from, until int64 // milliseconds since 1970. Zero means no bound.
	by          [16]byte
}

func placeOf(d bson.Raw) (p place) {
	at := func(path string) bson.RawValue { return valueAt(d, path) }
	p.segment = at(timeseries.PathOwner).Type != 0
	p.from, _ = at(timeseries.PathVisibleFrom).DateTimeOK()
	p.until, _ = at(timeseries.PathVisibleUntil).DateTimeOK()
	for _, path := range []string{timeseries.PathCompactionID, timeseries.PathSegmentCompaction} {
		if _, by, ok := at(path).BinaryOK(); ok {
			copy(p.by[:], by)
		}
	}
	return p
}

// frozen reports whether the document is a frozen segment that has not ended.
func (p place) frozen() bool { return p.segment && p.by != ([16]byte{}) && p.until == 0 }

func isSegment(d bson.Raw) bool { return placeOf(d).segment }

// shown reports whether a query shows the document at a moment.
func (p place) shown(at int64) bool {
	if p.segment {
		return p.until == 0 || p.until > at
	}
	return p.from <= at
}

// counted returns the measurements that a document counts for. While a compaction is unfinished, its segments count and its
// buckets do not, because a roll-back may delete the buckets. Afterwards its buckets count, and its ended segments do not.
func (c *checks) counted(w *world, d bson.Raw) []held {
	if d == nil {
		return nil
	}
	p := placeOf(d)
	if p.by != ([16]byte{}) && p.segment != c.staged.open[p.by] {
		return nil
	}
	return unpacked(w, d)
}

// freezes follows the freezing and ending of segments. When a compaction becomes unfinished or finished, other documents count.
// The returned function updates the counts, and is called after the document's own measurements are counted.
func (c *checks) freezes(w *world, before, after bson.Raw) (recount func()) {
	var self string
	changed := map[[16]byte]bool{}
	for i, d := range []bson.Raw{before, after} {
		if d == nil {
			continue
		}
		self = string(d.Lookup("_id").Value)
		if p := placeOf(d); p.frozen() {
			was := c.staged.frozen[p.by] > 0
			switch c.staged.frozen[p.by] += 2*i - 1; {
			case was == (c.staged.frozen[p.by] > 0):
			case changed[p.by]:
				delete(changed, p.by)
			default:
				changed[p.by] = true
			}
		}
	}
	if len(changed) == 0 { // as after most writes
		return func() {}
	}
	var touched []bson.Raw
	for _, id := range w.mongo.buckets.ids() {
		d := w.mongo.buckets.now(id)
		if p := placeOf(d); id != self && changed[p.by] {
			touched = append(touched, d)
		}
	}
	count := func(by int) (of []held) {
		for _, d := range touched {
			for _, m := range c.counted(w, d) {
				c.values[m.value] += by
				of = append(of, m)
			}
		}
		return of
	}
	count(-1)
	for by := range changed {
		if c.staged.frozen[by] > 0 {
			c.staged.open[by] = true
		} else {
			delete(c.staged.open, by)
		}
	}
	return func() {
		for _, m := range count(1) {
			if _, may := c.doubled[m.value]; c.values[m.value] > 1 && !may {
				w.fail("stored once", "offset %d part %d, value %d, is stored %d times after a compaction", m.position.Offset, m.position.Part, m.value, c.values[m.value])
			}
		}
		for _, d := range touched {
			c.shownOnce(w, d)
		}
	}
}

// shown updates the places of measurements, and checks that each is shown once at every moment from now on.
func (c *checks) shown(w *world, before, after bson.Raw) {
	if before != nil {
		id := string(before.Lookup("_id").Value)
		for _, m := range unpacked(w, before) {
			c.staged.places[m.value] = slices.DeleteFunc(c.staged.places[m.value], func(o string) bool { return o == id })
		}
	}
	if after != nil {
		id := string(after.Lookup("_id").Value)
		for _, m := range unpacked(w, after) {
			c.staged.places[m.value] = append(c.staged.places[m.value], id)
		}
	}
	for _, d := range []bson.Raw{before, after} {
		if d != nil && w.traits.segments {
			c.shownOnce(w, d)
		}
	}
}

// shownOnce checks the measurements of a document. A measurement of an unfinished compaction may be shown twice once its buckets
// are shown, until an owner finishes the compaction or rolls it back.
func (c *checks) shownOnce(w *world, d bson.Raw) {
	now := w.mongo.clock().UnixMilli()
	for _, m := range unpacked(w, d) {
		ids := c.staged.places[m.value]
		if _, doubled := c.doubled[m.value]; doubled || c.staged.loose[m.value] || len(ids) == 0 {
			continue
		}
		var places []place
		moments := []int64{now}
		twiceFrom := int64(1 << 62)
		for _, id := range ids {
			p := placeOf(w.mongo.buckets.now(id))
			places = append(places, p)
			moments = append(moments, max(now, p.from), max(now, p.until))
			if c.staged.open[p.by] && !p.segment {
				twiceFrom = min(twiceFrom, p.from)
			}
		}
		for _, at := range moments {
			n := 0
			for _, p := range places {
				if p.shown(at) {
					n++
				}
			}
			if n == 0 || n > 1 && at < twiceFrom {
				w.fail("shown once", "offset %d part %d, value %d, is shown %d times at %d: %+v", m.position.Offset, m.position.Part, m.value, n, at-now, places)
				return
			}
			if n > 1 && at == now {
				w.note("(met) measurements shown twice while nobody finishes a compaction")
			}
		}
	}
}

// compacting notes compacted buckets that are sent too late.
func (c *checks) compacting(w *world, writes []*bucketer.Write) {
	for _, x := range writes {
		if p := placeOf(x.Document); p.from <= w.mongo.clock().UnixMilli() {
			w.note("(met) compacted buckets sent after they are shown")
		}
	}
}

// compactionMutations remove guards of compaction.
var compactionMutations = []mutation{
	frozenForgotten, insertsUnawaited, insertsUnknown, endsUnknown, endsForgotten, keyForgotten, rollBackUnread,
}

// heardCompaction counts the outcomes of compactions.
func (w *world) heardCompaction(e pipeline.Event) {
	switch e := e.(type) {
	case pipeline.SegmentsRead:
		ended, frozen := map[claim.Token]bool{}, map[claim.Token]bool{}
		for _, s := range e.Segments.All {
			frozen[s.Compaction] = frozen[s.Compaction] || s.Frozen()
			ended[s.Compaction] = ended[s.Compaction] || s.VisibleUntil != 0
		}
		for by, open := range frozen {
			if open {
				w.note("(met) a compaction found that is not finished")
				if ended[by] {
					w.note("(met) compaction found with ended segments")
				}
			}
		}
		if e.Err == nil && len(e.Segments.All) > 0 {
			w.note("(met) segments of a former owner")
		}
	case pipeline.CompactedInserted:
		for _, s := range e.Sent {
			w.note("(met) compacted bucket " + s.Result.String())
		}
	case pipeline.SegmentsChanged:
		if e.Err == nil {
			w.note("(met) compaction finished")
		} else {
			w.note("(met) change of segments of which it is not known whether it is executed")
		}
	case pipeline.CompactedDeleted:
		if e.Err == nil {
			w.note("(met) compaction rolled back")
		}
	case pipeline.SegmentsSwept:
		if e.Err == nil {
			w.note("(met) ended segments deleted")
		}
	}
}
