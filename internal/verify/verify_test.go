package verify_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
)

func TestNothingIsWrongWithWhatTheWriterStores(t *testing.T) {
	w := newWorld(t)
	w.fill(500)
	w.records = append(w.records, record.Record{Offset: 600, Timestamp: noon})
	for _, change := range []func(*verify.Options){
		func(*verify.Options) {},
		content,
		func(o *verify.Options) { o.Content, o.Window = true, 7 },
		func(o *verify.Options) { o.Window = 64 },
		func(o *verify.Options) { o.Repair = verify.Repair },
	} {
		r := w.verify(change)
		if r.Wrong() {
			t.Fatalf("%+v", r)
		}
		if r.Records != 501 || r.Tombstones != 1 || r.Valid != 530 || r.Bad != 50 || r.StoredOnce != 530 || r.DeadLettered != 50 || r.FirstStored != 100 {
			t.Errorf("%+v", r)
		}
	}
}

// TestNullRootsAreTombstones checks that a deleted row of an envelope is neither valid nor bad.
func TestNullRootsAreTombstones(t *testing.T) {
	w := newWorld(t)
	decoder, err := measurement.New(measurement.Options{TimeField: "time", MetaField: "meta", Root: "after"})
	if err != nil {
		t.Fatal(err)
	}
	w.decoder = decoder
	for i := range 20 {
		w.produce(`{"after":` + w.event(i) + `}`)
		w.produce(`{"after":null}`)
	}
	w.flush()
	r := w.verify(content, func(o *verify.Options) { o.Decoder = decoder })
	if r.Wrong() || r.Records != 40 || r.Tombstones != 20 || r.Valid != 20 || r.StoredOnce != 20 {
		t.Errorf("%+v", r)
	}
}

func TestPlantedFaultsAreFound(t *testing.T) {
	const none = 0
	type counts struct{ missing, doubled, unknown, deadLetters, damaged, different, expired int64 }
	for name, test := range map[string]struct {
		plant func(w *world, id bson.ObjectID)
		want  counts
		text  string // of the first damage or difference
	}{
		"a deleted bucket":        {func(w *world, id bson.ObjectID) { delete(w.docs, id) }, counts{missing: 8}, ""},
		"a doubled bucket":        {func(w *world, id bson.ObjectID) { w.double(id) }, counts{doubled: 8}, ""},
		"a record nobody stored":  {func(w *world, _ bson.ObjectID) { w.append(w.event(1)) }, counts{missing: 1}, ""},
		"a letter removed":        {func(w *world, _ bson.ObjectID) { w.append("bad") }, counts{deadLetters: 1}, ""},
		"a bad element no letter": {func(w *world, _ bson.ObjectID) { w.append(`[{"x":1}]`) }, counts{deadLetters: 1}, ""},
		"a refused measurement": {func(w *world, _ bson.ObjectID) {
			r := w.append(w.event(1))
			w.deadLetters.Add(3, r.Offset, record.WholeRecord)
		}, counts{}, ""},
		"another partition's letter": {func(w *world, _ bson.ObjectID) {
			r := w.append("bad")
			w.deadLetters.Add(2, r.Offset, record.WholeRecord)
		}, counts{deadLetters: 1}, ""},
		"a record that is gone": {func(w *world, _ bson.ObjectID) { w.records[5].Value = nil }, counts{unknown: 1}, ""},
		"an expired bucket": {func(w *world, id bson.ObjectID) {
			delete(w.docs, id)
			w.options.ExpireAfterSeconds = 900
		}, counts{expired: 8}, ""},
		"an old log": {func(w *world, _ bson.ObjectID) { w.first = 130 }, counts{}, ""},
		"a count that does not fit": {
			func(w *world, id bson.ObjectID) { w.edit(id, "control.count", int32(9)) },
			counts{damaged: 1},
			"control.count: is 9, but 8 positions are listed",
		},
		"no count": {func(w *world, id bson.ObjectID) { w.edit(id, "control.count", nil) }, counts{damaged: 1}, "control.count: is not a number"},
		"a wrong first": {
			func(w *world, id bson.ObjectID) { w.edit(id, "control.source.first", int64(7)) },
			counts{damaged: 1},
			"control.source.first: is 7, but the smallest listed offset is",
		},
		"a last too large": {
			func(w *world, id bson.ObjectID) { w.edit(id, "control.source.last", int64(7000)) },
			counts{damaged: 1},
			"control.source.last: is 7000, but the largest listed offset is",
		},
		"no list": {
			func(w *world, id bson.ObjectID) { w.edit(id, "control.source.offsets", "x") },
			counts{missing: 8, damaged: 1},
			"control.source.offsets: control.source.offsets is not an array",
		},
		"a broken list": {func(w *world, id bson.ObjectID) {
			w.edit(id, "control.source.offsets", bson.A{bson.Binary{Data: []byte{0xff}}})
		}, counts{missing: 8, damaged: 1}, "control.source.offsets: control.source.offsets.0: byte 0: malformed positions"},
		"a changed value": {
			func(w *world, id bson.ObjectID) { w.edit(id, "data.x.3", 4.25) },
			counts{different: 1},
			"data.x.3: is {\"$numberDouble\":\"4.25\"}, but the record has",
		},
		"a value taken away": {func(w *world, id bson.ObjectID) { w.edit(id, "data.tags.7", nil) }, counts{different: 1}, "data.tags.7: is nothing"},
		"a value added": {func(w *world, id bson.ObjectID) {
			w.edit(id, "data.y", bson.D{{Key: "2", Value: 1}})
		}, counts{different: 1, damaged: 1}, "data.y.2: is {\"$numberInt\":\"1\"}, but the record has nothing"},
		"another type": {
			func(w *world, id bson.ObjectID) { w.edit(id, "data.inner.0", bson.D{}) },
			counts{different: 1, damaged: none},
			"data.inner.0: is {}, but the record has {",
		},
		"another meta": {func(w *world, id bson.ObjectID) { w.edit(id, "meta.host", "z") }, counts{different: 8}, `meta: is {"host": "z"}, but the record has`},
		"a wrong minimum": {
			func(w *world, id bson.ObjectID) { w.edit(id, "control.min.x", -1.0) },
			counts{damaged: 1},
			"control.min.x: is {\"$numberDouble\":\"-1.0\"}, but the measurements give",
		},
		"a wrong nested maximum": {
			func(w *world, id bson.ObjectID) { w.edit(id, "control.max.inner.n", int32(99)) },
			counts{damaged: 1},
			"control.max.inner.n: is {\"$numberInt\":\"99\"}, but the measurements give",
		},
		"a minimum nobody has": {
			func(w *world, id bson.ObjectID) { w.edit(id, "control.min.w", 1) },
			counts{damaged: 1},
			"control.min.w: is {\"$numberInt\":\"1\"}, but no measurement has the field",
		},
		"a wrong last time": {
			func(w *world, id bson.ObjectID) { w.edit(id, "control.max.time", bson.DateTime(noon-1)) },
			counts{damaged: 1},
			"control.max.time: is",
		},
		"a first time too late": {
			func(w *world, id bson.ObjectID) { w.edit(id, "control.min.time", bson.DateTime(noon+9e9)) },
			counts{damaged: 1},
			"control.min.time: is",
		},
		"an _id of another time": {func(w *world, id bson.ObjectID) { w.edit(id, "control.min.time", bson.DateTime(noon-9e6)) }, counts{damaged: 1}, "_id: is"},
		"a bucket that expires within the hour": {func(w *world, id bson.ObjectID) {
			delete(w.docs, id)
			w.options.ExpireAfterSeconds = 3600
		}, counts{expired: 8}, ""},
		"a wrong size":       {func(w *world, id bson.ObjectID) { w.edit(id, "control.size", int32(3)) }, counts{damaged: 1}, "control.size: is {\"$numberInt\":\"3\"}, but the measurements account for"},
		"an unknown version": {func(w *world, id bson.ObjectID) { w.edit(id, "control.version", int32(2)) }, counts{damaged: 1}, "cannot be unpacked"},
		"a lost column":      {func(w *world, id bson.ObjectID) { w.edit(id, "data.x.99", 1.5) }, counts{damaged: 1}, "data.x.99"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(200)
			test.plant(w, w.full())
			r := w.verify(content)
			got := counts{
				r.Missing.Count, r.Doubled.Count, r.Unknown.Count, r.DeadLetterMissing.Count, r.Damaged.Count, r.Different.Count, r.Expired,
			}
			if got != test.want {
				t.Errorf("found %+v, want %+v", got, test.want)
			}
			if wrong := test.want != (counts{expired: test.want.expired}); r.Wrong() != wrong {
				t.Errorf("wrong: %v", r.Wrong())
			}
			var text []string
			for _, f := range append(r.Different.First, r.Damaged.First...) {
				text = append(text, f.Path+": "+f.Text)
			}
			if all := strings.Join(text, "\n"); !strings.Contains(all, test.text) {
				t.Errorf("%q is not said in:\n%s", test.text, all)
			}
			if strings.HasPrefix(name, "a changed") || strings.HasPrefix(name, "a value") {
				if r := w.verify(); r.Wrong() {
					t.Error("found without looking at the content")
				}
			}
		})
	}
}

// TestDeletedLettersAreNotMissing covers letters that were deleted after a redrive, as the runbook says.
func TestDeletedLettersAreNotMissing(t *testing.T) {
	w := newWorld(t)
	w.fill(40)
	w.append("bad")
	w.append(`[{"x":1},` + w.event(1) + `]`)
	w.deadLetters.NoteDeleted()
	r := w.verify()
	want := verify.Tally{Count: 2, First: []timeseries.Position{{Offset: 140}, {Offset: 141}}}
	if diff := cmp.Diff(want, r.DeadLetterDeleted); diff != "" || r.DeadLetterMissing.Count != 0 {
		t.Errorf("%s%+v", diff, r.DeadLetterMissing)
	}
	if r.Missing.Count != 1 || !r.Wrong() {
		t.Errorf("what can be decoded is missing all the same: %+v", r)
	}
	w.records = w.records[:len(w.records)-1]
	if r := w.verify(); r.Wrong() || r.DeadLetterDeleted.Count != 1 {
		t.Errorf("%+v", r)
	}
	w.deadLetters = verify.DeadLetters{}
	if r := w.verify(); !r.Wrong() || r.DeadLetterMissing.Count == 0 || r.DeadLetterDeleted.Count != 0 {
		t.Errorf("with all letters that ever were: %+v", r)
	}
}

// full returns a bucket of eight measurements.
func (w *world) full() bson.ObjectID {
	w.t.Helper()
	for _, id := range w.ids()[1:] {
		if n, _ := w.docs[id].Lookup("control", "count").AsInt64OK(); n == 8 {
			return id
		}
	}
	w.t.Fatal("no bucket is full")
	return bson.ObjectID{}
}

func TestFirstOffsetsOfAFindingAreKept(t *testing.T) {
	w := newWorld(t)
	w.fill(40)
	for i := range 30 {
		w.append(w.event(i))
	}
	w.append("[" + w.event(1) + "," + w.event(2) + "]")
	for _, window := range []int64{1 << 20, 4} {
		r := w.verify(func(o *verify.Options) { o.Examples, o.Window = 3, window })
		want := verify.Tally{Count: 32, First: []timeseries.Position{{Offset: 140}, {Offset: 141}, {Offset: 142}}}
		if diff := cmp.Diff(want, r.Missing); diff != "" {
			t.Error(diff)
		}
		r = w.verifyRange(169, 171, func(o *verify.Options) { o.Window = window })
		want = verify.Tally{Count: 3, First: []timeseries.Position{{Offset: 169}, {Offset: 170}, {Offset: 170, Part: 1}}}
		if diff := cmp.Diff(want, r.Missing); diff != "" {
			t.Error(diff)
		}
	}
}

func TestARangeIsJudgedAlone(t *testing.T) {
	w := newWorld(t)
	w.fill(200)
	w.double(w.full())
	delete(w.docs, w.ids()[0])
	whole := w.verify(content)
	var parts verify.Findings
	for from := int64(100); from < 300; from += 50 {
		r := w.verifyRange(from, from+50, content)
		parts.Add(&r.Findings, 10)
	}
	if parts.Missing.Count != whole.Missing.Count || parts.Doubled.Count != whole.Doubled.Count || parts.StoredOnce != whole.StoredOnce ||
		parts.Records != whole.Records || whole.Missing.Count == 0 {
		t.Errorf("in parts %+v,\nas a whole %+v", parts, whole.Findings)
	}
}

func TestABucketThatComesTwiceIsNoDouble(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	w.twice = true
	if r := w.verify(); r.Wrong() || r.StoredOnce != 106 {
		t.Errorf("%+v", r)
	}
	w.double(w.full())
	if r := w.verify(); r.Doubled.Count != 8 {
		t.Errorf("%+v", r)
	}
}

// fleeting is a world in which the first query misses a bucket.
type fleeting struct {
	*world
	queries int
}

func (f *fleeting) Find(ctx context.Context, source timeseries.Source, from, to int64, whole bool, each func(bson.Raw) error) error {
	hidden := f.full()
	f.queries++
	return f.world.Find(ctx, source, from, to, whole, func(d bson.Raw) error {
		if f.queries == 1 && d.Lookup("_id").ObjectID() == hidden {
			return nil
		}
		return each(d)
	})
}

func TestWhatIsMissedOnceIsLookedForAgain(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	f := &fleeting{world: w}
	if r := w.verify(func(o *verify.Options) { o.Buckets = f }); r.Wrong() || f.queries != 2 {
		t.Errorf("%d queries, %+v", f.queries, r)
	}
}

func TestPositionsBeyondTheRangeAreNotJudged(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	for i := range 20 { // a live writer is ahead of its commit, and behind its log
		w.produce(w.event(i))
	}
	w.flush()
	if r := w.verifyRange(100, 200, content); r.Wrong() || r.Records != 100 {
		t.Errorf("%+v", r)
	}
}

func TestAnErrorTellsHowFarItCame(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	broken := errors.New("broken")
	v, err := verify.New(verify.Options{
		Collection: w.options, Decoder: w.newDecoder(), Log: failingLog{w, 150, broken}, Buckets: w, DeadLetters: &w.deadLetters, Claims: w, Window: 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.Partition(t.Context(), verify.Range{Source: w.source, From: 100, To: 200})
	if !errors.Is(err, broken) || r.Next != 140 || r.Records != 40 {
		t.Errorf("%v, up to %d, %d records", err, r.Next, r.Records)
	}
}

// failingLog fails at an offset.
type failingLog struct {
	verify.Log
	at  int64
	err error
}

func (l failingLog) Scan(ctx context.Context, of record.Partition, from, to int64, each func(*record.Record) error) (int64, error) {
	if to > l.at {
		return from, fmt.Errorf("reading: %w", l.err)
	}
	return l.Log.Scan(ctx, of, from, to, each)
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	w := newWorld(t)
	good := verify.Options{Decoder: w.decoder, Log: w, Buckets: w, Claims: w}
	for name, spoil := range map[string]func(*verify.Options){
		"no decoder": func(o *verify.Options) { o.Decoder = nil },
		"no log":     func(o *verify.Options) { o.Log = nil },
		"no buckets": func(o *verify.Options) { o.Buckets = nil },
		"no claims":  func(o *verify.Options) { o.Claims = nil },
		"window":     func(o *verify.Options) { o.Window = 1 << 32 },
	} {
		o := good
		spoil(&o)
		if _, err := verify.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
