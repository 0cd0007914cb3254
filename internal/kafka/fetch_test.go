package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// fetchFrom makes a fake answer one fetch of events/0 from an offset.
func fetchFrom(t *testing.T, offset int64, answer func() []byte) (*Client, record.Batch, error) {
	t.Helper()
	fake := startFake(t, &fakeBroker{topics: []string{"events"}, fetch: answer})
	client, err := fake.open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := fetch(t.Context(), client, "events", fakeID, offset)
	return client, batch, err
}

func TestFetchGivesRecordsAndBounds(t *testing.T) {
	set := slices.Concat(batchOf(7, attributeTransactional, 1, 0, 2), plainBatch(10, 2))
	_, batch, err := fetchFrom(t, 7, fetchSpec{
		id: fakeID, highWatermark: 20, lastStable: 15, logStart: 3, set: set, aborted: []recordbatch.Aborted{{Producer: 1, First: 7}},
	}.encode)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{10, 11}, offsets(batch)); diff != "" || batch.Next != 12 || batch.End != 15 {
		t.Error(diff, batch.Next, batch.End)
	}
}

func TestFetchOfNothingStaysWhereItIs(t *testing.T) {
	_, batch, err := fetchFrom(t, 15, fetchSpec{id: fakeID, highWatermark: 20, lastStable: 15, logStart: 3}.encode)
	if err != nil || len(batch.Records) != 0 || batch.Next != 15 {
		t.Error(batch, err)
	}
}

// TestFetchWaitsWhileItIsThrottled covers a broker that answers at once with nothing when a quota is used up.
func TestFetchWaitsWhileItIsThrottled(t *testing.T) {
	const throttle = 120
	throttled := []byte{0, 0, 0, 0, throttle, 0, 0, 0, 0, 0, 0, 1, 0} // time, code, session, no topics
	var asked []time.Time
	_, batch, err := fetchFrom(t, 7, func() []byte {
		if asked = append(asked, time.Now()); len(asked) < 3 {
			return throttled
		}
		return fetchSpec{id: fakeID, highWatermark: 9, lastStable: 9, set: plainBatch(7, 2)}.encode()
	})
	if err != nil || len(batch.Records) != 2 {
		t.Fatal(batch, err)
	}
	if took := asked[2].Sub(asked[0]); took < 2*throttle*time.Millisecond {
		t.Errorf("asked three times within %v", took)
	}
}

func TestFetchAsksForWhatWasAsked(t *testing.T) {
	var asked []byte
	fake := &fakeBroker{topics: []string{"events"}, fetch: fetchSpec{id: fakeID, partition: 0}.encode}
	fake.answer = func(api protocol.ApiKey, frame []byte) []byte {
		if api == protocol.Fetch {
			asked = frame
		}
		return nil
	}
	client, err := startFake(t, fake).open(t, func(o *Options) { o.FetchBytes = 12345 })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(t.Context(), client, "events", fakeID, 0x0102030405060708); err != nil {
		t.Fatal(err)
	}
	r := wire.NewReader(asked[12:])
	clientID := r.ShortString()
	r.Tags()
	got := []any{clientID, r.Int32(), r.Int32(), r.Int32(), r.Int32(), r.Take(1)[0], r.Int32(), r.Int32()}
	topics, id, partitions, partition := r.CompactLen(), r.UUID(), r.CompactLen(), r.Int32()
	r.Int32()
	got = append(got, topics, id, partitions, partition, r.Int64())
	r.Int32()
	r.Int64()
	got = append(got, r.Int32())
	r.Tags()
	r.Tags()
	got = append(got, r.CompactLen(), r.CompactString())
	r.Tags()
	want := []any{
		"waterwheel", int32(-1), int32(50), int32(1), int32(12345), byte(1), int32(0), int32(-1),
		1, fakeID, 1, int32(0), int64(0x0102030405060708), int32(12345), 0, "",
	}
	if diff := cmp.Diff(want, got); diff != "" || r.Err() != nil || r.More() {
		t.Error(diff, r.Err())
	}
}

// TestFetchOutOfRangeIsAskedOfListOffsets checks this because a real broker answers OFFSET_OUT_OF_RANGE with -1 as every offset.
func TestFetchOutOfRangeIsAskedOfListOffsets(t *testing.T) {
	fake := startFake(t, &fakeBroker{
		topics: []string{"events"},
		fetch:  fetchSpec{id: fakeID, code: 1, highWatermark: -1, lastStable: -1, logStart: -1}.encode,
		listOffsets: func(timestamp int64) listoffsets.ResponsePartition {
			return listoffsets.ResponsePartition{Timestamp: -1, Offset: map[int64]int64{kafkago.FirstOffset: 30, kafkago.LastOffset: 90, 5: -1, 4: 40}[timestamp]}
		},
	})
	client, err := fake.open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fetch(t.Context(), client, "events", fakeID, 7)
	if Classify(err) != OutOfRange {
		t.Fatal(err)
	}
	if n := testutil.ToFloat64(fetchErrors(client, "events", "OFFSET_OUT_OF_RANGE")); n != 1 {
		t.Errorf("counted %v times", n)
	}
	first, end, err := client.Bounds(t.Context(), partition("events", 0))
	if first != 30 || end != 90 || err != nil {
		t.Error(first, end, err)
	}
	for time, want := range map[int64]int64{4: 40, 5: 90} {
		if offset, err := client.OffsetAt(t.Context(), partition("events", 0), time); offset != want || err != nil {
			t.Errorf("at time %d: %d, %v", time, offset, err)
		}
	}
}

func TestBoundsKeepsTheBrokersError(t *testing.T) {
	fake := startFake(t, &fakeBroker{topics: []string{"events"}, listOffsets: func(int64) listoffsets.ResponsePartition {
		return listoffsets.ResponsePartition{ErrorCode: int16(kafkago.OffsetNotAvailable)}
	}})
	client, err := fake.open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.Bounds(t.Context(), partition("events", 0)); !errors.Is(err, kafkago.OffsetNotAvailable) || Classify(err) != Retry {
		t.Error(err)
	}
}

// fetchErrors counts the failed fetches of partition 0.
func fetchErrors(client *Client, topic, code string) prometheus.Counter {
	return client.metrics.errors.WithLabelValues(topic, "0", code)
}

func TestFetchErrors(t *testing.T) {
	damaged := plainBatch(0, 3)
	damaged[len(damaged)-1] ^= 1
	for name, test := range map[string]struct {
		answer func() []byte
		class  Class
		label  string
	}{
		"unknown topic id":       {fetchSpec{id: fakeID, code: 100, highWatermark: -1}.encode, LookAtMetadata, "UNKNOWN_TOPIC_ID"},
		"not the leader":         {fetchSpec{id: fakeID, code: 6}.encode, Retry, "NOT_LEADER_OR_FOLLOWER"},
		"not authorised":         {fetchSpec{id: fakeID, code: 29}.encode, StopPartition, "TOPIC_AUTHORIZATION_FAILED"},
		"a code of the future":   {fetchSpec{id: fakeID, code: 999}.encode, Retry, "other"},
		"the whole answer's":     {fetchSpec{top: 56}.encode, Retry, "KAFKA_STORAGE_ERROR"},
		"another partition":      {fetchSpec{id: fakeID, partition: 3}.encode, Retry, "network"},
		"another topic":          {fetchSpec{id: [16]byte{9}}.encode, Retry, "network"},
		"a connection cut":       {func() []byte { return nil }, Retry, "network"},
		"an answer cut":          {func() []byte { return fetchSpec{id: fakeID, set: damaged}.encode()[:60] }, Retry, "network"},
		"a damaged record batch": {fetchSpec{id: fakeID, set: damaged}.encode, StopIfPersists, "corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			client, batch, err := fetchFrom(t, 0, test.answer)
			if batch.Records != nil || Classify(err) != test.class {
				t.Errorf("class %d: %v", Classify(err), err)
			}
			if n := testutil.ToFloat64(fetchErrors(client, "events", test.label)); n != 1 {
				t.Errorf("counted %v times as %s", n, test.label)
			}
		})
	}
}

func TestFetchOfAnUnknownTopicLooksAtMetadata(t *testing.T) {
	client, err := startFake(t, &fakeBroker{topics: []string{"events"}}).open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []record.Partition{{Topic: "other"}, {Topic: "events", Number: 7}} {
		if _, err := client.Log(of, fakeID).fetch(t.Context(), 0); Classify(err) != LookAtMetadata {
			t.Error(err)
		}
		if n := testutil.ToFloat64(client.metrics.errors.WithLabelValues(of.Topic, fmt.Sprint(of.Number), "no_leader")); n != 1 {
			t.Errorf("%v: counted %v times", of, n)
		}
	}
}

// TestFetchGivesWhatComesBeforeADamagedBatch checks that records before a damaged batch are not lost. The error comes with the
// next fetch.
func TestFetchGivesWhatComesBeforeADamagedBatch(t *testing.T) {
	damaged := plainBatch(3, 3)
	damaged[len(damaged)-1] ^= 1
	set := slices.Concat(plainBatch(0, 3), damaged)
	client, batch, err := fetchFrom(t, 0, fetchSpec{id: fakeID, set: set}.encode)
	if err != nil || len(batch.Records) != 3 || batch.Next != 3 {
		t.Fatal(batch, err)
	}
	if _, err := fetch(t.Context(), client, "events", fakeID, 3); !errors.Is(err, recordbatch.ErrCorrupt) {
		t.Error(err)
	}
}

// TestSkippedBatchHasNoTimestamp checks the timestamp of a batch that cannot be read and that KAFKA_SKIP_CORRUPT names.
func TestSkippedBatchHasNoTimestamp(t *testing.T) {
	damaged := plainBatch(5, 3)
	damaged[len(damaged)-1] ^= 1
	fake := startFake(t, &fakeBroker{topics: []string{"events"}, fetch: fetchSpec{id: fakeID, highWatermark: 8, lastStable: 8, set: damaged}.encode})
	of := record.Partition{Topic: "events"}
	client, err := fake.open(t, func(o *Options) { o.Decoding.SkipCorrupt = []record.Place{{Partition: of, Offset: 5}} })
	if err != nil {
		t.Fatal(err)
	}
	if timestamp, err := client.Log(of, fakeID).Timestamp(t.Context(), 5); timestamp != 0 || err != nil {
		t.Errorf("%d, %v", timestamp, err)
	}
}

func TestFetchGivesUpOnASilentBroker(t *testing.T) {
	hold := make(chan struct{})
	fake := startFake(t, &fakeBroker{topics: []string{"events"}, fetch: func() []byte { <-hold; return nil }})
	defer close(hold)
	client, err := fake.open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := fetch(ctx, client, "events", fakeID, 0); Classify(err) != Retry {
		t.Error(err)
	}
}

// TestFetchThatIsCancelledIsNotCounted checks that a shutdown is no error of Kafka.
func TestFetchThatIsCancelledIsNotCounted(t *testing.T) {
	client, err := startFake(t, &fakeBroker{topics: []string{"events"}}).open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fetch(ctx, client, "events", fakeID, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, label := range []string{"network", "timeout", "other"} {
		if n := testutil.ToFloat64(fetchErrors(client, "events", label)); n != 0 {
			t.Errorf("counted %v times as %s", n, label)
		}
	}
}

func TestReleasedBatchesAreUsedAgain(t *testing.T) {
	set := plainBatch(0, 50)
	client, batch, err := fetchFrom(t, 0, fetchSpec{id: fakeID, set: set}.encode)
	if err != nil {
		t.Fatal(err)
	}
	if size := batch.Bytes; size < int64(len(set)) {
		t.Errorf("a batch of %d bytes says it holds %d", len(set), size)
	}
	for range 20 {
		batch.Release()
		if batch, err = fetch(t.Context(), client, "events", fakeID, 0); err != nil || len(batch.Records) != 50 {
			t.Fatal(batch, err)
		}
		if !bytes.Equal(batch.Records[49].Value, []byte("9")) {
			t.Fatalf("the last record is %q", batch.Records[49].Value)
		}
	}
}
