package kafka

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka/wire"
)

func TestTopicsAnswersInOrderWithErrors(t *testing.T) {
	client, err := startFake(t, &fakeBroker{topics: []string{"a", "b"}}).open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	topics, err := client.Topics(t.Context(), "b", "missing", "a")
	if err != nil {
		t.Fatal(err)
	}
	partitions := []Partition{{ID: 0, Leader: 1, Replicas: 1, InSync: 1}}
	want := []Topic{{Name: "b", ID: fakeID, Partitions: partitions}, {Name: "missing"}, {Name: "a", ID: fakeID, Partitions: partitions}}
	missing := topics[1].Err
	topics[1].Err = nil
	if diff := cmp.Diff(want, topics); diff != "" {
		t.Error(diff)
	}
	if !errors.Is(missing, kafkago.UnknownTopicOrPartition) || Classify(missing) != LookAtMetadata {
		t.Error(missing)
	}
	if client.ClusterID() != "fake" {
		t.Errorf("cluster id %q", client.ClusterID())
	}
}

func TestParseMetadataRefusesWhatIsCut(t *testing.T) {
	whole := (&fakeBroker{topics: []string{"a", "b"}}).metadataBody()
	for n := range whole {
		if _, err := metadataRequest(nil).Parse(whole[:n]); !errors.Is(err, wire.ErrMalformed) {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

func TestRightsThatAreNotToldAreAllowed(t *testing.T) {
	const read, untold = 1<<Read | 1<<describe, -1 << 31
	for _, c := range []struct {
		rights Rights
		asked  Operation
		want   bool
	}{
		{read, Read, true},
		{read, Write, false},
		{1 << describe, Read, false},
		{untold, Write, true},
		{0, Write, true}, // the right to use a resource includes Describe, so a broker that denies it says nothing
	} {
		if got := c.rights.Allow(c.asked); got != c.want {
			t.Errorf("%b allows %d: %v", c.rights, c.asked, got)
		}
	}
}
