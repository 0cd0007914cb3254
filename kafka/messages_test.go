package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/consumer"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
	"github.com/segmentio/kafka-go/protocol/leavegroup"
)

// exchanged sends one of our messages to a broker that reads with kafka-go's protocol package and answers with the given
// bytes (kafka-go has the fields of these answers in the wrong order), and returns what the broker understood and what
// came of the answer.
func exchanged(t *testing.T, message protocol.RawExchanger, answer []byte) (understood, got protocol.Message) {
	t.Helper()
	client, broker := net.Pipe()
	defer client.Close()
	served := make(chan error, 1)
	go func() {
		defer broker.Close()
		_, correlation, clientID, request, err := protocol.ReadRequest(broker)
		if err == nil && clientID != "me" {
			t.Errorf("the client's id arrives as %q", clientID)
		}
		understood = request
		head := binary.BigEndian.AppendUint32(nil, uint32(4+len(answer)))
		head = binary.BigEndian.AppendUint32(head, uint32(correlation))
		_, writeErr := broker.Write(append(head, answer...))
		served <- errors.Join(err, writeErr)
	}()
	got, err := message.RawExchange(client)
	if err != nil {
		t.Fatalf("exchanging: %v", err)
	}
	if err := <-served; err != nil {
		t.Fatalf("the broker: %v", err)
	}
	return understood, got
}

func TestHeartbeatSpeaksTheProtocol(t *testing.T) {
	for _, instance := range []string{"", "one"} {
		message := &heartbeatRequest{memberRequest{clientID: "me", group: "g", generation: 7, member: "m", instance: instance}}
		understood, got := exchanged(t, message, []byte{0, 0, 0, 5, 0, 27})
		want := &heartbeat.Request{GroupID: "g", GenerationID: 7, MemberID: "m", GroupInstanceID: instance}
		if *understood.(*heartbeat.Request) != *want {
			t.Errorf("the broker reads %+v, want %+v", understood, want)
		}
		if code := got.(*codeAnswer).code; code != 27 {
			t.Errorf("the code is read as %d", code)
		}
		if message.Group() != "g" {
			t.Error("not routed to the group's coordinator")
		}
	}
}

func TestLeaveGroupSpeaksTheProtocol(t *testing.T) {
	for _, test := range []struct{ top, member, want byte }{{0, 0, 0}, {0, 25, 25}, {16, 0, 16}} {
		message := &leaveGroupRequest{memberRequest{clientID: "me", group: "g", member: "m"}}
		answer := []byte{0, 0, 0, 5, 0, test.top, 0, 0, 0, 1, 0, 1, 'm', 0xff, 0xff, 0, test.member}
		understood, got := exchanged(t, message, answer)
		request := understood.(*leavegroup.Request)
		if len(request.Members) != 1 || request.Members[0].MemberID != "m" {
			t.Errorf("the broker reads %+v", request)
		}
		if code := got.(*codeAnswer).code; code != int16(test.want) {
			t.Errorf("codes %d and %d are read as %d", test.top, test.member, code)
		}
	}
}

func TestOffsetFetchAnswer(t *testing.T) {
	b := []byte{0}                                // tags of the header
	b = binary.BigEndian.AppendUint32(b, 0)       // throttle time
	b = append(appendCompactLen(b, 1), 7)         // one topic; its name has 6 bytes
	b = append(b, "events"...)                    //
	b = appendCompactLen(b, 2)                    // two partitions
	b = binary.BigEndian.AppendUint32(b, 0)       //
	b = binary.BigEndian.AppendUint64(b, 42)      // committed
	b = binary.BigEndian.AppendUint32(b, 3)       // leader epoch
	b = appendCompactString(b, "ww1")             // metadata
	b = append(b, 0, 0, 0)                        // code, tags
	b = binary.BigEndian.AppendUint32(b, 1)       //
	b = binary.BigEndian.AppendUint64(b, 1<<64-1) // committed: none
	b = binary.BigEndian.AppendUint32(b, 1<<32-1)
	b = append(b, 0)           // metadata: null
	b = append(b, 0, 29, 0, 0) // code, tags, tags of the topic
	b = append(b, 0, 16, 0)    // code of the group, tags
	got, err := parseOffsetFetch(b)
	if err != nil {
		t.Fatal(err)
	}
	want := &offsetFetchAnswer{code: 16, partitions: []Assigned{
		{Topic: "events", Partition: 0, Committed: 42, Metadata: "ww1", Epoch: 3},
		{Topic: "events", Partition: 1, Committed: -1, Epoch: -1, Err: answered(protocol.OffsetFetch, "events", 1, 29)},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(offsetFetchAnswer{})); diff != "" {
		t.Error(diff)
	}
	for n := range b {
		if _, err := parseOffsetFetch(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are an answer too", n, len(b))
		}
	}
}

func TestSubscriptionIsKafkas(t *testing.T) {
	got := encodeSubscription([]string{"b", "a"}, []byte("data"))
	want, err := protocol.Marshal(0, consumer.Subscription{Topics: []string{"a", "b"}, UserData: []byte("data")})
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("encoded as %x, kafka-go does as %x (%v)", got, want, err)
	}
	later, err := protocol.Marshal(1, consumer.Subscription{Version: 1, Topics: []string{"a"}, OwnedPartitions: []consumer.TopicPartition{{Topic: "a", Partitions: []int32{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	if topics, userData, err := decodeSubscription(later); err != nil || len(topics) != 1 || topics[0] != "a" || len(userData) != 0 {
		t.Errorf("a later version is read as %v %q %v", topics, userData, err)
	}
}

func TestAssignmentIsKafkas(t *testing.T) {
	got := encodeAssignment(map[string][]int{"b": {2, 0}, "a": {1}}, []byte("data"))
	want, err := protocol.Marshal(0, consumer.Assignment{
		AssignedPartitions: []consumer.TopicPartition{{Topic: "a", Partitions: []int32{1}}, {Topic: "b", Partitions: []int32{2, 0}}}, UserData: []byte("data"),
	})
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("encoded as %x, kafka-go does as %x (%v)", got, want, err)
	}
	partitions, userData, err := decodeAssignment(got)
	if diff := cmp.Diff([]topicPartition{{"a", 1}, {"b", 0}, {"b", 2}}, partitions, cmp.AllowUnexported(topicPartition{})); err != nil || diff != "" || string(userData) != "data" {
		t.Errorf("read as %q %v: %s", userData, err, diff)
	}
	if partitions, _, err := decodeAssignment(nil); err != nil || partitions != nil {
		t.Errorf("no assignment is read as %v, %v", partitions, err)
	}
}

func TestOwnershipIsEncodedTheSameAlways(t *testing.T) {
	a := encodeOwnership(ownership{3, []topicPartition{{"b", 1}, {"a", 200}, {"a", 0}}})
	b := encodeOwnership(ownership{3, []topicPartition{{"a", 0}, {"a", 200}, {"b", 1}}})
	if !bytes.Equal(a, b) {
		t.Errorf("%x and %x are of the same ownership", a, b)
	}
}

func TestCommitResultsAreInTheOrderOfTheCommits(t *testing.T) {
	k := &kafkaCoordinator{transport: transportFunc(func(request kafkago.Request) kafkago.Response {
		return answerCommit(t, request)
	})}
	results, err := k.Commit(t.Context(), membership{1, "m"}, []Commit{{"b", 1, 10, "x"}, {"a", 0, 20, "y"}, {"b", 0, 30, "z"}})
	if err != nil {
		t.Fatal(err)
	}
	var classes []Class
	for _, result := range results {
		classes = append(classes, Classify(result))
	}
	if want := []Class{None, GenerationOver, KeepCommit}; !cmp.Equal(want, classes) {
		t.Errorf("results are of the classes %v, want %v", classes, want)
	}
}

func FuzzMembersData(f *testing.F) {
	f.Add(encodeOwnership(ownership{3, []topicPartition{{"b", 1}, {"a", 200}}}))
	f.Add(encodeShapes(map[string]topicShape{"a": {[16]byte{1}, 3}}))
	f.Add(encodeSubscription([]string{"b", "a"}, []byte("data")))
	f.Add(encodeAssignment(map[string][]int{"a": {1}}, []byte("data")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, err := decodeOwnership(b); err == nil {
			again, err := decodeOwnership(encodeOwnership(o))
			if err != nil || len(again.partitions) != len(o.partitions) {
				t.Errorf("%+v became %+v, %v", o, again, err)
			}
		}
		if shapes, err := decodeShapes(b); err == nil {
			again, err := decodeShapes(encodeShapes(shapes))
			if diff := cmp.Diff(shapes, again, cmp.AllowUnexported(topicShape{})); err != nil || diff != "" {
				t.Errorf("%v: %s", err, diff)
			}
		}
		if topics, userData, err := decodeSubscription(b); err == nil {
			if _, again, err := decodeSubscription(encodeSubscription(topics, userData)); err != nil || !bytes.Equal(again, userData) {
				t.Errorf("%q became %q, %v", userData, again, err)
			}
		}
		if partitions, _, err := decodeAssignment(b); err == nil {
			if size := 4 * len(partitions); size > len(b) {
				t.Errorf("%d bytes hold %d partitions", len(b), len(partitions))
			}
		}
		_, _ = parseOffsetFetch(b)
	})
}
