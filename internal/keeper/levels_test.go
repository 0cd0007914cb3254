package keeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/sink"
)

// keeperOf returns a keeper of one partition of a world.
func keeperOf(w *world, owned *Partition) *Keeper {
	return New(Options{
		Rollups:  func() map[string]*sink.Rollups { return map[string]*sink.Rollups{"t": w.rollups()} },
		Interval: time.Hour, Share: 1,
		Partitions: func() []Partition { return []Partition{*owned} }, Nested: func(string) *Nested { return nil },
		Metrics: NewMetrics(nil), Log: slog.New(slog.DiscardHandler),
	})
}

// redefine changes the levels of the definition, as a command does.
func (w *world) redefine(names ...string) {
	levels := bson.A{}
	for _, name := range names {
		levels = append(levels, rollup.DefinedLevel{Name: name, Count: "count"})
	}
	w.put("options", bson.D{{Key: "_id", Value: rollup.DefinitionID}, {Key: "levels", Value: levels}})
}

// TestAKeeperMaintainsAllLevels checks that a pass makes the rows of every level that the time series has at that moment. The
// watermark is one for all levels, so a level that a pass leaves out would lack the rows for ever.
func TestAKeeperMaintainsAllLevels(t *testing.T) {
	w, owned := still(t, 3)
	w.redefine(rollup.Hour)
	k := keeperOf(w, owned)
	k.pass(t.Context(), k.owned()[0])
	if _, counts := w.rowsOf(rollup.Minute); len(counts) != 0 {
		t.Errorf("rows of minutes without such a level: %v", counts)
	}
	w.redefine(rollup.Minute, rollup.Hour, rollup.Day)
	w.add(w.parts[0], "b", w.now)
	owned.Done = w.parts[0].done()
	k.pass(t.Context(), k.owned()[0])
	for _, level := range []string{rollup.Minute, rollup.Hour, rollup.Day} {
		_, counts := w.rowsOf(level)
		of, _ := rollup.LevelOf(level)
		if n := counts[cell{"b", of.Window(w.now.UnixMilli())}]; n != 1 {
			t.Errorf("the row of level %s counts %d measurements, want 1", level, n)
		}
	}
}

// TestWithoutLevelsNothingIsLate checks the time from which the alert counts.
func TestWithoutLevelsNothingIsLate(t *testing.T) {
	w, owned := still(t, 1)
	w.redefine()
	k := keeperOf(w, owned)
	turn := k.turn(owned)
	turn.complete = time.Now().Add(-24 * time.Hour)
	k.pass(t.Context(), k.owned()[0])
	if time.Since(turn.complete) > time.Minute || !turn.next.After(time.Now()) {
		t.Errorf("after a look without levels the turn is %+v", turn)
	}
}

// TestAnOutageDelaysNoRollupsThatDoNotExist checks what is logged when MongoDB does not answer.
func TestAnOutageDelaysNoRollupsThatDoNotExist(t *testing.T) {
	w, owned := still(t, 1)
	k := keeperOf(w, owned)
	var log strings.Builder
	k.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	outage := &mongodb.OutageError{Operation: "reading", Err: errors.New("no answer")}
	k.failed(outage, baseName)
	if log.Len() > 0 {
		t.Errorf("without rollups the log is %s", log.String())
	}
	k.pass(t.Context(), k.owned()[0])
	k.failed(outage, baseName)
	if !strings.Contains(log.String(), "rollups are late") {
		t.Errorf("with rollups the log is %q", log.String())
	}
	k.told = false
	log.Reset()
	k.failed(&mongodb.RefusedError{Operation: "reading", Message: "not allowed"}, "unknown")
	if !strings.Contains(log.String(), "rollups are late") {
		t.Errorf("after a refusal the log is %q", log.String())
	}
}

// TestAKeeperDoesNotMakeADroppedLevelAgain drops a level before each step of a pass. No row of the level may be stored afterwards,
// and the next pass must store the rows of the other level.
func TestAKeeperDoesNotMakeADroppedLevelAgain(t *testing.T) {
	during := 0
	for before := range 20 {
		w, owned := still(t, 3)
		k := keeperOf(w, owned)
		w.begin("pass", func(ctx context.Context, _ *actor) { k.pass(ctx, k.owned()[0]) })
		for range before {
			if len(w.actors) > 0 {
				w.go1(w.actors[0], false)
			}
		}
		if len(w.actors) > 0 {
			during++
		}
		w.redefine(rollup.Hour)
		if len(w.actors) > 0 && isWriteOf(w.mem.commands[len(w.mem.commands)-1], rollup.Minute) {
			w.go1(w.actors[0], false) // DropRollup waits for a write that was sent before
		}
		w.mem.write(rollup.Minute, func(all map[string]bson.Raw) { clear(all) })
		from := len(w.mem.commands)
		w.drain()
		k.pass(t.Context(), k.owned()[0])
		if slices.ContainsFunc(w.mem.commands[from:], func(command string) bool { return isWriteOf(command, rollup.Minute) }) {
			t.Errorf("dropped after %d steps: the commands afterwards are %v", before, w.mem.commands[from:])
		}
		if _, counts := w.rowsOf(rollup.Hour); len(counts) != 1 || w.violation != "" {
			t.Errorf("dropped after %d steps: the rows of hours count %v; %s", before, counts, w.violation)
		}
	}
	if during < 8 {
		t.Errorf("the level was dropped in the middle of %d passes", during)
	}
}

func isWriteOf(command, level string) bool {
	return command == "insert "+level || command == "update "+level
}
