package sink_test

import (
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestTrialLeavesNothing(t *testing.T) {
	e := connect(t)
	for _, ready := range []bool{false, true} {
		if ready {
			e.setup(t)
		}
		if err := e.Trial(t.Context(), "events"); err != nil {
			t.Fatal(err)
		}
		names, err := e.raw.ListCollectionNames(t.Context(), bson.D{})
		if err != nil || !ready && !slices.Equal(names, []string{"events.partitions"}) {
			t.Errorf("collections %v, %v: want that of the claims alone", names, err)
		}
		for _, name := range []string{"events.partitions", "events.buckets"} {
			n, err := e.raw.Collection(name).CountDocuments(t.Context(), bson.D{})
			if err != nil || n != 0 {
				t.Errorf("%s has %d documents, %v", name, n, err)
			}
		}
	}
}

func TestClockOfTheServer(t *testing.T) {
	before := time.Now().Truncate(time.Millisecond)
	clock, err := connect(t).Clock(t.Context())
	if err != nil || clock.Before(before.Add(-time.Minute)) || clock.After(time.Now().Add(time.Minute)) {
		t.Errorf("clock %v, %v", clock, err)
	}
}
