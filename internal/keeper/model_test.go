package keeper

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/rollup"
	"waterwheel/sink"
)

var (
	modelRuns = flag.Int("model.runs", 150, "random courses of TestModel")
	modelSeed = flag.Uint64("model.seed", 0, "the first course; 0: a random one")
)

// TestModel runs random courses. It checks R1 and R3 after every step, and all rows once everything is calm.
func TestModel(t *testing.T) {
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64N(1 << 40)
	}
	met := map[string]int{}
	for run := range uint64(*modelRuns) {
		cryptotest.SetGlobalRandom(t, seed+run) // of the _ids of notes
		w := newWorld(seed + run)
		w.course(120)
		if w.violation != "" {
			for _, line := range w.trail {
				t.Log(line)
			}
			t.Fatalf("seed %d: %s", seed+run, w.violation)
		}
		for _, line := range w.trail {
			met[line]++
		}
	}
	t.Logf("seed %d, %d courses: %v", seed, *modelRuns, met)
	for _, what := range []string{"a pass", "a crash", "a claim that goes back", "a topic made again", "a hand deletes", "expired", "metas change", "series deleted", "hidden buckets edited", "a command waits", "notes computed", "compacted", "a compaction rolled back", "a compaction ended later", "late"} {
		if met[what] == 0 && *modelRuns >= 100 {
			t.Errorf("no course has met: %s", what)
		}
	}
}

// course runs random events, and then waits until everything is calm.
func (w *world) course(steps int) {
	for _, p := range w.parts {
		w.claim(p, 0)
	}
	for range steps {
		if w.violation != "" {
			break
		}
		if n := len(w.actors); n > 0 && w.rnd.IntN(8) > 0 {
			for range 1 + w.rnd.IntN(6) {
				if len(w.actors) == 0 || w.violation != "" {
					break
				}
				crash := w.rnd.IntN(40) == 0
				if crash {
					w.logf("a crash")
				}
				w.go1(w.actors[w.rnd.IntN(len(w.actors))], crash)
			}
			continue
		}
		w.happen()
	}
	w.quiet()
}

func (w *world) part() *part { return w.parts[w.rnd.IntN(len(w.parts))] }

// happen runs one random event.
func (w *world) happen() {
	p := w.part()
	switch n := w.rnd.IntN(100); {
	case n < 30:
		w.produce(p)
	case n < 50:
		w.store(p)
	case n < 68:
		w.pass(p)
	case n < 74:
		w.readNotes()
	case n < 79:
		w.compact(p)
	case n < 83:
		w.now = w.now.Add(time.Duration(1+w.rnd.IntN(20)) * time.Minute)
		w.expire()
	case n < 85:
		w.now = w.now.Add(time.Duration(1+w.rnd.IntN(3)) * time.Hour)
		w.expire()
	case n < 89:
		w.claim(p, w.rnd.IntN(3))
	case n < 91:
		w.handDelete()
	case n < 97:
		w.editSeries()
	case n < 99:
		w.topicAgain(p)
	}
	w.check()
}

var modelSeries = []string{"a", "b", "c"}

// produce adds records to the log.
func (w *world) produce(p *part) {
	for range 1 + w.rnd.IntN(3) {
		at := w.now.Add(-time.Duration(w.rnd.IntN(90)) * time.Minute)
		if w.rnd.IntN(4) == 0 {
			at = w.now.Add(-time.Duration(w.rnd.IntN(8*60)) * time.Minute)
			w.logf("late")
		}
		hour := rollup.FloorTo(at.UnixMilli(), hourMs)
		bit := w.bits[hour]
		if bit == 60 {
			continue
		}
		w.bits[hour]++
		r := &entry{offset: int64(len(p.log)), time: at.UnixMilli(), series: modelSeries[w.rnd.IntN(len(modelSeries))], bit: bit}
		if w.of[hour] == nil {
			w.of[hour] = map[int]*entry{}
		}
		w.of[hour][bit] = r
		p.log = append(p.log, r)
		p.unsaved[r.offset] = true
	}
}

// store stores some of the waiting measurements, as a bucket or a segment. Sometimes it stores a measurement twice.
func (w *world) store(p *part) {
	if !p.claimed {
		return
	}
	var some []*entry
	for _, r := range p.log {
		if p.unsaved[r.offset] && w.rnd.IntN(3) > 0 && (len(some) == 0 || rollup.FloorTo(r.time, modelSpan) == rollup.FloorTo(some[0].time, modelSpan)) {
			some = append(some, r)
		}
	}
	if len(some) == 0 {
		return
	}
	if w.rnd.IntN(2) == 0 {
		w.put("buckets", w.bucket("", p, some, bson.D{{Key: "segment", Value: bson.D{{Key: "owner", Value: p.id()}}}}))
	} else {
		some = slices.DeleteFunc(some, func(r *entry) bool { return r.series != some[0].series })
		w.put("buckets", w.bucket(some[0].series, p, some, bson.D{{Key: "closed", Value: w.rnd.IntN(3) == 0}}))
		if w.rnd.IntN(8) == 0 {
			w.put("buckets", w.bucket(some[0].series, p, some[:1], nil)) // as a former version may have left it
		}
	}
	for _, r := range some {
		delete(p.unsaved, r.offset)
	}
}

// expire deletes expired documents, as MongoDB's index does.
func (w *world) expire() {
	before := bson.DateTime(w.now.Add(-keptFor).UnixMilli() - modelSpan)
	expires := func(d bson.Raw) bool {
		begin, _ := d.Lookup("control", "min", "time").DateTimeOK()
		return begin < int64(before)
	}
	below, documents := w.below(), w.mem.now()["buckets"]
	w.stored(true, func(id string, m measurement) {
		if expires(documents[id]) && !below(m) {
			w.tear(m)
		}
	})
	w.mem.write("buckets", func(all map[string]bson.Raw) {
		for id, d := range all {
			if expires(d) {
				delete(all, id)
				w.logf("expired")
			}
		}
	})
}

// claim gives the partition to another process. It starts at the committed offset, or back records before it.
func (w *world) claim(p *part, back int) {
	store := sink.NewStore(
		collection.Ready{Ports: w.ports(), Namespace: "db.m.buckets", Options: baseOptions, Rollups: true},
		sink.StoreOptions{MaxCount: 1000, WriteTimeout: time.Second},
	)
	p.claimed = false
	handle := store.Partition(p.source(), "c", modelGroup, "host")
	start := p.done()
	if back > 1 {
		start = w.rnd.Int64N(start + 1)
		w.logf("a claim that goes back")
	}
	topic := p.topic
	w.begin("claim", func(ctx context.Context, _ *actor) {
		token := w.token()
		for range 3 {
			seen, err := handle.Read(ctx)
			if errors.Is(err, errCrash) {
				return
			}
			if err == nil && seen.Claim != token {
				token = w.token() // like the worker, which sends a token only once
				_, err = handle.Claim(ctx, seen, claim.Claim{Token: token, Start: start})
			}
			if errors.Is(err, errCrash) {
				return
			}
			if seen, err = handle.Read(ctx); err == nil && seen.Claim == token && p.topic == topic {
				w.claimed(p, token, start)
				return
			}
		}
	})
}

func (w *world) token() (token claim.Token) {
	for i := range token {
		token[i] = byte(w.rnd.IntN(256))
	}
	return token
}

// claimed makes a process the owner. From start on, it stores every measurement that is not stored.
func (w *world) claimed(p *part, token claim.Token, start int64) {
	p.claim, p.claimed, p.start = token, true, start
	stored := map[int64]bool{}
	w.stored(true, func(_ string, m measurement) {
		if m.part == p.number && m.topic == p.topic {
			stored[m.record.offset] = true
		}
	})
	for _, r := range p.log {
		if p.unsaved[r.offset] = r.offset >= start && !stored[r.offset] && !w.isDeleted(p, r.offset); !p.unsaved[r.offset] {
			delete(p.unsaved, r.offset)
		}
	}
}

// pass starts a pass by the owner of a partition.
func (w *world) pass(p *part) {
	if !p.claimed {
		return
	}
	of := Partition{Owned: sink.Owned{Source: p.source(), ID: p.id(), Group: modelGroup, Claim: p.claim}, Done: p.done(), Seen: w.now, Known: true}
	w.logf("a pass")
	hours, most := mostHours, int64(allOffsets)
	if w.rnd.IntN(3) == 0 {
		hours = 2
	}
	if !w.calm && w.rnd.IntN(3) == 0 {
		most = 1 + w.rnd.Int64N(5)
	}
	outer := w
	w.begin("pass", func(ctx context.Context, _ *actor) {
		of := of
		if w, err := w.work(ctx); err == nil {
			w.most = hours
			_, err := w.pass(ctx, &of, most)
			outer.unlessCrashed(err) // it is tried again
		}
	})
}

// unlessCrashed fails the course if there is an error when everything is calm. Several keepers may still obstruct each other
// then.
func (w *world) unlessCrashed(err error) {
	if errors.Is(err, errContended) && len(w.actors) > 1 {
		return
	}
	if w.calm && err != nil && !errors.Is(err, errCrash) && !errors.Is(err, claim.ErrOtherOwner) && !errors.Is(err, errSlow) {
		w.fail("when all is calm: %v", err)
	}
}

// topicAgain deletes the topic and creates it again.
func (w *world) topicAgain(p *part) {
	w.logf("a topic made again")
	p.topic[15]++
	p.log, p.unsaved, p.claimed, p.start = nil, map[int64]bool{}, false, 0
	w.claim(p, 0)
}
