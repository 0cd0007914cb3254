package keeper

import (
	"testing"
	"time"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// expiring gives a world's measurements and levels other expiries. Zero means that they never expire.
func (w *world) expiring(t *testing.T, kept time.Duration, levels string) {
	t.Helper()
	expiring := func(o timeseries.Options, after time.Duration) timeseries.Options {
		o.ExpireAfterSeconds = int64(after / time.Second)
		return o
	}
	w.put("options", timeseries.Definition{ID: timeseries.DefinitionID, Version: 1, Options: expiring(baseOptions, kept), Segments: true})
	parsed, err := rollup.ParseLevels(levels)
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range parsed {
		w.put(level.Name+".options", timeseries.Definition{
			ID: timeseries.DefinitionID, Version: 1, Options: level.Options(baseOptions), RollupOf: baseName,
		})
	}
}

// TestRowsAreMaintainedUntilTheirDocumentExpires stores a measurement at each step of time, and runs a pass after each. The rows
// that readers count on must be there at any moment.
func TestRowsAreMaintainedUntilTheirDocumentExpires(t *testing.T) {
	for _, c := range []struct {
		levels, level string
		step, course  time.Duration
	}{
		{"1m:1h,1h,1d", rollup.Minute, 7 * time.Minute, 5 * time.Hour},
		{"1m,1h:24h", rollup.Hour, 3 * time.Hour, 4 * 24 * time.Hour},
		{"1m,1h:1488h,1d:800h", rollup.Day, 20 * time.Hour, 80 * 24 * time.Hour},
	} {
		t.Run(c.levels, func(t *testing.T) {
			w, _ := still(t, 0)
			w.expiring(t, 0, c.levels)
			levels, _ := rollup.ParseLevels(c.levels)
			level, _ := levels.Level(c.level)
			late := level.Expire - level.Step // Windows of this age have not expired.
			begin := w.now
			for w.now.Sub(begin) < c.course {
				w.now = w.now.Add(c.step)
				w.add(w.parts[0], "a", w.now)
				w.add(w.parts[0], "a", w.now.Add(-late))
				w.run(t, w.owned(w.parts[0]))
				_, counts := w.rowsOf(c.level)
				missing := 0
				for _, r := range w.parts[0].log {
					at := level.Window(r.time)
					if at >= w.now.Add(-level.Expire).UnixMilli() && counts[cell{"a", at}] == 0 {
						missing++
					}
				}
				if missing > 0 {
					t.Fatalf("%v after the first measurement, %d rows are missing that have not expired", w.now.Sub(begin), missing)
				}
			}
		})
	}
}

// TestFrozenDocuments compares the freezing of rows with the time at which the TTL index of the level deletes their document, and
// with the rows that readers count on: those of windows that begin no earlier than now minus the expiry.
func TestFrozenDocuments(t *testing.T) {
	levels, err := rollup.ParseLevels("1m:1h,1h:1488h,1d:800h")
	if err != nil {
		t.Fatal(err)
	}
	w := &work{}
	w.state.Levels = levels
	hour, _ := levels.Level(rollup.Hour)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, level := range levels {
		deletedAfter := time.Duration(level.Options(baseOptions).TTLSeconds()) * time.Second
		frozen := func(at int64, now time.Time) bool {
			if level.Name == rollup.Day {
				return w.isFrozenDay(level, at, now)
			}
			return w.isFrozen(level, at, now)
		}
		for at := begin.UnixMilli(); at < begin.AddDate(0, 3, 0).UnixMilli(); at += dayMs / 2 {
			begins, ends := level.Period(at)
			row := rollup.FloorTo(at, hourMs)
			if level.Name == rollup.Day {
				row = level.Window(at)
			}
			counted := time.UnixMilli(row).Add(level.Expire) // Until then readers count on the row.
			if frozen(row, counted) {
				t.Errorf("level %s: the row of %v is frozen while readers count on it", level.Name, time.UnixMilli(row).UTC())
			}
			expired := time.UnixMilli(ends).Add(level.Expire + expiredMargin)
			if frozen(row, expired) && level.Name != rollup.Day || !frozen(row, expired.Add(time.Millisecond)) {
				t.Errorf("level %s: the row of %v is not frozen when its document has expired", level.Name, time.UnixMilli(row).UTC())
			}
			if deleted := time.UnixMilli(begins).Add(deletedAfter); deleted.Before(counted) {
				t.Errorf("level %s: MongoDB deletes the row of %v while readers count on it", level.Name, time.UnixMilli(row).UTC())
			}
		}
	}
	day := levels[2]
	day.Expire = 0
	w.state.Options.ExpireAfterSeconds = 1
	deleted := begin.Add(time.Duration(hour.Options(baseOptions).TTLSeconds()) * time.Second)
	if w.isFrozenDay(day, begin.UnixMilli(), deleted.Add(-frozenMargin)) || !w.isFrozenDay(day, begin.UnixMilli(), deleted.Add(time.Millisecond-frozenMargin)) {
		t.Error("a day is not folded until shortly before MongoDB may delete its hours")
	}
}

// TestDaysOutliveTheirHours has measurements that are older than the expiry of hours. Rows of days have no expiry, so readers count
// on them.
func TestDaysOutliveTheirHours(t *testing.T) {
	for _, c := range []struct {
		kept         time.Duration
		days, frozen int64
	}{{0, 1, 0}, {90 * 24 * time.Hour, 0, 1}} {
		w, _ := still(t, 0)
		w.expiring(t, c.kept, "1m,1h:1488h,1d")
		old := w.now.AddDate(0, 0, -100)
		for n := int64(1); n <= 2; n++ {
			w.add(w.parts[0], "a", old)
			if of := w.run(t, w.owned(w.parts[0])); of.frozen != c.frozen {
				t.Errorf("kept for %v: %d measurements are in no row, want %d", c.kept, of.frozen, c.frozen)
			}
			_, hours := w.rowsOf(rollup.Hour)
			_, days := w.rowsOf(rollup.Day)
			if len(hours) != 0 || days[cell{"a", rollup.FloorTo(old.UnixMilli(), dayMs)}] != n*c.days {
				t.Errorf("kept for %v: the rows of hours are %v, those of days %v", c.kept, hours, days)
			}
		}
		command, err := NewCommand(t.Context(), w.rollups())
		if err != nil {
			t.Fatal(err)
		}
		from := old.Truncate(24 * time.Hour)
		v, err := command.Verify(t.Context(), Range{From: from, To: from.AddDate(0, 0, 1)}, 10, func(Built) {})
		if err != nil || v.Differences > 0 {
			t.Errorf("kept for %v: the rows are verified as %+v, %v", c.kept, v, err)
		}
	}
}
