package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// askedOf returns the numbers of the partitions in a fetch.
func askedOf(frame []byte) (numbers []int32) {
	r := wire.NewReader(frame[12:])
	r.ShortString() // client
	r.Tags()
	r.Take(4 + 4 + 4 + 4 + 1 + 4 + 4)
	for range r.CompactLen() {
		r.UUID()
		for range r.CompactLen() {
			numbers = append(numbers, r.Int32())
			r.Take(4 + 8 + 4 + 8 + 4)
			r.Tags()
		}
		r.Tags()
	}
	return numbers
}

// restAnswer returns the answer to a fetch of partitions 0 of topics that share an id.
func restAnswer(partitions int, of fetchSpec) []byte {
	one := of.encode()
	const before = 1 + 4 + 2 + 4 + 1 + 16 // tags, time, code, session, topics, id
	partition := one[before+1 : len(one)-2]
	b := append([]byte{}, one[:before]...)
	b = wire.AppendCompactLen(b, partitions)
	for range partitions {
		b = append(b, partition...)
	}
	return append(b, 0, 0)
}

// TestPartitionsAtRestWaitTogether checks that partitions without new records wait in one request. New records come with a fetch
// of their own.
func TestPartitionsAtRestWaitTogether(t *testing.T) {
	const topics, wait = 10, 200 * time.Millisecond
	var requests, together atomic.Int32
	var end atomic.Int64
	end.Store(5)
	fake := &fakeBroker{}
	for i := range topics {
		fake.topics = append(fake.topics, fmt.Sprintf("t%d", i))
	}
	fake.answer = func(api protocol.ApiKey, frame []byte) []byte {
		if api != protocol.Fetch {
			return nil
		}
		requests.Add(1)
		spec := fetchSpec{id: fakeID, highWatermark: end.Load(), lastStable: end.Load()}
		if n := len(askedOf(frame)); n > 1 {
			if together.Add(1); end.Load() == 5 {
				time.Sleep(wait)
			}
			return restAnswer(n, spec)
		}
		if end.Load() > 5 {
			spec.set = plainBatch(5, 2)
		}
		return spec.encode()
	}
	client, err := startFake(t, fake).open(t, func(o *Options) { o.FetchWait = wait })
	if err != nil {
		t.Fatal(err)
	}
	logs := make([]*Log, topics)
	for i := range logs {
		logs[i] = client.Log(record.Partition{Topic: fake.topics[i]}, fakeID)
	}
	round := func() (records int, high []int64) {
		requests.Store(0)
		together.Store(0)
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, l := range logs {
			all.Go(func() {
				l.drop()
				batch, err := l.fetch(t.Context(), 5)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				records += len(batch.Records)
				high = append(high, batch.High)
			})
		}
		all.Wait()
		return records, high
	}
	if round(); requests.Load() != topics {
		t.Errorf("%d requests of %d partitions of which nothing is known", requests.Load(), topics)
	}
	records, high := round()
	if requests.Load() != 1 || together.Load() != 1 || records != 0 {
		t.Errorf("%d requests of partitions at rest, %d of several, with %d records", requests.Load(), together.Load(), records)
	}
	if diff := cmp.Diff([]int64{5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, high); diff != "" {
		t.Error(diff)
	}
	end.Store(7)
	if records, _ := round(); records != 2*topics || requests.Load() != topics+1 {
		t.Errorf("%d requests, %d records, when each has two new ones", requests.Load(), records)
	}
	if records, _ := round(); records != 2*topics || requests.Load() != topics {
		t.Errorf("%d requests, %d records, of partitions that are not at rest", requests.Load(), records)
	}
}

// TestRestFindsOutAlone checks that a separate fetch asks for anything that the common answer lacks about a partition.
func TestRestFindsOutAlone(t *testing.T) {
	for name, answer := range map[string][]byte{
		"a code of the partition": fetchSpec{id: fakeID, code: 6}.encode(),
		"a code of the whole":     fetchSpec{top: 56}.encode(),
		"another partition":       fetchSpec{id: fakeID, partition: 3}.encode(),
		"throttled":               {0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			fake := &fakeBroker{topics: []string{"events"}}
			fake.fetch = func() []byte {
				switch asked.Add(1) {
				case 1:
					return fetchSpec{id: fakeID, highWatermark: 5, lastStable: 5}.encode()
				case 2:
					return answer
				}
				return fetchSpec{id: fakeID, highWatermark: 7, lastStable: 7, set: plainBatch(5, 2)}.encode()
			}
			client, err := startFake(t, fake).open(t, nil)
			if err != nil {
				t.Fatal(err)
			}
			log := client.Log(partition("events", 0), fakeID)
			if batch, err := log.fetch(t.Context(), 5); err != nil || len(batch.Records) != 0 {
				t.Fatal(batch, err)
			}
			if batch, err := log.fetch(t.Context(), 5); err != nil || len(batch.Records) != 2 || asked.Load() != 3 {
				t.Error(batch, err, asked.Load())
			}
		})
	}
}

// TestRestGoesOnWhenOthersHaveRecords covers a common request that ends early. It is repeated until there are records or the time
// is over.
func TestRestGoesOnWhenOthersHaveRecords(t *testing.T) {
	const wait = 200 * time.Millisecond
	var asked, news atomic.Int32
	fake := &fakeBroker{topics: []string{"events"}}
	fake.fetch = func() []byte {
		spec := fetchSpec{id: fakeID, highWatermark: 5, lastStable: 5}
		if n, from := asked.Add(1), news.Load(); from > 0 && n >= from {
			spec = fetchSpec{id: fakeID, highWatermark: 7, lastStable: 7, set: plainBatch(5, 2)}
		}
		return spec.encode()
	}
	client, err := startFake(t, fake).open(t, func(o *Options) { o.FetchWait = wait })
	if err != nil {
		t.Fatal(err)
	}
	log := client.Log(partition("events", 0), fakeID)
	fetch := func() int {
		asked.Store(0)
		log.drop()
		batch, err := log.fetch(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		return len(batch.Records)
	}
	if n := fetch(); n != 0 || asked.Load() != 1 {
		t.Fatal(n, asked.Load())
	}
	began := time.Now()
	n := fetch()
	if took := time.Since(began); n != 0 || took < wait/2 || asked.Load() > int32(took/restGathering) {
		t.Errorf("%d records after %v and %d requests", n, took, asked.Load())
	}
	news.Store(3)
	if n := fetch(); n != 2 || asked.Load() != 4 {
		t.Errorf("%d records after %d requests, of which the third says that there are two", n, asked.Load())
	}
}

// TestRestMeetsAnOutage checks that a common request without an answer is an error of each partition, as for a request of its
// own. A separate retry would only delay the report of the outage.
func TestRestMeetsAnOutage(t *testing.T) {
	for name, answer := range map[string][]byte{"no answer": nil, "an answer cut": fetchSpec{id: fakeID}.encode()[:30]} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			fake := &fakeBroker{topics: []string{"events"}}
			fake.fetch = func() []byte {
				if asked.Add(1) == 2 {
					return answer
				}
				return fetchSpec{id: fakeID, highWatermark: 5, lastStable: 5}.encode()
			}
			client, err := startFake(t, fake).open(t, nil)
			if err != nil {
				t.Fatal(err)
			}
			log := client.Log(partition("events", 0), fakeID)
			if _, err := log.fetch(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			if _, err := log.fetch(t.Context(), 5); Classify(err) != Retry || asked.Load() != 2 {
				t.Error(err, asked.Load())
			}
			if n := testutil.ToFloat64(fetchErrors(client, "events", "network")); n != 1 {
				t.Errorf("counted %v times", n)
			}
			if _, err := log.fetch(t.Context(), 5); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPartitionWithAnErrorIsNotAtRest checks this because each common request with it would end at once for all.
func TestPartitionWithAnErrorIsNotAtRest(t *testing.T) {
	var asked, ill atomic.Int32
	fake := &fakeBroker{topics: []string{"events"}}
	fake.fetch = func() []byte {
		asked.Add(1)
		return fetchSpec{id: fakeID, code: int16(ill.Load()), highWatermark: 5, lastStable: 5}.encode()
	}
	client, err := startFake(t, fake).open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := client.Log(partition("events", 0), fakeID)
	fetch := func() (int32, error) {
		asked.Store(0)
		log.drop()
		_, err := log.fetch(t.Context(), 5)
		return asked.Load(), err
	}
	if n, err := fetch(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	ill.Store(int32(kafkago.NotLeaderForPartition))
	if n, err := fetch(); n != 2 || !errors.Is(err, kafkago.NotLeaderForPartition) {
		t.Error(n, err)
	}
	for range 3 {
		if n, err := fetch(); n != 1 || !errors.Is(err, kafkago.NotLeaderForPartition) {
			t.Error(n, err)
		}
	}
}

// TestClosedClientOpensNoConnection checks this because a partition in a common request may be gone, and so may the client.
func TestClosedClientOpensNoConnection(t *testing.T) {
	fake := &fakeBroker{topics: []string{"events"}, fetch: fetchSpec{id: fakeID, highWatermark: 5, lastStable: 5}.encode}
	client, err := startFake(t, fake).open(t, func(o *Options) { o.FetchWait = time.Second })
	if err != nil {
		t.Fatal(err)
	}
	log := client.Log(partition("events", 0), fakeID)
	if _, err := log.fetch(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), restGathering/4)
	defer cancel()
	log.drop()
	if _, err := log.fetch(ctx, 5); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	client.Close()
	opened := func() int {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		return len(fake.conns)
	}
	before := opened()
	time.Sleep(10 * restGathering)
	if after := opened(); after != before {
		t.Errorf("%d connections were opened after the client was closed", after-before)
	}
}

// TestFetchBody checks that the body names each topic once, with all its partitions.
func TestFetchBody(t *testing.T) {
	var all []*fetchRequest
	for i, id := range []byte{1, 2, 1} {
		all = append(all, &fetchRequest{
			Place: record.Place{Partition: record.Partition{Number: int32(i)}, Offset: int64(10 * i)}, topicID: [16]byte{id}, isolation: ReadCommitted,
		})
	}
	r := wire.NewReader(fetchBody(all, time.Second, 1))
	got := []any{r.Int32(), r.Int32(), r.Int32(), r.Int32(), r.Take(1)[0], r.Int32(), r.Int32()}
	want := []any{int32(-1), int32(1000), int32(1), int32(1), byte(1), int32(0), int32(-1)}
	for range r.CompactLen() {
		got = append(got, r.UUID())
		for range r.CompactLen() {
			got = append(got, r.Int32())
			r.Int32()
			got = append(got, r.Int64())
			r.Int32()
			r.Int64()
			got = append(got, r.Int32())
			r.Tags()
		}
		r.Tags()
	}
	want = append(want, [16]byte{1}, int32(0), int64(0), int32(1), int32(2), int64(20), int32(1), [16]byte{2}, int32(1), int64(10), int32(1))
	got = append(got, r.CompactLen(), r.CompactString())
	r.Tags()
	if diff := cmp.Diff(append(want, 0, ""), got); diff != "" || r.Err() != nil || r.More() {
		t.Error(diff, r.Err())
	}
}
