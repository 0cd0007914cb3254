package group

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

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// exchanged lets the coordinator of a member send one of our requests. A broker reads it with the protocol package of kafka-go
// and answers with the given bytes, because kafka-go has the fields of these answers in the wrong order. It returns the request
// as the broker read it, and the result of the answer.
func exchanged(t *testing.T, options Options, answer []byte, ask func(coordinator) error) (understood protocol.Message, got error) {
	t.Helper()
	client, broker := net.Pipe()
	defer client.Close()
	served := make(chan error, 1)
	go func() {
		defer broker.Close()
		_, correlation, clientID, request, err := protocol.ReadRequest(broker)
		if err == nil && clientID != wire.ClientID {
			t.Errorf("the client's id arrives as %q", clientID)
		}
		understood = request
		head := binary.BigEndian.AppendUint32(nil, uint32(4+len(answer)))
		head = binary.BigEndian.AppendUint32(head, uint32(correlation))
		_, writeErr := broker.Write(append(head, answer...))
		served <- errors.Join(err, writeErr)
	}()
	got = ask(&kafkaCoordinator{options: &options, Asker: transportFunc(func(request kafkago.Request) kafkago.Response {
		if group := request.(protocol.GroupMessage).Group(); group != options.GroupID {
			t.Errorf("routed to the coordinator of %q", group)
		}
		response, err := request.(protocol.RawExchanger).RawExchange(client)
		if err != nil {
			t.Errorf("exchanging: %v", err)
		}
		return response
	})})
	if err := <-served; err != nil {
		t.Fatalf("the broker: %v", err)
	}
	return understood, got
}

func TestHeartbeatSpeaksTheProtocol(t *testing.T) {
	for _, instance := range []string{"", "one"} {
		options := Options{GroupID: "g", InstanceID: instance}
		understood, err := exchanged(t, options, []byte{0, 0, 0, 5, 0, 27}, func(c coordinator) error {
			return c.Heartbeat(t.Context(), membership{7, "m"})
		})
		want := &heartbeat.Request{GroupID: "g", GenerationID: 7, MemberID: "m", GroupInstanceID: instance}
		if *understood.(*heartbeat.Request) != *want {
			t.Errorf("the broker reads %+v, want %+v", understood, want)
		}
		if !errors.Is(err, kafkago.RebalanceInProgress) {
			t.Errorf("the code is read as %v", err)
		}
	}
}

func TestLeaveGroupSpeaksTheProtocol(t *testing.T) {
	for _, test := range []struct {
		top, member byte
		want        error
	}{{0, 0, nil}, {0, 25, kafkago.UnknownMemberId}, {16, 0, kafkago.NotCoordinatorForGroup}} {
		answer := []byte{0, 0, 0, 5, 0, test.top, 0, 0, 0, 1, 0, 1, 'm', 0xff, 0xff, 0, test.member}
		understood, err := exchanged(t, Options{GroupID: "g"}, answer, func(c coordinator) error { return c.Leave(t.Context(), "m") })
		request := understood.(*leavegroup.Request)
		if len(request.Members) != 1 || request.Members[0].MemberID != "m" {
			t.Errorf("the broker reads %+v", request)
		}
		if !errors.Is(err, test.want) {
			t.Errorf("codes %d and %d are read as %v", test.top, test.member, err)
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
	got := encodeAssignment(map[string][]int32{"b": {2, 0}, "a": {1}}, []byte("data"))
	want, err := protocol.Marshal(0, consumer.Assignment{
		AssignedPartitions: []consumer.TopicPartition{{Topic: "a", Partitions: []int32{1}}, {Topic: "b", Partitions: []int32{2, 0}}}, UserData: []byte("data"),
	})
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("encoded as %x, kafka-go does as %x (%v)", got, want, err)
	}
	partitions, userData, err := decodeAssignment(got)
	if diff := cmp.Diff([]record.Partition{{Topic: "a", Number: 1}, {Topic: "b", Number: 0}, {Topic: "b", Number: 2}}, partitions, cmp.AllowUnexported(record.Partition{})); err != nil || diff != "" || string(userData) != "data" {
		t.Errorf("read as %q %v: %s", userData, err, diff)
	}
	if partitions, _, err := decodeAssignment(nil); err != nil || partitions != nil {
		t.Errorf("no assignment is read as %v, %v", partitions, err)
	}
}

func TestOwnershipIsEncodedTheSameAlways(t *testing.T) {
	a := encodeOwnership(ownership{generation: 3, partitions: []record.Partition{{Topic: "b", Number: 1}, {Topic: "a", Number: 200}, {Topic: "a", Number: 0}}})
	b := encodeOwnership(ownership{generation: 3, partitions: []record.Partition{{Topic: "a", Number: 0}, {Topic: "a", Number: 200}, {Topic: "b", Number: 1}}})
	if !bytes.Equal(a, b) {
		t.Errorf("%x and %x are of the same ownership", a, b)
	}
}

func TestCommitResultsAreInTheOrderOfTheCommits(t *testing.T) {
	k := &kafkaCoordinator{Asker: transportFunc(func(request kafkago.Request) kafkago.Response {
		return answerCommit(t, request)
	}), options: &Options{}}
	results, err := k.Commit(t.Context(), membership{1, "m"}, []record.Commit{commit("b", 1, 10, "x"), commit("a", 0, 20, "y"), commit("b", 0, 30, "z")})
	if err != nil {
		t.Fatal(err)
	}
	var classes []kafka.Class
	for _, result := range results {
		classes = append(classes, kafka.Classify(result))
	}
	if want := []kafka.Class{kafka.None, kafka.GenerationOver, kafka.KeepCommit}; !cmp.Equal(want, classes) {
		t.Errorf("results are of the classes %v, want %v", classes, want)
	}
}

func FuzzMembersData(f *testing.F) {
	f.Add(encodeOwnership(ownership{generation: 3, partitions: []record.Partition{{Topic: "b", Number: 1}, {Topic: "a", Number: 200}}}))
	f.Add(encodeShapes(map[string]topicShape{"a": {[16]byte{1}, 3}}))
	f.Add(encodeSubscription([]string{"b", "a"}, []byte("data")))
	f.Add(encodeAssignment(map[string][]int32{"a": {1}}, []byte("data")))
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
	})
}
