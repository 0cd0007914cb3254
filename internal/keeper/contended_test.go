package keeper

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
)

// TestOtherWritersDelayOnlyTheirSeries runs a pass while another writer replaces a document of some series before each update. The
// pass must end, because each attempt stores the rows of the other series.
func TestOtherWritersDelayOnlyTheirSeries(t *testing.T) {
	for _, level := range []string{rollup.Minute, rollup.Hour, rollup.Day} {
		t.Run(level, func(t *testing.T) {
			const series = 20
			w, _ := still(t, 0)
			p := w.parts[0]
			add := func() {
				for n := range series {
					w.add(p, fmt.Sprintf("s%02d", n), w.now)
				}
			}
			add()
			w.run(t, w.owned(p))
			add()
			replaced := 0
			var ended error
			w.begin("pass", func(ctx context.Context, _ *actor) {
				of, err := w.work(ctx)
				if err == nil {
					of.size = series
					_, err = of.pass(ctx, w.owned(p), allOffsets)
				}
				ended = err
			})
			for len(w.actors) > 0 {
				if last := w.mem.commands[len(w.mem.commands)-1]; last == "update "+level && replaced < 200 {
					w.replaceOne(level)
					replaced++
				}
				w.go1(w.actors[0], false)
			}
			if ended != nil || replaced == 0 {
				t.Fatalf("after %d documents of another writer: %v", replaced, ended)
			}
			if _, counts := w.rowsOf(level); len(counts) != series || slices.ContainsFunc(slices.Collect(maps.Values(counts)), func(n int64) bool { return n != 2 }) {
				t.Errorf("the rows count %v", counts)
			}
		})
	}
}

// replaceOne replaces a random document of a level by an equal one, as another keeper may do.
func (w *world) replaceOne(level string) {
	w.mem.write(level, func(all map[string]bson.Raw) {
		ids := slices.Sorted(maps.Keys(all))
		id := ids[w.rnd.IntN(len(ids))]
		revision, _ := all[id].Lookup("control", rollup.FieldRevision).AsInt64OK()
		all[id] = updated(all[id], encoded(bson.D{{Key: "$set", Value: bson.D{{Key: rollup.PathRevision, Value: revision + 1}}}}))
	})
}

// TestAPassThatFailsIsRepeatedWithFewerOffsets checks that the rollups advance up to what cannot be computed.
func TestAPassThatFailsIsRepeatedWithFewerOffsets(t *testing.T) {
	const damaged, done = 3500, 4000
	w, owned := still(t, 1)
	p := w.parts[0]
	d := w.bucket("damaged", p, []*entry{{offset: damaged, time: w.now.UnixMilli(), series: "damaged"}}, nil)
	d[len(d)-1] = bson.E{Key: "data", Value: bson.D{{Key: "time", Value: "damaged"}}}
	w.put("buckets", d)
	owned.Done = done
	k := keeperOf(w, owned)
	var below []int64
	for range 12 {
		k.pass(t.Context(), k.owned()[0])
		partitions, err := w.rollups().Partitions(t.Context())
		if err != nil || len(partitions) != 1 || len(partitions[0].Watermarks) != 1 {
			t.Fatalf("the partitions are %v: %v", partitions, err)
		}
		below = append(below, partitions[0].Watermarks[0].Below)
	}
	if last := below[len(below)-1]; last > damaged || last < damaged-fewestOffsets {
		t.Errorf("the watermarks after each pass are %v, but the damaged document has offset %d", below, damaged)
	}
	if _, counts := w.rowsOf(rollup.Hour); len(counts) != 1 {
		t.Errorf("the rows count %v", counts)
	}
	w.mem.write("buckets", func(all map[string]bson.Raw) { delete(all, idOf(encoded(d))) })
	for range 4 {
		k.pass(t.Context(), k.owned()[0])
	}
	if turn := k.turn(&Partition{Owned: owned.Owned}); turn.most != allOffsets || !turn.next.After(time.Now().Add(time.Minute)) {
		t.Errorf("after the repair the turn is %+v, want no limit and a rest", turn)
	}
}
