package collection_test

import (
	"slices"
	"testing"
	"time"

	"waterwheel/internal/collection"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestTrialLeavesNothing(t *testing.T) {
	e := connect(t)
	for _, ready := range []bool{false, true} {
		if ready {
			e.setup(t)
		}
		before, err := e.Raw.ListCollectionNames(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		trial, err := collection.Of(e.Database, "events").Trial(t.Context(), definition, collection.Settings{})
		if err != nil || trial.Tried == 0 || len(trial.Missing) > 0 {
			t.Errorf("set up: %v: %+v, %v", ready, trial, err)
		}
		after, err := e.Raw.ListCollectionNames(t.Context(), bson.D{})
		if diff := cmp.Diff(sortedNames(before), sortedNames(after)); err != nil || diff != "" {
			t.Errorf("set up: %v: the collections: %v, %s", ready, err, diff)
		}
		for _, name := range []string{"events.partitions", "events.buckets"} {
			n, err := e.Raw.Collection(name).CountDocuments(t.Context(), bson.D{})
			if err != nil || n != 0 {
				t.Errorf("%s has %d documents, %v", name, n, err)
			}
		}
	}
}

func sortedNames(names []string) []string {
	slices.Sort(names)
	return names
}

func TestClockOfTheServer(t *testing.T) {
	before := time.Now().Truncate(time.Millisecond)
	clock, err := connect(t).Clock(t.Context())
	if err != nil || clock.Before(before.Add(-time.Minute)) || clock.After(time.Now().Add(time.Minute)) {
		t.Errorf("clock %v, %v", clock, err)
	}
}
