package sink_test

import (
	"reflect"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

func TestTakeOverIsCompareAndSet(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	former := e.claimed(t, s)
	seen := onlyPartition(t, e)
	if seen.ClusterID != "cluster" || seen.Topic != "events" || seen.Partition != 3 || seen.Group != "group" || seen.Owner != "host" || time.Since(seen.At).Abs() > time.Minute {
		t.Errorf("%+v", seen)
	}
	if err := former.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	claimWith(t, former) // after the document was read
	if done, err := sink.ContentsOf(e.Database, "events").TakeOver(t.Context(), seen, "next"); done || err != nil {
		t.Fatalf("a claim that is gone was taken over: %v, %v", done, err)
	}
	seen = onlyPartition(t, e)
	if done, err := sink.ContentsOf(e.Database, "events").TakeOver(t.Context(), seen, "next"); !done || err != nil {
		t.Fatalf("it was not taken over: %v, %v", done, err)
	}
	after := onlyPartition(t, e)
	if after.Group != "next" || after.Released || after.Claim != seen.Claim || after.Start != seen.Start || after.Wait != seen.Wait {
		t.Errorf("before %+v, after %+v", seen, after)
	}
	if err := former.Release(t.Context()); err == nil {
		t.Error("the former group released what is not its own")
	}
	read, err := former.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if won, err := former.Claim(t.Context(), read, claim.Claim{Token: token()}); won || err != nil {
		t.Errorf("the former group claimed it back: %v, %v", won, err)
	}
	next := s.Partition(source, "cluster", "next", "host")
	t.Cleanup(next.Close)
	claimWith(t, next)
}

func onlyPartition(t *testing.T, e *env) sink.PartitionDocument {
	t.Helper()
	all, err := sink.ContentsOf(e.Database, "events").Partitions(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0]
}

func TestPartitionsOfAnyForm(t *testing.T) {
	e := connect(t)
	for _, id := range []any{"c/t/10", "c/t/9", "c/d/t/0", "x", int32(4), "t/-1"} {
		if _, err := e.Raw.Collection("events.partitions").InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "group", Value: 4}}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := sink.ContentsOf(e.Database, "events").Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range all {
		ids = append(ids, d.ID)
	}
	if got := ids[len(ids)-3:]; len(ids) != 6 || got[0] != "c/t/9" || got[1] != "c/t/10" || got[2] != "c/d/t/0" {
		t.Errorf("%q", ids)
	}
}

func TestHoldingsCountsEachPartition(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	for i := range 4 {
		sendAll(t, p, bucketer.Applied, insertOf(itoa(i), run(int64(i)*20, 20)...))
	}
	other := source
	other.Partition = 11
	q := s.Partition(other, "cluster", "group", "host")
	t.Cleanup(q.Close)
	claimWith(t, q)
	moved := insertOf("x", run(1000, 7)...)
	sendAll(t, q, bucketer.Applied, moved)
	buckets := e.Raw.Collection("events.buckets")
	change := func(series string, set bson.D) {
		t.Helper()
		if r, err := buckets.UpdateMany(t.Context(), bson.D{{Key: "meta", Value: series}}, bson.D{{Key: "$set", Value: set}}); err != nil || r.MatchedCount != 1 {
			t.Fatal(r, err)
		}
	}
	change("x", bson.D{{Key: "control.source.partition", Value: int32(11)}})
	change("3", bson.D{{Key: "control.closed", Value: true}})
	if _, err := buckets.InsertOne(t.Context(), bson.D{{Key: "control", Value: bson.D{{Key: "count", Value: int32(9)}}}}); err != nil {
		t.Fatal(err)
	}
	change("2", bson.D{{Key: "control.source.topicId", Value: bson.Binary{Subtype: 4, Data: append(make([]byte, 15), 9)}}})

	all, err := sink.ContentsOf(e.Database, "events").Holdings(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	older := timeseries.Source{Topic: "events", TopicID: [16]byte{15: 9}, Partition: 3}
	for i, want := range []sink.Holding{
		{Buckets: 1, Measurements: 9, First: -1, Last: -1},
		{Source: older, Buckets: 1, Measurements: 20, First: 40, Last: 59},
		{Source: source, Buckets: 2, Measurements: 40, Closed: 1, First: 20, Last: 79, Cut: true},
		{Source: other, Buckets: 1, Measurements: 7, First: 1000, Last: 1006},
	} {
		if i >= len(all) {
			t.Fatalf("%d holdings: %+v", len(all), all)
		}
		got := all[i]
		if each := int32(got.Measurements / got.Buckets); got.Counts[each] != got.Buckets || i > 0 && (got.Oldest != minute || got.Newest <= minute) {
			t.Errorf("%d: %v buckets by their count, from %d to %d", i, got.Counts, got.Oldest, got.Newest)
		}
		if i == len(all)-1 && got.Covered != got.Newest-got.Oldest { // of one bucket
			t.Errorf("%d: %d ms are covered from %d to %d", i, got.Covered, got.Oldest, got.Newest)
		}
		got.Bytes, got.Counts, got.Oldest, got.Newest, got.Covered = 0, nil, 0, 0, 0
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %+v, want %+v", i, got, want)
		}
	}
	size, err := collection.Of(e.Database, "events").Size(t.Context())
	if err != nil || size.Documents != 6 || size.Bytes == 0 {
		t.Errorf("%+v, %v", size, err)
	}
}
