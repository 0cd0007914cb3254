package timeseries

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestBucketIDIsStable(t *testing.T) {
	source := Source{Topic: "events", TopicID: [16]byte{1, 2, 3}, Partition: 4}
	const minTime = 1609459200_000
	base := BucketID(source, Position{Offset: 5, Part: 6}, 0, minTime)
	// This value must never change, because every later version must find a stored bucket.
	if want := "5fee6600586320803d8c762f"; base.Hex() != want {
		t.Errorf("the id is %s, want %s", base.Hex(), want)
	}
	seen := map[bson.ObjectID]string{base: "the first"}
	for name, id := range map[string]bson.ObjectID{
		"another topic id":  BucketID(Source{TopicID: [16]byte{9}, Partition: 4}, Position{5, 6}, 0, minTime),
		"another partition": BucketID(Source{TopicID: source.TopicID, Partition: 5}, Position{5, 6}, 0, minTime),
		"another offset":    BucketID(source, Position{6, 6}, 0, minTime),
		"another part":      BucketID(source, Position{5, 7}, 0, minTime),
		"another attempt":   BucketID(source, Position{5, 6}, 1, minTime),
		"another time":      BucketID(source, Position{5, 6}, 0, minTime+60_000),
	} {
		if with, ok := seen[id]; ok {
			t.Errorf("%s has the id of %s", name, with)
		}
		seen[id] = name
	}
	source.Topic = "renamed"
	if BucketID(source, Position{5, 6}, 0, minTime) != base {
		t.Error("the topic's name went into the id; its topic id stands for it")
	}
}

func BenchmarkBucketID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		BucketID(Source{Partition: 4}, Position{Offset: 5}, 0, 1609459200_000)
	}
}
