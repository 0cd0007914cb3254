package verify_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
)

// windows configures verifications in one window and in many.
var windows = map[string]func(*verify.Options){
	"one window": func(*verify.Options) {}, "windows of 7": func(o *verify.Options) { o.Window = 7 },
	"content": content, "content in windows of 7": func(o *verify.Options) { o.Content, o.Window = true, 7 },
}

// TestWhatACommandDeletedIsNotMissing checks that only measurements that no command has deleted are missing.
func TestWhatACommandDeletedIsNotMissing(t *testing.T) {
	for name, change := range windows {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(200)
			id := w.full()
			w.deleted = w.positions(id)
			if r := w.verify(change); r.Wrong() || r.Deleted.Count != 0 {
				t.Errorf("noted, and not deleted: %+v", r)
			}
			before := w.verify(change).StoredOnce
			delete(w.docs, id)
			r := w.verify(change)
			want := verify.Tally{Count: 8, First: slices.SortedFunc(slices.Values(w.deleted), timeseries.Position.Compare)}
			if diff := cmp.Diff(want, r.Deleted); diff != "" || r.Wrong() || r.StoredOnce != before-8 {
				t.Errorf("%+v\n%s", r, diff)
			}
			one := w.deleted[3]
			w.deleted = slices.Delete(w.deleted, 3, 4)
			r = w.verify(change)
			if diff := cmp.Diff(verify.Tally{Count: 1, First: []timeseries.Position{one}}, r.Missing); diff != "" || !r.Wrong() || r.Deleted.Count != 7 {
				t.Errorf("%+v\n%s", r, diff)
			}
		})
	}
}

// TestMetaThatACommandChangedIsNotDifferent checks that a different value is reported, and so is a meta that no command has
// changed.
func TestMetaThatACommandChangedIsNotDifferent(t *testing.T) {
	for name, change := range windows {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(200)
			id := w.full()
			w.changed = w.positions(id)
			if r := w.verify(change); r.Wrong() || r.MetaChanged.Count != 0 {
				t.Errorf("noted, and not changed: %+v", r)
			}
			w.edit(id, "meta.host", "z")
			looked := func(n int64) int64 { // at the content
				if strings.HasPrefix(name, "content") {
					return n
				}
				return 0
			}
			if r := w.verify(change); r.Wrong() || r.MetaChanged.Count != looked(8) || r.StoredOnce != r.Valid {
				t.Errorf("%+v", r)
			}
			one := w.changed[3]
			w.changed = slices.Delete(w.changed, 3, 4)
			if r := w.verify(change); r.Different.Count != looked(1) || r.MetaChanged.Count != looked(7) || looked(1) == 1 && *r.Different.First[0].Position != one {
				t.Errorf("%+v", r)
			}
			w.changed = w.positions(id)
			w.edit(id, "data.x.3", 4.25)
			if r := w.verify(change); r.Different.Count != looked(1) || r.MetaChanged.Count != looked(7) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestRecordsThatWereCompactedAwayAreNotUnknown checks that their stored measurements are no fault, unless they are stored twice.
func TestRecordsThatWereCompactedAwayAreNotUnknown(t *testing.T) {
	for name, change := range windows {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(200)
			all := w.verify(change)
			compacted := map[int64]bool{}
			for _, p := range w.positions(w.full()) {
				compacted[p.Offset] = true
			}
			w.compact(func(r record.Record) bool { return compacted[r.Offset] })
			gone := w.verifyRange(100, 300, change)
			if gone.Wrong() || gone.Compacted.Count < 8 || gone.StoredOnce+gone.Compacted.Count != all.StoredOnce || gone.StoredOnce != gone.Valid {
				t.Errorf("%+v", gone)
			}
			w.double(w.full())
			r := w.verifyRange(100, 300, change)
			if !r.Wrong() || r.Doubled.Count != 8 || r.Unknown.Count != 0 || r.StoredOnce+r.Compacted.Count != all.StoredOnce-8 {
				t.Errorf("doubled: %+v", r)
			}
			r = w.verifyRange(100, 300, change, func(o *verify.Options) { o.Repair = verify.Repair })
			if r.Wrong() || r.Repair.Repaired != 8 {
				t.Errorf("repaired: %+v", r)
			}
			if r := w.verifyRange(100, 300, change); r.Wrong() || r.Compacted.Count != gone.Compacted.Count || r.StoredOnce != gone.StoredOnce {
				t.Errorf("after the repair: %+v", r)
			}
		})
	}
}

// TestStoredPartsThatTheRecordLacksAreUnknown covers a record that the log still has.
func TestStoredPartsThatTheRecordLacksAreUnknown(t *testing.T) {
	w := newWorld(t)
	w.produce("[" + w.event(1) + "," + w.event(2) + "]")
	w.produce(w.event(3))
	w.flush()
	if r := w.verify(); r.Wrong() {
		t.Fatalf("%+v", r)
	}
	for name, value := range map[string][]byte{
		"fewer elements": bytes.Join([][]byte{[]byte("["), []byte(w.event(1)), []byte("]")}, nil), "none": []byte("[]"), "no value": nil, "bad": []byte("x"),
	} {
		w.records[0].Value = value
		if r := w.verify(); r.Unknown.Count == 0 || r.Compacted.Count != 0 || !r.Wrong() {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// compact removes records from the log.
func (w *world) compact(gone func(record.Record) bool) {
	w.records = slices.DeleteFunc(w.records, gone)
}

// TestEventsBehindSkippedOnesAreExplained checks that a skipped event is not missing, and that a different value is compared with
// the event at its own position.
func TestEventsBehindSkippedOnesAreExplained(t *testing.T) {
	w := newWorld(t)
	decoder := func() *measurement.Decoder {
		d, err := measurement.New(measurement.Options{
			TimeField: "time", MetaField: "meta", StoredTime: "time", StoredMeta: "meta", List: []string{"list"}, Skip: []string{"type=join", "!x"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	w.decoder = decoder()
	change := func(o *verify.Options) { o.Content, o.Decoder = true, decoder() }
	w.produce(`{"type":"join"}`)
	w.produce(`{"meta":"a","list":[{"type":"join"},{},{"time":1700000000,"x":1},{"time":1700000001,"x":2}]}`)
	w.flush()
	if r := w.verify(change); r.Wrong() || r.StoredOnce != 2 || r.Tombstones != 1 {
		t.Errorf("%+v", r)
	}
	w.edit(w.ids()[0], "data.x.1", 7)
	r := w.verify(change)
	if r.Different.Count != 1 || r.Different.First[0].Position.Part != 3 || !strings.Contains(r.Different.First[0].Text, `the record has {"$numberInt":"2"}`) {
		t.Errorf("%+v", r.Different)
	}
}
