package pipeline_test

import (
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/pipeline"
	"waterwheel/timeseries"
)

// staging is what the checks know of segments.
type staging struct {
	announced map[[16]byte]int64 // the settlings that partition documents announce, and from when on their buckets are shown
	places    map[int64][]string // _ids of the documents that hold a measurement, by its value
	loose     map[int64]bool     // measurements of which an operator has deleted a document
	renamed   map[int64]bool     // measurements that an operator may have given another meta in a segment
}

func newStaging() staging {
	return staging{announced: map[[16]byte]int64{}, places: map[int64][]string{}, loose: map[int64]bool{}, renamed: map[int64]bool{}}
}

// settles tells whether an action writes segments as a whole.
func settles(a pipeline.Action) bool {
	switch a.(type) {
	case pipeline.CommitSettling, pipeline.TakeBackSettling, pipeline.DeleteSettled, pipeline.SweepSegments:
		return true
	}
	return false
}

// clock is the server's.
func (m *mongod) clock() time.Time { return time.UnixMilli(eventEpoch).Add(m.w.now) }

// place is what a document says of when it is shown.
type place struct {
	segment     bool
	from, until int64 // 0: there is none
	by          [16]byte
}

func placeOf(d bson.Raw) (p place) {
	at := func(path string) bson.RawValue { return valueAt(d, path) }
	p.segment = at(timeseries.PathLow).Type != 0
	p.from, _ = at(timeseries.PathFrom).DateTimeOK()
	p.until, _ = at(timeseries.PathUntil).DateTimeOK()
	for _, path := range []string{timeseries.PathSettledBy, timeseries.PathSegmentBy} {
		if _, by, ok := at(path).BinaryOK(); ok {
			copy(p.by[:], by)
		}
	}
	return p
}

func isSegment(d bson.Raw) bool { return placeOf(d).segment }

// shown tells whether a query shows the document at a moment.
func (p place) shown(at int64) bool {
	if p.segment {
		return p.until == 0 || p.until > at
	}
	return p.from <= at
}

// counted are the measurements that a document counts for: a bucket of a settling that is announced may go again, and then
// the segments of that count; the others' segments have ended.
func (c *checks) counted(w *world, d bson.Raw) []held {
	if d == nil {
		return nil
	}
	p := placeOf(d)
	_, open := c.staged.announced[p.by]
	if p.by != ([16]byte{}) && p.segment != open {
		return nil
	}
	return unpacked(w, d)
}

// announced follows the announcements of partition documents.
func (c *checks) announced(w *world, before, after bson.Raw) {
	read := func(d bson.Raw) (by [16]byte, from int64) {
		if d == nil {
			return by, 0
		}
		from, _ = valueAt(d, "settling.from").DateTimeOK()
		if _, id, ok := valueAt(d, "settling.by").BinaryOK(); ok {
			copy(by[:], id)
		}
		return by, from
	}
	was, _ := read(before)
	now, from := read(after)
	if was == now {
		return
	}
	var touched []bson.Raw
	for _, id := range w.mongo.buckets.ids() {
		if d := w.mongo.buckets.now(id); placeOf(d).by != ([16]byte{}) && (placeOf(d).by == was || placeOf(d).by == now) {
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
	delete(c.staged.announced, was)
	if now != ([16]byte{}) {
		c.staged.announced[now] = from
	}
	for _, m := range count(1) {
		if _, may := c.doubled[m.value]; c.values[m.value] > 1 && !may {
			w.fail("stored once", "offset %d part %d, value %d, is stored %d times after a settling", m.position.Offset, m.position.Part, m.value, c.values[m.value])
		}
	}
	for _, d := range touched {
		c.shownOnce(w, d)
	}
}

// shown follows where measurements are, and checks that each is shown once at every moment from now on.
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

// shownOnce checks the measurements of a document. One of a settling that is announced may be shown twice once its buckets are:
// until somebody comes to finish or undo it.
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
			if from, open := c.staged.announced[p.by]; open {
				twiceFrom = min(twiceFrom, from)
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
				w.note("(met) measurements shown twice while nobody finishes a settling")
			}
		}
	}
}

// settling looks at buckets that are sent.
func (c *checks) settling(w *world, writes []*bucketer.Write) {
	for _, x := range writes {
		if p := placeOf(x.Document); p.from <= w.mongo.clock().UnixMilli() {
			w.note("(met) settled buckets sent after they are shown")
		}
	}
}

// takingBack looks at a settling that is undone.
func (w *world) takingBack(by [16]byte) {
	for _, id := range w.mongo.buckets.ids() {
		if p := placeOf(w.mongo.buckets.now(id)); p.segment && p.by == by {
			w.note("(met) settling undone with some segments ended")
			return
		}
	}
}

// settlingMutations are guards of settling.
var settlingMutations = []mutation{
	settlingUnannounced, settledUnawaited, settledUnknown, endsUnknown, editsUncounted, endsUnconditional,
}

// heardSettling counts what became of settlings.
func (w *world) heardSettling(e pipeline.Event) {
	switch e := e.(type) {
	case pipeline.StagingRead:
		if e.Err == nil && e.Staging.Settling != nil {
			w.note("(met) a settling found that is not finished")
		}
		if e.Err == nil && len(e.Staging.Segments) > 0 {
			w.note("(met) segments of a former owner")
		}
	case pipeline.SettledSent:
		for _, s := range e.Sent {
			w.note("(met) settled bucket " + s.Result.String())
		}
	case pipeline.SettlingCommitted:
		if e.Err == nil {
			w.note("(met) settling finished")
		} else {
			w.note("(met) settling of which it is not known whether it is finished")
		}
	case pipeline.SettlingRecovered:
		if e.Err == nil && e.Finished {
			w.note("(met) settling found to be finished")
		}
	case pipeline.SettledDeleted:
		if e.Err == nil {
			w.note("(met) settling undone")
		}
	case pipeline.SegmentsSwept:
		if e.Err == nil {
			w.note("(met) ended segments deleted")
		}
	}
}
