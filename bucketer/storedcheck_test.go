package bucketer

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// checkOldest compares Oldest with the waiting measurements.
func (d *disturbed) checkOldest() {
	oldest, ok := d.catalog.Oldest()
	for p := range d.waiting {
		if !ok || p.Offset < oldest {
			d.t.Fatalf("%v waits, but the oldest is %d (%v)", p, oldest, ok)
		}
	}
	if ok && len(d.waiting) == 0 {
		d.t.Fatalf("nothing waits, but the oldest is %d", oldest)
	}
}

// checkStored compares the store with the readings. Each must be stored exactly once, and each bucket must match its readings.
func (d *disturbed) checkStored() {
	found := map[timeseries.Position]int{}
	for id, document := range d.store.byID {
		positions := positionsOf(d.t, document)
		if len(positions) == 0 || d.foreign[id] {
			continue
		}
		b := &modelBucket{minTime: int64(at(document, "control.min."+d.options.Collection.TimeField).(bson.DateTime))}
		for _, p := range positions {
			found[p]++
			r := d.readings[p]
			segment := at(document, timeseries.PathOwner) != nil
			b.readings = append(b.readings, d.as(r, segment))
			if r.time < b.minTime || r.time-b.minTime >= d.options.Collection.Span() {
				d.t.Errorf("%v is not in the window of its bucket", r)
			}
			if !segment && !d.edited[id] && seriesKey(document) != r.series {
				d.t.Errorf("%v is in a bucket of another series", r)
			}
		}
		d.checkBucket(document, b)
	}
	for p := range d.readings {
		want := 1
		if d.rejected[p] {
			want = 0
		}
		if found[p] != want && (found[p] > 0 || !d.deleted[p]) {
			d.t.Errorf("%v is stored %d times, want %d", p, found[p], want)
		}
	}
}

// as returns a reading as a segment stores it, with its meta among the fields, or as a bucket does.
func (d *disturbed) as(r reading, segment bool) reading {
	if segment && r.series != "" {
		meta, err := valueIn(bson.Type(r.series[0]), []byte(r.series[1:]))
		if err != nil {
			d.t.Fatal(err)
		}
		r.fields = append(bson.D{{Key: d.options.Collection.MetaField, Value: meta}}, r.fields...)
	}
	return r
}

// checkCompacted compacts all segments, and compares the buckets with the readings.
func (d *disturbed) checkCompacted() {
	var segments []bson.Raw
	sparse := map[timeseries.Position]bool{}
	for id, document := range d.store.byID {
		if at(document, timeseries.PathOwner) == nil || d.foreign[id] {
			continue
		}
		for _, p := range positionsOf(d.t, document) {
			sparse[p] = true
		}
		segments = append(segments, encode(d.t, document))
	}
	by := CompactionMark{ID: [16]byte{1}, VisibleFrom: 1234}
	f, err := Compact(d.options, by, segments)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, w := range f.Writes {
		document := decode(d.t, w.Document)
		b := &modelBucket{minTime: w.MinTime}
		for _, p := range positionsOf(d.t, document) {
			r := d.readings[p]
			if !sparse[p] || seriesKey(document) != r.series || r.time < b.minTime || r.time-b.minTime >= d.options.Collection.Span() {
				d.t.Errorf("%v is compacted (staged: %v) into %s", r, sparse[p], text(document))
			}
			delete(sparse, p)
			b.readings = append(b.readings, r)
		}
		d.checkBucket(document, b)
		if from := at(document, timeseries.PathVisibleFrom); w.Kind != Insert || from != bson.DateTime(by.VisibleFrom) || at(document, timeseries.PathClosed) != true {
			d.t.Errorf("the bucket %s is not a compacted one", text(document))
		}
	}
	if len(sparse) > 0 {
		d.t.Errorf("%d measurements are not compacted", len(sparse))
	}
}

func (d *disturbed) checkBucket(document bson.D, b *modelBucket) {
	if !haveOneSchema(b.readings) {
		d.t.Errorf("a bucket mixes types: %s", text(document))
	}
	first, last := offsetsOf(b.readings)
	for path, want := range map[string]any{
		"control.source.first": first,
		"control.source.last":  last,
		"control.count":        int32(len(b.readings)),
		"control.min":          b.bound(&d.options, b.readings, lower),
		"control.max":          b.bound(&d.options, b.readings, upper),
		"data":                 columnsOf(&d.options, b.readings),
	} {
		if got := at(document, path); !equalUnordered(d.t, got, want) {
			d.t.Errorf("%s is %s, want %s", path, text(got), text(want))
		}
	}
}

// checkEmpty checks that an idle catalog keeps nothing, and that its accounting is balanced.
func (d *disturbed) checkEmpty() {
	c := d.catalog
	if measurements, bytes := c.Pending(); measurements != 0 || bytes != 0 {
		d.t.Errorf("%d measurements of %d bytes are pending, although all is stored", measurements, bytes)
	}
	if c.buffers.total != c.buffers.idle {
		d.t.Errorf("%d bytes of buffers are lost", c.buffers.total-c.buffers.idle)
	}
	c.Expire(0)
	if len(c.buckets) > 0 || c.series.live > 0 || c.archive.live > 0 || len(c.attempts) > 0 {
		d.t.Errorf("left are %d buckets, %d series, %d archived ones, %d attempts",
			len(c.buckets), c.series.live, c.archive.live, len(c.attempts))
	}
	if c.shapes.unused != c.shapes.total {
		d.t.Errorf("%d bytes of shapes are held by nobody", c.shapes.total-c.shapes.unused)
	}
	if c.memory.series != 0 || c.memory.buckets != 0 || c.buffers.total != 0 || c.lookups.series != 0 {
		d.t.Errorf("accounted for are still %+v, %d bytes of buffers, %d series that awaits a look-up",
			c.memory, c.buffers.total, c.lookups.series)
	}
}

func decodePositions(t *testing.T, encoded []byte) []timeseries.Position {
	positions, err := timeseries.DecodePositions(nil, encoded)
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
	return positions
}

// positionsOf lists the positions in a stored bucket.
func positionsOf(t *testing.T, document bson.D) []timeseries.Position {
	elements, _ := at(document, "control.source.offsets").(bson.A)
	var positions []timeseries.Position
	for _, e := range elements {
		positions = append(positions, decodePositions(t, e.(bson.Binary).Data)...)
	}
	return positions
}
