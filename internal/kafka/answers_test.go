package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// answersBytes is the size that the fetches of these tests request.
const answersBytes = 33_000

// largeAnswer returns an answer of 3,000 records, which takes about the requested size.
func largeAnswer(base int64) []byte {
	return fetchSpec{id: fakeID, highWatermark: base + 3000, lastStable: base + 3000, set: plainBatch(base, 3000)}.encode()
}

// largeLog answers each fetch with the records from its offset on.
func largeLog(t *testing.T) *Client {
	t.Helper()
	processors := runtime.GOMAXPROCS(1) // each processor keeps a part of a pool to itself
	t.Cleanup(func() { runtime.GOMAXPROCS(processors) })
	fake := &fakeBroker{topics: []string{"events"}}
	fake.answer = func(api protocol.ApiKey, frame []byte) []byte {
		if api != protocol.Fetch {
			return nil
		}
		return largeAnswer(askedOffset(frame))
	}
	client, err := startFake(t, fake).open(t, func(o *Options) { o.FetchBytes = answersBytes })
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// askedOffset returns the offset of a fetch. After it come 8 bytes of the epoch, the log's start, the size and the empty rest.
func askedOffset(frame []byte) int64 {
	const behind = 8 + 4 + 8 + 4 + 2 + 1 + 1 + 1
	return int64(binary.BigEndian.Uint64(frame[len(frame)-behind:]))
}

// large reads the whole next answer of a log as one batch.
func large(t *testing.T, log *Log, offset int64) record.Batch {
	t.Helper()
	if err := log.await(t.Context(), offset, answersBytes); err != nil {
		t.Fatal(err)
	}
	batch, err := log.take(offset, recordbatch.Piece{Bytes: 1 << 20, Records: 1 << 20})
	if err != nil || len(batch.Records) != 3000 || batch.Records[0].Offset != offset {
		t.Fatal(len(batch.Records), err)
	}
	return batch
}

// TestAnswersAreReadIntoTheSameMemory covers all partitions, and batches that are not released.
func TestAnswersAreReadIntoTheSameMemory(t *testing.T) {
	client := largeLog(t)
	log, other := client.Log(partition("events", 0), fakeID), client.Log(partition("events", 0), fakeID)
	reused := 0
	for range 50 { // the pool may lose some
		first := large(t, log, 0)
		at := &first.Records[0].Value[0]
		first.Release()
		log.drop()
		second := large(t, other, 7)
		if &second.Records[0].Value[0] == at {
			reused++
		}
		if held, want := other.left(), int64(answersBytes+answerRest); held != want {
			t.Fatalf("the log says it holds %d bytes of %d", held, want)
		}
		second.Release()
		other.drop()
	}
	if reused == 0 {
		t.Error("no answer was read into memory that was used before")
	}
}

// TestABatchThatIsNotReleasedIsNotOverwritten checks this while its log and other partitions fetch further records.
func TestABatchThatIsNotReleasedIsNotOverwritten(t *testing.T) {
	client := largeLog(t)
	log, other := client.Log(partition("events", 0), fakeID), client.Log(partition("events", 0), fakeID)
	kept := large(t, log, 0)
	want := make([][]byte, 0, len(kept.Records))
	for _, r := range kept.Records {
		want = append(want, bytes.Clone(r.Value))
	}
	for offset := int64(3001); offset < 20*3001; offset += 3001 { // values move on by one
		for _, l := range []*Log{log, other} {
			batch := large(t, l, offset)
			batch.Release()
		}
		for i, r := range kept.Records {
			if !bytes.Equal(r.Value, want[i]) || !bytes.Equal(r.Key, []byte("key")) {
				t.Fatalf("record %d is %q now, was %q", i, r.Value, want[i])
			}
		}
	}
	kept.Release()
	other.drop()
}

// TestMemoryOfAFetchThatFailedIsNotLentAgain checks this because bytes may still be read into it.
func TestMemoryOfAFetchThatFailedIsNotLentAgain(t *testing.T) {
	hold := make(chan struct{})
	answer := largeAnswer(0)
	code := fetchSpec{id: fakeID, code: 6, set: plainBatch(0, 3000)}.encode()
	for name, test := range map[string]struct {
		answer []byte
		hold   chan struct{}
	}{
		"an error":          {answer: code},
		"not the partition": {answer: fetchSpec{id: [16]byte{9}, set: plainBatch(0, 3000)}.encode()},
		"nobody waits":      {answer: answer, hold: hold},
	} {
		t.Run(name, func(t *testing.T) {
			fake := startFake(t, &fakeBroker{topics: []string{"events"}, fetch: func() []byte {
				if test.hold != nil {
					<-test.hold
				}
				return test.answer
			}})
			client, err := fake.open(t, func(o *Options) { o.FetchBytes = answersBytes })
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if test.hold != nil {
				time.AfterFunc(20*time.Millisecond, cancel)
				defer close(test.hold)
			}
			log := client.Log(partition("events", 0), fakeID)
			if err := log.await(ctx, 0, answersBytes); err == nil {
				t.Fatal("it did not fail")
			}
			log.drop()
			if lent := client.answers.pool.Get(); lent != nil {
				t.Error("its memory would be lent again")
			}
		})
	}
}

// TestLentMemoryIsBounded checks that a small answer, an answer to a smaller fetch, and a very large one get their own memory.
func TestLentMemoryIsBounded(t *testing.T) {
	for _, test := range []struct {
		fetchBytes, answer, want int
	}{
		{2 << 20, 2<<20 + 100, 2<<20 + answerRest},
		{2 << 20, 1 << 20, 0},
		{2 << 20, 2<<20 + answerRest + 1, 0},
		{4 << 20, 4 << 20, 4<<20 + answerRest},
		{4<<20 + 1, 4 << 20, 0},
	} {
		if got := cap(newAnswerMemory(test.fetchBytes).lend(test.answer)); got != test.want {
			t.Errorf("fetches of %d bytes: an answer of %d bytes is lent %d, want %d", test.fetchBytes, test.answer, got, test.want)
		}
	}
	log := largeLog(t).Log(partition("events", 0), fakeID)
	if err := log.await(t.Context(), 0, answersBytes-1); err != nil {
		t.Fatal(err)
	}
	if own := int64(answersBytes + answerRest); log.left() == own {
		t.Errorf("%d bytes are held where less was granted", own)
	}
}
