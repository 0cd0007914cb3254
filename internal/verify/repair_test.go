package verify_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/verify"
)

func repair(o *verify.Options) { o.Repair = verify.Repair }

// rival stores the log's last n records again, and one more, like an owner that does not know of another.
func rival(w *world, n int) {
	w.t.Helper()
	w.catalog = w.newCatalog()
	for _, r := range w.records[len(w.records)-n:] {
		w.insert(r)
	}
	w.produce(w.event(3 * 90))
	w.flush()
}

func TestRepairTakesOutTheCopyWithTheLargerID(t *testing.T) {
	w := newWorld(t)
	w.fill(200)
	original := w.full()
	larger := w.double(original)
	documents := len(w.docs)

	r := w.verify(func(o *verify.Options) { o.Repair = verify.DryRun })
	if !r.Wrong() || r.Repair.Planned != 8 || r.Repair.Copies != 8 || r.Repair.Deleted != 1 || r.Repair.Repaired != 0 || len(w.docs) != documents {
		t.Fatalf("dry run: %+v", r.Repair)
	}
	if first := r.Repair.First; len(first) != 1 || first[0] != (verify.RepairedBucket{Bucket: larger.Hex(), Removed: 8}) {
		t.Errorf("dry run: %+v", first)
	}
	r = w.verify(repair)
	if r.Wrong() || r.Repair.Repaired != 8 || r.Repair.Deleted != 1 {
		t.Fatalf("repair: %+v", r)
	}
	if w.docs[larger] != nil || len(w.docs) != documents-1 {
		t.Error("the larger _id is still there")
	}
	if r = w.verify(content); r.Wrong() || r.Doubled.Count != 0 {
		t.Errorf("afterwards: %+v", r)
	}
}

func TestRepairLeavesTheOthersInABucket(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	w.catalog = w.newCatalog()
	for i := range 5 {
		w.produce(w.event(3 * (50 + i))) // of one series
	}
	w.flush()
	rival(w, 3)
	if r := w.verify(content); r.Doubled.Count != 3 || r.Damaged.Count != 0 {
		t.Fatalf("planted: %+v", r)
	}
	r := w.verify(repair)
	if r.Wrong() || r.Repair.Repaired != 3 || r.Repair.Updated != 1 || r.Repair.Deleted != 0 {
		t.Fatalf("repair: %+v", r)
	}
	id, err := bson.ObjectIDFromHex(r.Repair.First[0].Bucket)
	if err != nil {
		t.Fatal(err)
	}
	control := w.docs[id].Lookup("control").Document()
	if closed, _ := control.Lookup("closed").BooleanOK(); !closed {
		t.Errorf("the changed bucket is open: %v", control)
	}
	if r := w.verify(content, repair); r.Wrong() || r.Doubled.Count != 0 || r.Repair.Repaired != 0 {
		t.Errorf("afterwards: %+v", r)
	}
}

func TestRepairOfTheSamePositionTwiceInABucket(t *testing.T) {
	w := newWorld(t)
	w.fill(20)
	r := w.records[0]
	again := w.append(string(r.Value))
	for range 2 {
		w.insert(again)
	}
	w.flush()
	if got := w.verify(repair); got.Wrong() || got.Repair.Repaired != 1 {
		t.Fatalf("%+v", got)
	}
	if got := w.verify(content); got.Wrong() {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestRepairMeetsALiveWriter(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	larger := w.double(w.full())
	writes := 0
	w.beaten = func() bool { writes++; return true }
	r := w.verify(repair)
	if !r.Wrong() || r.Repair.Repaired != 0 || r.Repair.Left.Count != 1 || w.docs[larger] == nil || writes < 3 || writes > 20 {
		t.Errorf("after %d writes: %+v", writes, r.Repair)
	}
}

func TestRepairReadsAChangedBucketAgain(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	larger := w.double(w.full())
	writes := 0
	w.beaten = func() bool { writes++; return writes <= 2 }
	r := w.verify(repair)
	if r.Wrong() || r.Repair.Repaired != 8 || r.Repair.Copies != 8 || r.Repair.Left.Count != 0 || w.docs[larger] != nil {
		t.Errorf("%+v", r.Repair)
	}
}

func TestRepairNoticesACountThatCameBack(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	larger := w.double(w.full())
	w.edit(larger, "control.closed", false)
	writes := 0
	w.beaten = func() bool {
		if writes++; writes == 1 { // an owner's write and another repair leave as many, closed
			w.edit(larger, "control.closed", true)
		}
		return false
	}
	r := w.verify(repair)
	if r.Wrong() || r.Repair.Repaired != 8 || writes != 2 {
		t.Errorf("after %d writes: %+v", writes, r.Repair)
	}
}

// TestRepairLeavesANewcomerWithASmallerID has a copy that arrives during the repair, in a bucket with a smaller _id. The next
// repair will keep this copy. This repair must not remove it, because otherwise the two repairs would remove both.
func TestRepairLeavesANewcomerWithASmallerID(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	larger := w.double(w.full())
	newcomer := larger
	newcomer[3]-- // a second earlier
	planted := false
	r := w.verify(repair, func(o *verify.Options) {
		o.Progress = func(at verify.Progress) {
			if at.Operation == "removing doubled measurements" && !planted {
				planted = true
				w.docs[newcomer] = w.docs[larger]
				w.edit(newcomer, "_id", newcomer)
			}
		}
	})
	if !planted || w.docs[newcomer] == nil || w.docs[larger] != nil || !r.Wrong() || r.Repair.Left.Count != 1 {
		t.Fatalf("planted: %v, %+v", planted, r.Repair)
	}
	if r = w.verify(repair); r.Wrong() || r.Repair.Repaired != 8 || w.docs[newcomer] == nil {
		t.Errorf("the next repair: %+v", r.Repair)
	}
}

func TestRepairLeavesWhatIsNotBelowTheCommit(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	larger := w.double(w.full())
	first, _ := w.docs[larger].Lookup("control", "source", "first").AsInt64OK()
	if r := w.verifyRange(100, first, repair); r.Doubled.Count != 0 || w.docs[larger] == nil {
		t.Fatalf("%+v", r)
	}
	r := w.verifyRange(100, first+1, repair)
	if r.Repair.Repaired != 1 || r.Repair.First[0].Kept != 7 {
		t.Fatalf("%+v", r.Repair)
	}
	if r := w.verify(content); r.Doubled.Count != 7 || r.Damaged.Count != 0 {
		t.Errorf("afterwards: %+v", r)
	}
}

func TestRepairLeavesCopiesThatDiffer(t *testing.T) {
	for name, spoil := range map[string]func(w *world, id bson.ObjectID){
		"a value":          func(w *world, id bson.ObjectID) { w.edit(id, "data.x.0", 77.5) },
		"a damaged bucket": func(w *world, id bson.ObjectID) { w.edit(id, "data.x.99", 77.5) },
	} {
		for _, side := range []string{"kept", "removed"} {
			t.Run(name+" "+side, func(t *testing.T) {
				w := newWorld(t)
				w.fill(100)
				id := w.full()
				larger := w.double(id)
				if side == "removed" {
					spoil(w, larger)
				} else {
					for _, other := range w.ids() {
						if other != larger && w.docs[other].Lookup("control", "source").Equal(w.docs[larger].Lookup("control", "source")) {
							spoil(w, other)
						}
					}
				}
				r := w.verify(repair)
				if !r.Wrong() || r.Repair.Left.Count == 0 || w.docs[larger] == nil {
					t.Errorf("%+v", r.Repair)
				}
				if name == "a value" && r.Repair.Repaired != 7 {
					t.Errorf("%d repaired, want all but the one that differs", r.Repair.Repaired)
				}
			})
		}
	}
}

// TestADoubleUnderTheSameIDOnAnotherShard covers an _id in two shards, because it is unique only within a shard. The shard key
// distinguishes the two buckets, by the meta or the smallest time.
func TestADoubleUnderTheSameIDOnAnotherShard(t *testing.T) {
	for path, value := range map[string]any{"meta": bson.D{{Key: "host", Value: int32(77)}}, "control.min.time": bson.DateTime(noon - 60_000)} {
		t.Run(path, func(t *testing.T) {
			w := newWorld(t)
			w.fill(100)
			id := w.full()
			before := w.docs[id]
			w.edit(id, path, value)
			w.other, w.docs[id] = map[bson.ObjectID]bson.Raw{id: w.docs[id]}, before
			if r := w.verify(); r.Doubled.Count != 8 || r.Damaged.Count != 0 {
				t.Fatalf("%d doubled, %+v", r.Doubled.Count, r)
			}
			r := w.verify(repair)
			if path == "meta" { // an operator must say which of the two metas is right
				if r.Repair.Left.Count == 0 || r.Repair.Copies != 0 {
					t.Errorf("copies that differ in their meta: %+v", r.Repair)
				}
				return
			}
			if r.Repair.Repaired != 8 || r.Repair.Deleted != 1 || len(w.other) != 0 && w.docs[id] != nil {
				t.Errorf("%+v, %d documents of another shard", r.Repair, len(w.other))
			}
			if r := w.verify(); r.Wrong() || r.Doubled.Count != 0 || r.Missing.Count != 0 {
				t.Errorf("afterwards: %+v", r)
			}
		})
	}
}

// TestRepairWaitsForWritesOnTheirWay checks that a repair waits once, for the longest time that an owner states.
func TestRepairWaitsForWritesOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fill(10)
		w.claims = []claim.Document{{Wait: 3 * time.Second}, {Wait: time.Hour, Released: true}}
		for writeGrace, want := range map[time.Duration]time.Duration{time.Second: 3 * time.Second, 5 * time.Second: 5 * time.Second} {
			waited := int64(-1)
			v, err := verify.New(verify.Options{
				Collection: w.options, Decoder: w.decoder, Log: w, Buckets: w, Claims: w, DeadLetters: &w.deadLetters, Repair: verify.Repair, WriteGrace: writeGrace,
				Progress: func(at verify.Progress) {
					if at.Seconds {
						waited = at.Offset
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			for range 2 {
				if _, err := v.Partition(t.Context(), verify.Range{Source: w.source, From: 100, To: 110}); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begin); took != want || waited != int64(want.Seconds())-1 {
				t.Errorf("with %v of its own it waited for %v, told of %d s", writeGrace, took, waited)
			}
		}
		begin := time.Now()
		if w.verify(); time.Since(begin) != 0 {
			t.Error("it waited though nothing is repaired")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		v, err := verify.New(verify.Options{Decoder: w.decoder, Log: w, Buckets: w, Claims: w, Repair: verify.Repair})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Partition(ctx, verify.Range{Source: w.source, From: 100, To: 110}); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
	})
}
