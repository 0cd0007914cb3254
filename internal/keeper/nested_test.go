package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/cryptotest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// TestModelOfNestedDocuments runs random courses with nested documents, some with a small size limit. When everything is calm,
// each day, hour and minute in them must equal the row of its level, exactly once.
func TestModelOfNestedDocuments(t *testing.T) {
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64N(1 << 40)
	}
	met := 0
	for run := range uint64(max(1, *modelRuns/2)) {
		cryptotest.SetGlobalRandom(t, seed+run)
		w := newWorld(seed + run)
		w.nested = &Nested{Documents: memoryCollection{w.mem, "nested"}, Limit: []int{0, 200, 1000}[w.rnd.IntN(3)]}
		w.course(100)
		if w.violation != "" {
			for _, line := range w.trail {
				t.Log(line)
			}
			t.Fatalf("seed %d: %s", seed+run, w.violation)
		}
		met += len(w.mem.now()["nested"])
	}
	if met == 0 {
		t.Errorf("seed %d: no documents were made", seed)
	}
}

// compareNested compares all nodes of nested documents with the rows.
func (w *world) compareNested() {
	if w.nested == nil || w.violation != "" {
		return
	}
	have := map[string]map[cell]int64{rollup.Day: {}, rollup.Hour: {}, rollup.Minute: {}}
	short := map[cell]bool{} // days that are too large lack their minutes or hours
	for _, raw := range w.mem.now()["nested"] {
		series, _ := raw.Lookup("meta").StringValueOK()
		w.nodes(have, short, series, raw, rollup.FieldDays, rollup.Day)
	}
	wanted, below := map[string]map[cell]int64{}, map[cell]int64{}
	for _, level := range []string{rollup.Minute, rollup.Hour, rollup.Day} {
		of, _ := rollup.LevelOf(level)
		folds := map[cell]int64{}
		for at, n := range below { // a level without a row means that a keeper died between two levels and the hour was frozen then
			folds[cell{at.series, of.Window(at.hour)}] += n
		}
		_, rows := w.rowsOf(level)
		for at, n := range rows {
			folds[at] = n
		}
		wanted[level], below = folds, folds
	}
	for level, nodes := range have {
		want := wanted[level]
		for at, n := range want {
			left := level != rollup.Day && short[cell{at.series, rollup.FloorTo(at.hour, dayMs)}]
			if n > 0 && nodes[at] != n && !left && !w.isTorn(at) {
				w.fail("nested documents: %s of %s at %d has %d measurements, and its row has %d", level, at.series, at.hour, nodes[at], n)
			}
		}
		for at, n := range nodes {
			if want[at] != n && !w.isTorn(at) {
				w.fail("nested documents: %s of %s at %d has %d measurements, and its row has %d", level, at.series, at.hour, n, want[at])
			}
		}
	}
}

// nodes adds the counts of the nodes of a level in a document.
func (w *world) nodes(into map[string]map[cell]int64, short map[cell]bool, series string, document bson.Raw, name, level string) {
	array, ok := document.Lookup(name).ArrayOK()
	if !ok {
		short[cell{series, rollup.FloorTo(document.Lookup(rollup.FieldDate).Time().UnixMilli(), dayMs)}] = true
		return
	}
	values, err := array.Values()
	if err != nil {
		w.fail("a nested document is damaged: %v", err)
	}
	for _, v := range values {
		node := v.Document()
		at := cell{series, node.Lookup(rollup.FieldDate).Time().UnixMilli()}
		if _, twice := into[level][at]; twice {
			w.fail("nested documents have %s of %s at %d twice", level, series, at.hour)
		}
		into[level][at] = node.Lookup("count").AsInt64()
		switch level {
		case rollup.Day:
			w.nodes(into, short, series, node, rollup.FieldHours, rollup.Hour)
		case rollup.Hour:
			w.nodes(into, short, series, node, rollup.FieldMinutes, rollup.Minute)
		}
	}
}

// TestNestedDocumentsAreCutByDay checks that a month that is too large becomes one document per day, and stays so. A day is never
// in two documents. After a crash between any two writes the documents are repaired.
func TestNestedDocumentsAreCutByDay(t *testing.T) {
	w := newWorld(1)
	w.calm = true
	w.nested = &Nested{Documents: memoryCollection{w.mem, "nested"}, Aggregations: []rollup.Aggregation{rollup.Sum}}
	month := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	rules := &rollup.Rules{}
	meta := bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: encoded(bson.D{{Key: "sensor", Value: "s-17"}, {Key: "site", Value: "north"}})}
	fill := func(days int) {
		for _, name := range []string{rollup.Minute, rollup.Hour} {
			level, _ := rollup.LevelOf(name)
			for at := month; at.Before(month.AddDate(0, 0, days)); at = at.Add(level.Step) {
				from, _ := level.Period(at.UnixMilli())
				if from != at.UnixMilli() {
					continue
				}
				d := rollup.Document{ID: level.ID(meta, from), Meta: meta, From: from, Revision: 1}
				for begin := from; ; begin += level.Step.Milliseconds() {
					if other, _ := level.Period(begin); other != from {
						break
					}
					row := rules.NewRow(begin)
					for range level.Step / time.Minute {
						row.Add(encoded(bson.D{{Key: "v", Value: int64(1)}}))
					}
					d.Replace(begin, begin+1, []rollup.Stored{{Time: begin, Fields: row.Document()}})
				}
				w.put(name, d.Encode(level.Options(baseOptions)))
			}
		}
	}
	nest := func(crashAfter int) error {
		of, err := w.work(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		writes := len(w.mem.versions)
		of.nested.Documents = dying{memoryCollection{w.mem, "nested"}, w, writes + crashAfter}
		from, to := rollup.Month(month.UnixMilli())
		return of.nest(t.Context(), []monthOfSeries{{timeseries.Key(meta), from, to}})
	}
	// days returns the sums of the days at a version, by kind of document.
	days := func(version int) (whole, cut int, sum int64) {
		seen := map[int64]bool{}
		for _, raw := range w.mem.versions[version]["nested"] {
			if raw.Lookup("sensor").StringValue() != "s-17" || raw.Lookup("site").StringValue() != "north" {
				t.Fatalf("the document has not the fields of the meta: %v", raw)
			}
			values, _ := raw.Lookup("days").Array().Values()
			for _, v := range values {
				at := v.Document().Lookup("date").Time().UnixMilli()
				if seen[at] {
					t.Fatalf("at version %d a day is there twice", version)
				}
				seen[at] = true
				sum += v.Document().Lookup("v").AsInt64()
			}
			if len(values) == 1 {
				cut++
			} else if len(values) > 1 {
				whole++
			}
		}
		return whole, cut, sum
	}
	fill(3)
	if err := nest(1 << 30); err != nil {
		t.Fatal(err)
	}
	if whole, cut, sum := days(len(w.mem.versions) - 1); whole != 1 || cut != 0 || sum != 3*1440 {
		t.Fatalf("of three days: %d documents, %d of a day, the sum is %d", whole, cut, sum)
	}
	w.nested.Limit = 300_000 // two and a half days
	fill(5)
	from := len(w.mem.versions)
	for crash := 0; ; crash++ {
		if crash > 50 {
			t.Fatal("it never ends")
		}
		if err := nest(crash); err == nil {
			break
		}
	}
	for version := from; version < len(w.mem.versions); version++ {
		days(version)
	}
	if whole, cut, sum := days(len(w.mem.versions) - 1); whole != 0 || cut != 5 || sum != 5*1440 {
		t.Errorf("of five days: %d documents, %d of a day, the sum is %d", whole, cut, sum)
	}
	w.nested.Limit = 0 // documents stay cut
	if err := nest(1 << 30); err != nil {
		t.Fatal(err)
	}
	if whole, cut, sum := days(len(w.mem.versions) - 1); whole != 0 || cut != 5 || sum != 5*1440 {
		t.Errorf("later: %d documents, %d of a day, the sum is %d", whole, cut, sum)
	}
}

// dying is a collection of a process that ends after version last.
type dying struct {
	memoryCollection
	w    *world
	last int
}

func (d dying) Insert(ctx context.Context, documents []bson.Raw) (mongodb.Reply, error) {
	if len(d.w.mem.versions) >= d.last {
		return mongodb.Reply{}, errCrash
	}
	return d.memoryCollection.Insert(ctx, documents)
}

func (d dying) Update(ctx context.Context, updates []mongodb.Update) (mongodb.Reply, error) {
	if len(d.w.mem.versions) >= d.last {
		return mongodb.Reply{}, errCrash
	}
	return d.memoryCollection.Update(ctx, updates)
}

func TestMonthsOfRuns(t *testing.T) {
	at := func(text string) int64 {
		d, err := time.Parse("2006-01-02T15", text)
		if err != nil {
			t.Fatal(err)
		}
		return d.UnixMilli()
	}
	got := ""
	for _, m := range monthsOf([]run{{at("2026-02-28T22"), at("2026-03-01T02"), []string{"b", "a"}}, {at("2026-02-01T00"), at("2026-02-01T01"), []string{"a"}}}) {
		got += fmt.Sprintf("%s %s to %s; ", m.key, time.UnixMilli(m.from).UTC().Format(time.DateOnly), time.UnixMilli(m.to).UTC().Format(time.DateOnly))
	}
	if want := "a 2026-02-01 to 2026-03-01; b 2026-02-01 to 2026-03-01; a 2026-03-01 to 2026-04-01; b 2026-03-01 to 2026-04-01; "; got != want {
		t.Errorf("months: %s", got)
	}
}
