package sink_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/measurement"
	"waterwheel/sink"
	"waterwheel/timeseries"
)

var editRuns = flag.Int("edit.runs", 200, "random edits of segments and buckets")

// stock is a time series of which series are edited while its segments are settled.
type stock struct {
	shelf
	rnd     *rand.Rand
	options timeseries.Options
	now     int64
	offset  int64
	rows    map[timeseries.Position]stocked

	settled *settledStock // nil: none is under way
	busy    bool
}

// stocked is a measurement.
type stocked struct{ meta, fields string }

// settledStock is a settling.
type settledStock struct {
	by       bson.Binary
	from     int64
	segments []bson.Raw
	inserted bool
	ended    int
}

const stockStart = 1_772_366_400_000

var stockSource = timeseries.Source{Topic: "events", TopicID: [16]byte{1}}

func newStock(t testing.TB, seed uint64) *stock {
	o, err := timeseries.Options{TimeField: "time", MetaField: "meta"}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	return &stock{
		shelf: shelf{t: t}, rnd: rand.New(rand.NewPCG(seed, 1)), options: o, now: stockStart + 60_000, rows: map[timeseries.Position]stocked{},
	}
}

// metaOf is one of few metas; Type 0: none.
func (s *stock) metaOf(n int) bson.RawValue {
	switch n {
	case 0:
		return bson.RawValue{}
	case 1:
		return raw(s.t.(*testing.T), bson.D{{Key: "m", Value: "text"}}).Lookup("m")
	}
	return raw(s.t.(*testing.T), bson.D{{Key: "m", Value: bson.D{{Key: "k", Value: n % 3}, {Key: "s", Value: fmt.Sprint("s-", n)}}}}).Lookup("m")
}

const stockMetas = 7

// arrive stores measurements, in segments or in buckets.
func (s *stock) arrive(n int, denseFrom int32) {
	limits := timeseries.Limits{MaxCount: 5 + s.rnd.Int32N(60), MaxBytes: 125 << 10, MinCount: 10}
	c := bucketer.New(bucketer.Options{Collection: s.options, Limits: limits, Source: stockSource, DenseFrom: denseFrom, Owner: "owner"})
	for range n {
		s.offset += 1 + s.rnd.Int64N(3)
		m := s.measured()
		s.rows[m.Position] = stocked{metaKeyOf(m.Meta), string(m.Elements)}
		if err := c.Insert(m); err != nil {
			s.t.Fatal(err)
		}
	}
	for f := c.Prepare(0); f != nil; f = c.Prepare(0) {
		for _, w := range f.Writes {
			if w.Kind != bucketer.Insert {
				s.t.Fatal("a new catalog writes to a stored bucket")
			}
			s.documents = append(s.documents, slices.Clone(w.Document))
		}
		c.Finish(f, make([]bucketer.Outcome, len(f.Writes)), 0)
	}
}

func (s *stock) measured() *measurement.Measurement {
	fields := bson.D{}
	for i := range s.rnd.IntN(4) {
		values := []any{s.rnd.IntN(1000), s.rnd.Float64(), bson.D{{Key: "x", Value: s.rnd.IntN(9)}}}
		fields = append(fields, bson.E{Key: fmt.Sprint("f", i), Value: values[i]})
	}
	document := raw(s.t.(*testing.T), fields)
	return &measurement.Measurement{
		Position: timeseries.Position{Offset: s.offset, Part: s.rnd.Int32N(2)}, Time: stockStart + s.rnd.Int64N(50_000),
		Meta: s.metaOf(s.rnd.IntN(stockMetas)), Elements: document[4 : len(document)-1],
	}
}

func metaKeyOf(meta bson.RawValue) string { return string(byte(meta.Type)) + string(meta.Value) }

// step lets the settling go on.
func (s *stock) step() {
	if s.busy {
		return
	}
	s.now += s.rnd.Int64N(300)
	if s.rnd.IntN(3) == 0 {
		return
	}
	x := s.settled
	switch {
	case x == nil:
		s.read()
	case s.now >= x.from-100 && x.ended < len(x.segments), s.rnd.IntN(100) == 0 && x.ended < len(x.segments):
		s.undo()
	case !x.inserted:
		s.insertSettled()
	case x.ended < len(x.segments):
		s.end()
	default:
		s.settled = nil
	}
}

func (s *stock) read() {
	x := &settledStock{by: bson.Binary{Subtype: 4, Data: make([]byte, 16)}, from: s.now + 1000 + s.rnd.Int64N(20_000)}
	for i := range x.by.Data {
		x.by.Data[i] = byte(s.rnd.Uint32())
	}
	for _, d := range s.documents {
		segment, ok := d.Lookup("control", "segment").DocumentOK()
		if ok && segment.Lookup("until").Type == 0 {
			x.segments = append(x.segments, slices.Clone(d))
		}
	}
	if len(x.segments) > 0 {
		s.settled = x
	}
}

// insertSettled inserts a bucket for each series of the segments that were read.
func (s *stock) insertSettled() {
	x := s.settled
	x.inserted = true
	c := bucketer.New(bucketer.Options{
		Collection: s.options, Limits: timeseries.Limits{MaxCount: 40, MaxBytes: 125 << 10, MinCount: 10},
		Source:  stockSource,
		Settled: &bucketer.Settled{From: x.from, By: [16]byte(x.by.Data)},
	})
	for _, d := range x.segments {
		s.unpack(d, func(m *timeseries.Unpacked) {
			one := measurement.Measurement{Position: m.Position, Time: m.Time, Meta: m.Meta, Elements: m.Elements}
			if err := c.Insert(&one); err != nil {
				s.t.Fatal(err)
			}
		})
	}
	for f := c.Prepare(0); f != nil; f = c.Prepare(0) {
		for _, w := range f.Writes {
			d := slices.Clone(w.Document)
			// A settling that is tried again makes other _ids, by its attempts.
			fresh := bson.NewObjectID()
			at := bytes.Index(d, w.ID[:])
			copy(d[at:], fresh[:])
			s.documents = append(s.documents, d)
		}
		c.Finish(f, make([]bucketer.Outcome, len(f.Writes)), 0)
	}
}

// end ends one segment, if nobody has edited it.
func (s *stock) end() {
	x := s.settled
	d := x.segments[x.ended]
	filter := bson.D{
		{Key: "_id", Value: d.Lookup("_id")},
		{Key: "control.segment.until", Value: bson.D{{Key: "$exists", Value: false}}},
		{Key: "control.segment.edits", Value: bson.D{{Key: "$exists", Value: false}}},
	}
	if edits := d.Lookup("control", "segment", "edits"); edits.Type != 0 {
		filter[2].Value = edits
	}
	set := bson.D{{Key: "control.segment.until", Value: bson.DateTime(x.from)}, {Key: "control.segment.by", Value: x.by}}
	if s.update(raw(s.t.(*testing.T), filter), raw(s.t.(*testing.T), bson.D{{Key: "$set", Value: set}})) == 0 {
		s.undo()
		return
	}
	x.ended++
}

func (s *stock) undo() {
	x := s.settled
	s.settled = nil
	for _, d := range x.segments {
		filter := bson.D{{Key: "_id", Value: d.Lookup("_id")}, {Key: "$or", Value: bson.A{
			bson.D{{Key: "control.segment.by", Value: bson.D{{Key: "$exists", Value: false}}}}, bson.D{{Key: "control.segment.by", Value: x.by}},
		}}}
		s.update(raw(s.t.(*testing.T), filter), raw(s.t.(*testing.T), bson.D{
			{Key: "$unset", Value: bson.D{{Key: "control.segment.until", Value: ""}, {Key: "control.segment.by", Value: ""}}},
			{Key: "$inc", Value: bson.D{{Key: "control.segment.edits", Value: int32(1)}}},
		}))
	}
	s.remove(raw(s.t.(*testing.T), bson.D{{Key: "control.settled.by", Value: x.by}}))
}

// settle ends the settling that is under way.
func (s *stock) settle() {
	for s.settled != nil {
		s.step()
	}
}

func (s *stock) unpack(d bson.Raw, use func(m *timeseries.Unpacked)) {
	u := timeseries.NewUnpacker(s.options)
	err := u.Reset(d)
	for m := (timeseries.Unpacked{}); err == nil && u.Next(&m); {
		use(&m)
	}
	if err = errors.Join(err, u.Err(), u.Mismatch()); err != nil {
		s.t.Fatalf("%v in %v", err, d)
	}
}

// shown are the measurements that are seen at a moment; each must be seen once.
func (s *stock) shown(at int64) map[timeseries.Position]stocked {
	now := time.UnixMilli(at)
	all := map[timeseries.Position]stocked{}
	for _, d := range s.documents {
		if !s.finds(d, raw(s.t.(*testing.T), timeseries.BucketsShown(now))) &&
			!s.finds(d, raw(s.t.(*testing.T), timeseries.SegmentsShown(now, 0, timeseries.MaxHash))) {
			continue
		}
		s.unpack(d, func(m *timeseries.Unpacked) {
			if _, twice := all[m.Position]; twice {
				s.t.Fatalf("%v is shown twice", m.Position)
			}
			all[m.Position] = stocked{metaKeyOf(m.Meta), string(m.Elements)}
		})
	}
	return all
}

// left are the measurements that an edit without closed buckets leaves alone.
func (s *stock) left(closed bool) map[timeseries.Position]bool {
	all := map[timeseries.Position]bool{}
	for _, d := range s.documents {
		shut, _ := d.Lookup("control", "closed").BooleanOK()
		if from, _ := d.Lookup("control", "settled", "from").DateTimeOK(); !closed && shut && from <= s.now &&
			d.Lookup("control", "segment").Type == 0 {
			s.unpack(d, func(m *timeseries.Unpacked) { all[m.Position] = true })
		}
	}
	return all
}

// sound checks what the control of segments says of their columns.
func (s *stock) sound() {
	for _, d := range s.documents {
		segment, ok := d.Lookup("control", "segment").DocumentOK()
		if !ok {
			continue
		}
		low, high, first, last := int32(timeseries.MaxHash), int32(0), int64(1)<<62, int64(0)
		s.unpack(d, func(m *timeseries.Unpacked) {
			hash := timeseries.SeriesHash(m.Meta)
			low, high, first, last = min(low, hash), max(high, hash), min(first, m.Position.Offset), max(last, m.Position.Offset)
		})
		content := s.options.ContentOf(d.Lookup("data").Document())
		control := d.Lookup("control").Document()
		source := control.Lookup("source").Document()
		if segment.Lookup("low").Int32() != low || segment.Lookup("high").Int32() != high || segment.Lookup("owner").StringValue() != "owner" {
			s.t.Fatalf("%v: hashes %d to %d", segment, low, high)
		}
		if source.Lookup("first").Int64() != first || source.Lookup("last").Int64() != last || control.Lookup("size").Int32() != content.Size {
			s.t.Fatalf("%v: offsets %d to %d, size %d", control, first, last, content.Size)
		}
		least := control.Lookup("min", "time")
		for have, want := range map[string]bson.Raw{"min": content.Min("time", least), "max": content.Max("time")} {
			if !sameFields(control.Lookup(have).Document(), want) {
				s.t.Fatalf("%s of %v, the columns make it %v", have, control, want)
			}
		}
		if least.DateTime() > content.Earliest || !control.Lookup("closed").Boolean() {
			s.t.Fatalf("%v: earliest %d", control, content.Earliest)
		}
	}
}

// sameFields compares documents; their fields may be in any order.
func sameFields(a, b bson.Raw) bool {
	sorted := func(d bson.Raw) []bson.RawElement {
		all, _ := d.Elements()
		slices.SortFunc(all, func(a, b bson.RawElement) int { return bytes.Compare([]byte(a.Key()), []byte(b.Key())) })
		return all
	}
	return slices.EqualFunc(sorted(a), sorted(b), func(a, b bson.RawElement) bool { return bytes.Equal(a, b) })
}

// TestSeriesAreEditedBesideSettling edits random series of segments and buckets, with answers that do not come, while segments are
// settled, or fail to be. At any moment afterwards each measurement is shown once, under the meta that it must have.
func TestSeriesAreEditedBesideSettling(t *testing.T) {
	unclear, ended, chains := 0, 0, 0
	for seed := range *editRuns {
		s := newStock(t, uint64(seed))
		edit := s.random()
		edited, err := edit.run()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if edited.Unsure > 0 {
			t.Fatalf("seed %d: %+v", seed, edited)
		}
		if edit.chains {
			chains++
		}
		if edited.Missed > 0 && edit.chains { // else they are buckets of a settling that was undone
			unclear++
			continue
		}
		if err := edit.compareNotes(); err != nil {
			t.Fatalf("seed %d: %v, %+v", seed, err, edited)
		}
		for range 2 { // as it is, and settled
			s.sound()
			for _, at := range []int64{s.now, s.now + 60_000} {
				s.settle()
				if err := edit.compare(s.shown(at)); err != nil {
					t.Fatalf("seed %d, %d ms later: %v, %+v", seed, at-s.now, err, edited)
				}
			}
			ended += s.settleAll()
		}
	}
	if unclear > *editRuns/10 || ended == 0 || chains == 0 {
		t.Errorf("%d of %d edits left something alone, %d were chains; %d segments were settled", unclear, *editRuns, chains, ended)
	}
}

// settleAll settles what can be, and lets all that ended be forgotten.
func (s *stock) settleAll() (ended int) {
	s.settle()
	s.read()
	if x := s.settled; x != nil {
		for s.insertSettled(); x.ended < len(x.segments); {
			s.end()
		}
		ended, s.settled = x.ended, nil
		s.now = x.from + 60_000
	}
	s.remove(raw(s.t.(*testing.T), bson.D{{Key: "control.segment.until", Value: bson.D{{Key: "$lte", Value: bson.DateTime(s.now)}}}}))
	return ended
}

// stockEdit is a random edit.
type stockEdit struct {
	s       *stock
	query   bson.D
	wanted  func(meta string) bool
	deletes bool
	closed  bool
	changes map[string]bson.RawValue
	chains  bool
	left    map[timeseries.Position]bool
	options *shelf
}

// random fills the stock, and chooses an edit.
func (s *stock) random() *stockEdit {
	for range 1 + s.rnd.IntN(4) {
		s.arrive(1+s.rnd.IntN(120), 64)
		if s.rnd.IntN(3) == 0 {
			s.arrive(s.rnd.IntN(60), 0)
		}
		for range s.rnd.IntN(60) {
			s.step()
		}
	}
	e := &stockEdit{s: s, closed: s.rnd.IntN(2) == 0, deletes: s.rnd.IntN(3) == 0, changes: map[string]bson.RawValue{}}
	k := s.rnd.IntN(3)
	e.query = bson.D{{Key: "meta.k", Value: int32(k)}}
	e.wanted = func(meta string) bool {
		if bson.Type(meta[0]) != bson.TypeEmbeddedDocument {
			return false
		}
		return bson.Raw(meta[1:]).Lookup("k").Int32() == int32(k)
	}
	switch s.rnd.IntN(4) {
	case 0:
		e.query, e.wanted = bson.D{}, func(string) bool { return true }
	case 1:
		e.query, e.wanted = bson.D{{Key: "meta", Value: bson.D{{Key: "$exists", Value: false}}}}, func(meta string) bool { return meta[0] == 0 }
	}
	return e
}

// run carries the edit out, beside the settling and through lost answers.
func (e *stockEdit) run() (sink.Edited, error) {
	s := e.s
	t := s.t.(*testing.T)
	e.options = &shelf{t: t}
	clock := func(context.Context) (time.Time, error) { return time.UnixMilli(s.now), nil }
	selection := sink.NewSelection(&s.shelf, e.options, raw(t, e.query), e.closed, time.Hour).WithSegments(s.options, clock)
	e.left = s.left(e.closed)
	all, err := selection.Series(t.Context(), func(int64) {})
	if err != nil {
		return sink.Edited{}, err
	}
	if len(e.options.documents) > 0 {
		return sink.Edited{}, errors.New("scratch documents stay")
	}
	s.before = func() {
		e.gone()
		for range s.rnd.IntN(1 << s.rnd.IntN(6)) { // now and then a whole settling between two commands
			s.step()
		}
	}
	s.lost = func() bool { return s.rnd.IntN(8) == 0 }
	e.options.lost = s.lost
	defer func() { s.before, s.lost = nil, nil }()
	var edit interface {
		Run(ctx context.Context) error
		Edited() sink.Edited
	}
	if edit = selection.Delete(silent); !e.deletes {
		edit = selection.Change(all, e.plan(all), silent)
	}
	for range 200 {
		if err = edit.Run(t.Context()); err == nil {
			break
		}
	}
	return edit.Edited(), err
}

// noted are the positions of the notes of an edit.
func (e *stockEdit) noted() map[timeseries.Position]bool {
	noted := map[timeseries.Position]bool{}
	find := sink.NotesIn(e.options).Changed
	if e.deletes {
		find = sink.NotesIn(e.options).Deleted
	}
	t := e.s.t.(*testing.T)
	if err := find(t.Context(), stockSource, 0, 1<<40, func(p timeseries.Position) { noted[p] = true }); err != nil {
		t.Fatal(err)
	}
	return noted
}

// gone checks at any moment of a deletion that what no document holds any more is noted.
func (e *stockEdit) gone() {
	if !e.deletes {
		return
	}
	noted, held := e.noted(), map[timeseries.Position]bool{}
	for _, d := range e.s.documents {
		e.s.unpack(d, func(m *timeseries.Unpacked) { held[m.Position] = true })
	}
	for p := range e.s.rows {
		if !held[p] && !noted[p] {
			e.s.t.Fatalf("%v is in no document, and is not noted", p)
		}
	}
}

// compareNotes compares what is noted with what was edited: nothing else may be noted.
func (e *stockEdit) compareNotes() error {
	noted, n := e.noted(), 0
	for p, row := range e.s.rows {
		after, changes := e.changes[row.meta]
		edited := e.wanted(row.meta) && (e.deletes || changes && metaKeyOf(after) != row.meta)
		switch {
		case edited && !e.left[p] && !noted[p]:
			return fmt.Errorf("%v of %q was edited, and is not noted", p, row.meta)
		case !edited && noted[p]:
			return fmt.Errorf("%v of %q is noted, and was not edited", p, row.meta)
		case noted[p]:
			n++
		}
	}
	if n != len(noted) {
		return fmt.Errorf("%d positions are noted, %d of them were stored", len(noted), n)
	}
	return nil
}

// plan lets some series become others, which are others still, or are changed as well.
func (e *stockEdit) plan(all []sink.SelectedSeries) (changes []sink.MetaChange) {
	within := map[string]bool{}
	for _, one := range all {
		after := e.s.metaOf(e.s.rnd.IntN(stockMetas + 3))
		if e.s.rnd.IntN(4) == 0 || metaKeyOf(after) == metaKeyOf(one.Meta) || one.Open.IsZero() && (!e.closed || one.Closed.IsZero()) {
			continue
		}
		changes = append(changes, sink.MetaChange{Before: one.Meta, After: after})
		e.changes[metaKeyOf(one.Meta)] = after
		within[metaKeyOf(one.Meta)] = true
	}
	for _, c := range changes {
		e.chains = e.chains || within[metaKeyOf(c.After)]
	}
	return changes
}

// compare compares what is shown with what must be.
func (e *stockEdit) compare(shown map[timeseries.Position]stocked) error {
	n := 0
	for p, want := range e.s.rows {
		if !e.left[p] && e.wanted(want.meta) {
			if e.deletes {
				continue
			}
			if after, ok := e.changes[want.meta]; ok {
				want.meta = metaKeyOf(after)
			}
		}
		n++
		if have, ok := shown[p]; !ok || have != want {
			return fmt.Errorf("%v is %q (there: %v), want %q", p, have.meta, ok, want.meta)
		}
	}
	if n != len(shown) {
		return fmt.Errorf("%d measurements are shown, want %d", len(shown), n)
	}
	return nil
}

// TestSeriesInSegmentsAreEditedOnServers: a server finds the metas, and takes the edits.
func TestSeriesInSegmentsAreEditedOnServers(t *testing.T) {
	e := connect(t, func(o *sink.Options) { o.Segments = sink.SegmentsOn })
	e.setup(t)
	s := newStock(t, 1)
	s.arrive(200, 64)
	buckets := e.raw.Collection("events.buckets")
	for _, d := range s.documents {
		if _, err := buckets.InsertOne(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	series := func(selection *sink.Selection) (n, staged int64) {
		for _, one := range seriesIn(t, selection) {
			n, staged = n+1, staged+one.Open.Staged
		}
		return n, staged
	}
	query := raw(t, bson.D{{Key: "meta.k", Value: bson.D{{Key: "$gte", Value: 1}}}})
	selection := e.selects(t, query, false)
	n, before := series(selection)
	if n == 0 || before == 0 || before >= 200 {
		t.Fatalf("%d series of %d measurements are selected", n, before)
	}
	to := s.metaOf(6)
	if holds, err := selection.Holds(t.Context(), to); err != nil || !holds {
		t.Errorf("held in segments: %v, %v", holds, err)
	}
	var changes []sink.MetaChange
	for _, one := range seriesIn(t, selection) {
		changes = append(changes, sink.MetaChange{Before: one.Meta, After: to})
	}
	if edited := changed(t, selection, changes); edited != (sink.Edited{Done: sink.Amount{Measurements: before, Staged: before}}) {
		t.Errorf("changed %+v of %d", edited, before)
	}
	if n, _ := series(e.selects(t, query, false)); n != 0 {
		t.Errorf("%d series are left", n)
	}
	rest, all := series(e.selects(t, raw(t, bson.D{}), false))
	d := e.selects(t, raw(t, bson.D{{Key: "meta", Value: to}}), false).Delete(silent)
	if err := d.Run(t.Context()); err != nil || d.Edited().Done.Staged == 0 {
		t.Errorf("%+v, %v", d.Edited(), err)
	}
	after, left := series(e.selects(t, raw(t, bson.D{}), false))
	if after != rest-1 || left != all-d.Edited().Done.Staged {
		t.Errorf("%d series of %d measurements are left, there were %d of %d", after, left, rest, all)
	}
	d = e.selects(t, raw(t, bson.D{}), false).Delete(silent)
	if err := d.Run(t.Context()); err != nil || d.Edited().Done.Staged != left {
		t.Errorf("%+v, %v", d.Edited(), err)
	}
	if n, err := buckets.CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Errorf("%d segments are left, %v", n, err)
	}
}
