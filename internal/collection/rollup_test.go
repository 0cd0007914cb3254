package collection_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/rollup"
)

// levelsOf returns levels in the notation of ROLLUP_LEVELS.
func levelsOf(t *testing.T, text string) rollup.Levels {
	t.Helper()
	levels, err := rollup.ParseLevels(text)
	if err != nil {
		t.Fatal(err)
	}
	return levels
}

// rollUp sets up levels, and returns the definition.
func (e *env) rollUp(t *testing.T, levels string, rules rollup.Rules) rollup.Definition {
	t.Helper()
	of := collection.Of(e.Database, "events")
	if err := of.SetupRollups(t.Context(), levelsOf(t, levels), rules, e.as); err != nil {
		t.Fatal(err)
	}
	have, err := collection.ReadRollups(t.Context(), of.Ports().Options)
	if err != nil {
		t.Fatal(err)
	}
	return have
}

func namesOf(d rollup.Definition) (names []string) {
	for _, l := range d.Levels {
		names = append(names, l.Name)
	}
	return names
}

// TestOnlyDropEndsALevel checks that a level stays when ROLLUP_LEVELS lacks it, and that it has the same rules as the other levels,
// because days are folded from hours.
func TestOnlyDropEndsALevel(t *testing.T) {
	t.Parallel()
	e := connect(t)
	e.setup(t)
	of := collection.Of(e.Database, "events")
	e.rollUp(t, "1m,1h,1d", rollup.Rules{})
	have := e.rollUp(t, "1h", rollup.Rules{Fields: rollup.Fields{"x"}})
	if !slices.Equal(namesOf(have), []string{"1m", "1h", "1d"}) {
		t.Fatalf("the levels are %v", have.Levels)
	}
	for _, l := range have.Levels {
		if !slices.Equal(l.Fields, []string{"x"}) {
			t.Errorf("level %s has the fields %q", l.Name, l.Fields)
		}
	}
	if err := of.WarnOfOtherLevels(t.Context(), levelsOf(t, "1h,1d")); err != nil || !strings.Contains(e.Said.String(), "level=1m") || strings.Contains(e.Said.String(), "level=1h") {
		t.Errorf("the log is %s, %v", e.Said, err)
	}
	if err := of.SetupRollups(t.Context(), levelsOf(t, "1h"), rollup.Rules{Count: "n"}, e.as); err == nil || !strings.Contains(err.Error(), `set ROLLUP_COUNT_FIELD to "count"`) {
		t.Errorf("another name of the count: %v", err)
	}
	if dropped, err := of.DropRollup(t.Context(), "1m"); err != nil || !dropped {
		t.Fatal(dropped, err)
	}
	if have := e.rollUp(t, "1h", rollup.Rules{}); !slices.Equal(namesOf(have), []string{"1h", "1d"}) {
		t.Errorf("after the drop the levels are %v", have.Levels)
	}
	if has, err := of.HasLevel(t.Context(), "1m"); err != nil || has {
		t.Errorf("after the drop there is a level: %v, %v", has, err)
	}
}

// TestOnlyNewFieldsMakeALevelIncomplete checks that a level stays complete when ROLLUP_FIELDS names the same fields in another order,
// or fewer fields.
func TestOnlyNewFieldsMakeALevelIncomplete(t *testing.T) {
	t.Parallel()
	e := connect(t)
	e.setup(t)
	e.rollUp(t, "1h", rollup.Rules{Fields: rollup.Fields{"a", "b", "wind.*"}})
	if _, err := collection.Of(e.Database, "events").Ports().Buckets.Insert(t.Context(), []bson.Raw{bucketOf("s", minute, records(0, 2)...)}); err != nil {
		t.Fatal(err)
	}
	for _, fields := range []rollup.Fields{{"b", "a", "wind.*"}, {"wind.speed", "b"}, {"b"}} {
		have := e.rollUp(t, "1h", rollup.Rules{Fields: fields})
		if l := have.Levels[0]; l.Since != nil || !slices.Equal(l.Fields, fields) {
			t.Errorf("with the fields %q the level is %+v", fields, l)
		}
	}
	if l := e.rollUp(t, "1h", rollup.Rules{Fields: rollup.Fields{"b", "a"}}).Levels[0]; l.Since == nil {
		t.Error("a level has a new field in its earlier rows")
	}
}

// TestANewLevelIsCompleteAfterAllStoredTimes checks when a level is complete that begins now. No pass finds the measurements that are
// stored already, and some have later times than now.
func TestANewLevelIsCompleteAfterAllStoredTimes(t *testing.T) {
	t.Parallel()
	e := connect(t)
	for name, c := range map[string]struct {
		ahead   time.Duration
		between [2]time.Duration // bounds of the time after the latest time, or after now
	}{
		"past":               {-240 * time.Hour, [2]time.Duration{time.Hour, 2 * time.Hour}},
		"an hour ago":        {-time.Hour, [2]time.Duration{time.Hour, 2 * time.Hour}},
		"forecast":           {23 * time.Hour, [2]time.Duration{24 * time.Hour, 25 * time.Hour}},
		"forecast of years":  {20 * 365 * 24 * time.Hour, [2]time.Duration{20*365*24*time.Hour + time.Hour, 20*365*24*time.Hour + 2*time.Hour}},
		"forecast of a week": {7 * 24 * time.Hour, [2]time.Duration{7*24*time.Hour + time.Hour, 7*24*time.Hour + 2*time.Hour}},
	} {
		of := collection.Of(e.Database, strings.ReplaceAll(name, " ", "-"))
		if _, err := of.Setup(t.Context(), definition, e.as); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		documents := []bson.Raw{
			bucketOf("early", now.Add(-24*time.Hour).Truncate(time.Minute).UnixMilli(), records(0, 2)...),
			bucketOf("late", now.Add(c.ahead).Truncate(time.Minute).UnixMilli(), records(10, 3)...),
		}
		if _, err := of.Ports().Buckets.Insert(t.Context(), documents); err != nil {
			t.Fatal(err)
		}
		if err := of.SetupRollups(t.Context(), levelsOf(t, "1h"), rollup.Rules{}, e.as); err != nil {
			t.Fatal(err)
		}
		have, err := collection.ReadRollups(t.Context(), of.Ports().Options)
		if err != nil || have.Levels[0].Since == nil {
			t.Fatalf("%s: %+v, %v", name, have, err)
		}
		since := *have.Levels[0].Since
		if least, most := now.Add(c.between[0]-time.Minute), now.Add(c.between[1]+time.Minute); since.Before(least) || since.After(most) || !since.Equal(since.Truncate(time.Hour)) {
			t.Errorf("%s: now is %s, and the level is complete since %s", name, now, since)
		}
	}
}

// TestAnInterruptedDropCanBeContinued interrupts a drop after the level has left the definition.
func TestAnInterruptedDropCanBeContinued(t *testing.T) {
	t.Parallel()
	e := connect(t)
	e.setup(t)
	of := collection.Of(e.Database, "events")
	e.rollUp(t, "1m,1h", rollup.Rules{})
	ctx, cancel := context.WithTimeout(t.Context(), e.Database.WriteTimeout()*9/10)
	defer cancel()
	if _, err := of.DropRollup(ctx, "1m"); err == nil {
		t.Fatal("the drop did not wait for writes that were sent before")
	}
	have, err := collection.ReadRollups(t.Context(), of.Ports().Options)
	if err != nil || !slices.Equal(namesOf(have), []string{"1h"}) {
		t.Fatalf("the levels are %v, %v", have.Levels, err)
	}
	if has, err := of.HasLevel(t.Context(), "1m"); err != nil || !has {
		t.Fatalf("the level cannot be dropped again: %v, %v", has, err)
	}
	if dropped, err := of.DropRollup(t.Context(), "1m"); err != nil || !dropped {
		t.Fatal(dropped, err)
	}
	names, err := collection.Names(t.Context(), e.Database)
	if err != nil || slices.Contains(names, "events_1m") {
		t.Errorf("the time series are %q, %v", names, err)
	}
	if dropped, err := of.DropRollup(t.Context(), "1m"); err != nil || dropped {
		t.Errorf("a level that is gone: %v, %v", dropped, err)
	}
}
