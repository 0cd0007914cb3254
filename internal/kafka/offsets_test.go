package kafka

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// producersBody returns an answer to DescribeProducers v0 about one partition with three producers.
func producersBody() []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, 0) // tags of the header, throttle time
	b = wire.AppendCompactString(wire.AppendCompactLen(b, 1), "events")
	b = binary.BigEndian.AppendUint32(wire.AppendCompactLen(b, 1), 3)
	b = append(b, 0, 0, 0) // code, no message
	b = wire.AppendCompactLen(b, 3)
	for producer, first := range map[int64]int64{4000: 1234, 4001: -1, 4002: 1300} {
		b = binary.BigEndian.AppendUint64(b, uint64(producer))
		b = append(b, 0, 0, 0, 1, 0, 0, 0, 9)   // epoch, sequence number
		b = binary.BigEndian.AppendUint64(b, 1) // time of the last record
		b = append(b, 0, 0, 0, 2)               // epoch of the coordinator
		b = binary.BigEndian.AppendUint64(b, uint64(first))
		b = append(b, 0) // tags
	}
	return append(b, 0, 0, 0)
}

// cutShort checks that no prefix of an answer is accepted.
func cutShort[A any](t *testing.T, r *wire.Request[A], body []byte) {
	t.Helper()
	for n := range body {
		if _, err := r.Parse(body[:n]); err == nil {
			t.Errorf("%s: %d of %d bytes are an answer too", wire.Name(r.API), n, len(body))
		}
	}
}

func TestProducersWithOpenTransactions(t *testing.T) {
	request := producersRequest(partition("events", 3))
	got, err := request.Parse(producersBody())
	byProducer := map[int64]int64{}
	for _, open := range got.open {
		byProducer[open.Producer] = open.First
	}
	if diff := cmp.Diff(map[int64]int64{4000: 1234, 4002: 1300}, byProducer); err != nil || got.code != 0 || diff != "" {
		t.Errorf("code %d, %v (-want +got):\n%s", got.code, err, diff)
	}
	cutShort(t, &request.Request, producersBody())
}

func TestTransactionsAreListedByProducer(t *testing.T) {
	b := binary.BigEndian.AppendUint32([]byte{0}, 0) // tags of the header, throttle time
	b = append(b, 0, 0)                              // code
	b = wire.AppendCompactLen(b, 0)
	b = wire.AppendCompactString(wire.AppendCompactLen(b, 1), "job-7")
	b = binary.BigEndian.AppendUint64(b, 4000)
	b = append(wire.AppendCompactString(b, "Ongoing"), 0, 0)
	request := listRequest(4000, nil)
	got, err := request.Parse(b)
	if diff := cmp.Diff(map[int64]string{4000: "job-7"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	cutShort(t, &request.Request, b)
}

func TestTransactionIsDescribed(t *testing.T) {
	b := binary.BigEndian.AppendUint32([]byte{0}, 0) // tags of the header, throttle time
	b = append(wire.AppendCompactLen(b, 1), 0, 0)    // code
	b = wire.AppendCompactString(wire.AppendCompactString(b, "job-7"), "Ongoing")
	b = binary.BigEndian.AppendUint32(b, 60_000)
	b = binary.BigEndian.AppendUint64(b, 1_700_000_000_000)
	b = binary.BigEndian.AppendUint64(b, 4000)
	b = append(b, 0, 1) // epoch
	b = wire.AppendCompactString(wire.AppendCompactLen(b, 1), "events")
	b = binary.BigEndian.AppendUint32(wire.AppendCompactLen(b, 1), 3)
	b = append(b, 0, 0, 0)
	request := describeRequest("job-7")
	if got, err := request.Parse(b); err != nil || got != (describedTransaction{began: 1_700_000_000_000}) {
		t.Errorf("%+v, %v", got, err)
	}
	cutShort(t, &request.Request, b)
}

// TestBrokerThatKnowsNoProducersSaysSo also checks that nothing is sent for which the broker would close the connection.
func TestBrokerThatKnowsNoProducersSaysSo(t *testing.T) {
	fake := startFake(t, &fakeBroker{topics: []string{"events"}})
	client, err := fake.open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	open, err := client.OpenTransaction(t.Context(), record.Partition{Topic: "events"})
	if open != nil || err == nil || Classify(err) != StopProgram {
		t.Errorf("%+v, %v", open, err)
	}
	if id := client.transactionalID(t.Context(), 1); id != "" {
		t.Errorf("a transactional id %q", id)
	}
}
