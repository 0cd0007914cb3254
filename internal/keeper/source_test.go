package keeper

import (
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
)

// TestRowsOfLevels checks that the row of an hour is the same whatever other levels there are, and that each level has its own
// fields.
func TestRowsOfLevels(t *testing.T) {
	var of []measured
	for i := range 200 { // two hours and twenty minutes, some minutes with two measurements
		of = append(of, measured{time: int64(i) * 42_000, fields: encoded(bson.D{{Key: "a", Value: float64(i) / 7}, {Key: "b", Value: int32(i)}})})
	}
	level := func(name string, fields ...string) rollup.DefinedLevel {
		return rollup.DefinedLevel{Name: name, Fields: fields}
	}
	made := func(levels ...rollup.DefinedLevel) levelRows { return rows(of, rollup.Definition{Levels: levels}) }

	both := made(level(rollup.Minute), level(rollup.Hour), level(rollup.Day))
	if len(both) != 2 || len(both[rollup.Minute]) != 140 || len(both[rollup.Hour]) != 3 {
		t.Fatalf("%d levels, %d minutes, %d hours", len(both), len(both[rollup.Minute]), len(both[rollup.Hour]))
	}
	last := both[rollup.Hour][2]
	if n := last.Count(rollup.DefaultCount); last.Time != 2*hourMs || n != 200-172 {
		t.Errorf("the last hour begins at %d and has %d measurements", last.Time, n)
	}
	for name, other := range map[string]levelRows{
		"hours alone":                      made(level(rollup.Hour)),
		"minutes of one field":             made(level(rollup.Minute, "b"), level(rollup.Hour)),
		"minutes with another count":       made(rollup.DefinedLevel{Name: rollup.Minute, Count: "n"}, level(rollup.Hour)),
		"hours before minutes, all fields": made(level(rollup.Hour), level(rollup.Minute)),
	} {
		if !reflect.DeepEqual(other[rollup.Hour], both[rollup.Hour]) {
			t.Errorf("%s: the hours are %v, want %v", name, other[rollup.Hour], both[rollup.Hour])
		}
	}
	for _, row := range made(level(rollup.Minute, "b"), level(rollup.Hour))[rollup.Minute] {
		if row.Fields.Lookup("a").Type != 0 || row.Fields.Lookup("b").Type == 0 {
			t.Fatalf("a minute of the field b has %v", row.Fields)
		}
	}
	if minutes := made(level(rollup.Minute)); len(minutes) != 1 || !reflect.DeepEqual(minutes[rollup.Minute], both[rollup.Minute]) {
		t.Errorf("minutes alone: %v", minutes)
	}
	if none := rows(nil, rollup.Definition{Levels: []rollup.DefinedLevel{level(rollup.Minute), level(rollup.Hour)}}); len(none[rollup.Hour])+len(none[rollup.Minute]) != 0 {
		t.Errorf("no measurements: %v", none)
	}
}
