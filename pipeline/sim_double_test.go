package pipeline_test

import (
	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// doubled is a measurement that was stored a second time, against the protocol.
type doubled struct {
	log    *partitionLog
	offset int64
}

// plant stores some stored measurements below the committed offset again. It puts them into the buckets of an owner that knows no
// others.
func (w *world) plant() {
	l := w.anyLog()
	if l == nil || w.mongo.away > w.now {
		return
	}
	limits := timeseries.Limits{MaxCount: pick[int32](w, 2, 7, 20), MaxBytes: 100_000, MinCount: 1}
	catalog := bucketer.New(bucketer.Options{Collection: simCollection, Limits: limits, Source: w.source(l.partition)})
	committed := min(w.group.read(l.partition).offset, l.end)
	for o := max(l.first, committed-1-w.rnd.Int64N(20)); o < committed; o++ {
		for _, m := range w.checks.stored(w.decoder(true), l, o) {
			if err := catalog.Insert(&m); err != nil {
				w.fail("plant", "%v", err)
			}
		}
	}
	cut := catalog.Prepare(0)
	if cut == nil {
		return
	}
	for _, x := range cut.Writes {
		if id := string(x.ID[:]); w.mongo.buckets.now(id) == nil {
			w.note("(met) buckets doubled")
			w.mongo.put(w.mongo.buckets, id, x.Document, w.checks.zombie)
		}
	}
}

// stored returns the stored measurements of a record. From now on they may be stored twice.
func (c *checks) stored(d *measurement.Decoder, l *partitionLog, offset int64) (all []measurement.Measurement) {
	r := l.records[offset]
	if r == nil || r.record.Value == nil || offset < l.reused {
		return nil
	}
	results, err := d.Decode(record.Record{Offset: offset, Timestamp: r.record.Timestamp, Value: r.record.Value})
	if err != nil {
		return nil // a letter
	}
	for i := range results {
		m := &results[i].Measurement
		if value, ok := r.value(m.Position); ok && results[i].Err == nil && c.values[value] > 0 {
			c.doubled[value] = doubled{l, offset}
			all = append(all, *m)
		}
	}
	return all
}

// value returns the value of the measurement at a position. It returns false if there is none.
func (r *logged) value(at timeseries.Position) (int64, bool) {
	for _, want := range r.wanted {
		if max(0, want.part) == at.Part && !want.deadLetter {
			return want.value, true
		}
	}
	return 0, false
}

// repaired checks that a repair leaves one copy of each measurement that it removes from a bucket.
func (c *checks) repaired(w *world, was []held) {
	for _, m := range was {
		d, may := c.doubled[m.value]
		switch {
		case c.values[m.value] > 0:
		case !may:
			w.fail("repair", "offset %d part %d was not doubled, and is taken out", m.position.Offset, m.position.Part)
		case d.log.excused[m.position] == "":
			w.fail("repair", "the last copy of offset %d part %d is taken out", m.position.Offset, m.position.Part)
		}
	}
}
