package kafka

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// offsetFetchBody returns an answer to OffsetFetch v7 about two partitions.
func offsetFetchBody() []byte {
	b := []byte{0}                                // tags of the header
	b = binary.BigEndian.AppendUint32(b, 0)       // throttle time
	b = append(wire.AppendCompactLen(b, 1), 7)    // one topic; its name has 6 bytes
	b = append(b, "events"...)                    //
	b = wire.AppendCompactLen(b, 2)               // two partitions
	b = binary.BigEndian.AppendUint32(b, 0)       //
	b = binary.BigEndian.AppendUint64(b, 42)      // committed
	b = binary.BigEndian.AppendUint32(b, 3)       // leader epoch
	b = wire.AppendCompactString(b, "ww1")        // metadata
	b = append(b, 0, 0, 0)                        // code, tags
	b = binary.BigEndian.AppendUint32(b, 1)       //
	b = binary.BigEndian.AppendUint64(b, 1<<64-1) // committed: none
	b = binary.BigEndian.AppendUint32(b, 1<<32-1)
	b = append(b, 0)           // metadata: null
	b = append(b, 0, 29, 0, 0) // code, tags, tags of the topic
	b = append(b, 0, 16, 0)    // code of the group, tags
	return b
}

func TestOffsetFetchAnswer(t *testing.T) {
	b := offsetFetchBody()
	got, err := offsetFetchRequest("g", nil).Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	want := offsetFetchAnswer{code: 16, committed: []Committed{
		{Place: record.Place{Partition: partition("events", 0), Offset: 42}, Metadata: "ww1", Epoch: 3},
		{Place: record.Place{Partition: partition("events", 1), Offset: -1}, Epoch: -1, Err: CodeError(protocol.OffsetFetch, partition("events", 1), 29)},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(offsetFetchAnswer{})); diff != "" {
		t.Error(diff)
	}
	for n := range b {
		if _, err := offsetFetchRequest("g", nil).Parse(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are an answer too", n, len(b))
		}
	}
}

// consumerGroup returns an answer to ConsumerGroupDescribe v0 with one member that has two partitions.
func consumerGroup() []byte {
	b := []byte{0}                               // tags
	b = binary.BigEndian.AppendUint32(b, 0)      // throttle
	b = wire.AppendCompactLen(b, 1)              // groups
	b = append(b, 0, 0, 0)                       // code, no message
	b = wire.AppendCompactString(b, "g")         //
	b = wire.AppendCompactString(b, "Stable")    //
	b = append(b, 0, 0, 0, 3, 0, 0, 0, 3)        // epochs
	b = wire.AppendCompactString(b, "uniform")   //
	b = wire.AppendCompactLen(b, 1)              // members
	b = wire.AppendCompactString(b, "X")         //
	b = append(b, 0, 0, 0, 0, 0, 3)              // no instance, no rack, epoch
	b = wire.AppendCompactString(b, "their-own") //
	b = wire.AppendCompactString(b, "/10.0.0.7") //
	b = wire.AppendCompactString(wire.AppendCompactLen(b, 1), "events")
	b = append(b, 0) // no expression
	for range 2 {
		b = append(wire.AppendCompactLen(b, 1), fakeID[:]...)
		b = wire.AppendCompactString(b, "events")
		b = append(wire.AppendCompactLen(b, 2), 0, 0, 0, 0, 0, 0, 0, 1)
		b = append(b, 0, 0) // tags
	}
	b = append(b, 0) // tags of the member
	return append(b, 0x80, 0, 0, 0, 0, 0)
}

func TestGroupThatABrokerAssignsIsDescribed(t *testing.T) {
	b := consumerGroup()
	got, err := newConsumerGroupRequest("g").Parse(b)
	if err != nil || got.code != 0 || len(got.members) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if want := (Member{ID: "X", ClientID: "their-own", Host: "/10.0.0.7"}); !cmp.Equal(got.members[0], want) {
		t.Errorf("%+v, want %+v", got.members[0], want)
	}
	for n := range len(b) - 6 { // the rest is not read
		if _, err := newConsumerGroupRequest("g").Parse(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are an answer too", n, len(b))
		}
	}
}
