package kafka

import (
	"errors"
	"slices"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"waterwheel/internal/record"
)

// scanned scans events/0 of a fake. It returns the offsets of the records, and the offset at which the log went on.
func scanned(t *testing.T, fake *fakeBroker, from, to int64, each func(*record.Record) error) (got []int64, first int64, err error) {
	t.Helper()
	fake.topics = []string{"events"}
	client, err := startFake(t, fake).open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	scanner := &Scanner{client, map[string][16]byte{}}
	first, err = scanner.Scan(t.Context(), partition("events", 0), from, to, func(r *record.Record) error {
		got = append(got, r.Offset)
		if each != nil {
			return each(r)
		}
		return nil
	})
	return got, first, err
}

// inTurn returns answers to consecutive fetches. The last one repeats.
func inTurn(specs ...fetchSpec) func() []byte {
	return func() []byte {
		spec := specs[0]
		if len(specs) > 1 {
			specs = specs[1:]
		}
		return spec.encode()
	}
}

func TestScanGivesOutWhatWasAskedFor(t *testing.T) {
	one := fetchSpec{id: fakeID, highWatermark: 10, lastStable: 10, set: plainBatch(0, 4)}
	two := fetchSpec{id: fakeID, highWatermark: 10, lastStable: 10, set: plainBatch(4, 6)}
	nothing := fetchSpec{id: fakeID, highWatermark: 10, lastStable: 10}
	got, first, err := scanned(t, &fakeBroker{fetch: inTurn(one, nothing, nothing, two)}, 2, 8, nil)
	if !slices.Equal(got, []int64{2, 3, 4, 5, 6, 7}) || first != 2 || err != nil {
		t.Errorf("offsets %v from %d: %v", got, first, err)
	}
	enough := errors.New("too much")
	for want, end := range map[error]error{nil: ErrStop, enough: enough} {
		got, _, err := scanned(t, &fakeBroker{fetch: inTurn(one)}, 0, 8, func(*record.Record) error { return end })
		if len(got) != 1 || !errors.Is(err, want) {
			t.Errorf("ended by %v: offsets %v, %v", end, got, err)
		}
	}
}

// TestScanGoesOnBehindWhatWasDeleted covers retention that deletes records before they are read. A log that ends before its
// former end is another log.
func TestScanGoesOnBehindWhatWasDeleted(t *testing.T) {
	gone := fetchSpec{id: fakeID, code: int16(kafkago.OffsetOutOfRange), highWatermark: -1, lastStable: -1}
	one := fetchSpec{id: fakeID, highWatermark: 40, lastStable: 40, set: plainBatch(0, 4)}
	behind := fetchSpec{id: fakeID, highWatermark: 40, lastStable: 40, set: plainBatch(30, 10)}
	bounds := func(first, end int64) func(int64) listoffsets.ResponsePartition {
		return func(at int64) listoffsets.ResponsePartition {
			return listoffsets.ResponsePartition{Offset: map[int64]int64{kafkago.FirstOffset: first, kafkago.LastOffset: end}[at]}
		}
	}
	got, first, err := scanned(t, &fakeBroker{fetch: inTurn(one, gone, behind), listOffsets: bounds(30, 40)}, 0, 32, nil)
	if !slices.Equal(got, []int64{0, 1, 2, 3, 30, 31}) || first != 30 || err != nil {
		t.Errorf("offsets %v, on at %d: %v", got, first, err)
	}
	_, _, err = scanned(t, &fakeBroker{fetch: inTurn(one, gone), listOffsets: bounds(0, 2)}, 0, 32, nil)
	if err == nil || !strings.Contains(err.Error(), "events/0 now ends at 2, before offset 4") {
		t.Errorf("a log made anew: %v", err)
	}
}

func TestScanOfALogThatWasTruncatedEnds(t *testing.T) {
	nothing := fetchSpec{id: fakeID, highWatermark: 4, lastStable: 4}
	_, _, err := scanned(t, &fakeBroker{fetch: nothing.encode}, 4, 9, nil)
	if err == nil || !strings.Contains(err.Error(), "events/0 returns no records at offset 4, although its end offset was 9 before") {
		t.Errorf("error %v", err)
	}
}
