package events_test

import (
	"encoding/json"
	"testing"
	"time"

	"waterwheel/e2e/events"
)

// TestGeneratorMakesWhatItSays checks that good events are JSON, that every reason and every special kind occurs, and that the
// same seed makes the same events.
func TestGeneratorMakesWhatItSays(t *testing.T) {
	o := events.Options{Series: 50, Start: time.Unix(1_700_000_000, 0), Step: 30 * time.Second, MaxBytes: 4096, Seed: 7}
	first, second := events.NewGenerator(o), events.NewGenerator(o)
	book := events.NewBook()
	reasons := map[string]int{}
	var tombstones, arrays, elements, valid int
	for range 20_000 {
		e := book.Add(first.Next())
		if again := second.Next(); string(again.Value) != string(e.Value) {
			t.Fatalf("the same seed made %s and %s", e.Value, again.Value)
		}
		valid += e.Fate.Valid()
		switch {
		case e.Fate.Tombstone():
			tombstones++
		case e.Fate.Reason != "":
			reasons[e.Fate.Reason]++
			continue
		case e.Fate.Array:
			arrays++
		}
		for _, p := range e.Fate.Parts {
			if p.Reading == nil {
				elements++
			}
		}
		if e.Value != nil && !json.Valid(e.Value) {
			t.Fatalf("a good event is not JSON: %s", e.Value)
		}
		if fate, ok := book.Fate(e.Value); !ok || fate.Valid() != e.Fate.Valid() {
			t.Fatalf("the book does not know %s", e.Value)
		}
	}
	for _, r := range events.Reasons() {
		if reasons[r] == 0 {
			t.Errorf("no event of reason %s", r)
		}
	}
	if tombstones == 0 || arrays == 0 || elements == 0 || valid < 19_000 {
		t.Errorf("%d tombstones, %d arrays, %d bad elements, %d valid measurements", tombstones, arrays, elements, valid)
	}
}
