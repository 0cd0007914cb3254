package group

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// TestMembersAreDescribed covers members that join, members of other programs, and data that nothing can read.
func TestMembersAreDescribed(t *testing.T) {
	assignment := encodeAssignment(map[string][]int32{"b": {0}, "a": {2, 1}}, nil)
	partitions := []record.Partition{{Topic: "a", Number: 1}, {Topic: "a", Number: 2}, {Topic: "b"}}
	subscription := func(o ownership) []byte { return encodeSubscription([]string{"a"}, encodeOwnership(o)) }
	for name, c := range map[string]struct {
		of   kafka.Member
		want Described
	}{
		"with a page": {
			kafka.Member{Subscription: subscription(ownership{generation: 4, partitions: partitions, page: 9464}), Assignment: assignment},
			Described{Ours: true, Partitions: partitions, Page: 9464},
		},
		"without a page":  {kafka.Member{Subscription: subscription(ownership{}), Assignment: assignment}, Described{Ours: true, Partitions: partitions}},
		"joining":         {kafka.Member{ClientID: wire.ClientID}, Described{Ours: true}},
		"another program": {kafka.Member{Subscription: encodeSubscription([]string{"a"}, nil), Assignment: assignment}, Described{Partitions: partitions}},
		"unreadable":      {kafka.Member{Subscription: []byte{1, 2, 3}, Assignment: []byte{9}}, Described{}},
	} {
		if diff := cmp.Diff(c.want, Describe(c.of), cmpopts.IgnoreFields(Described{}, "Member")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestRealMembersAreDescribed checks on a real Kafka that each member is seen with its partitions, its name and its page.
func TestRealMembersAreDescribed(t *testing.T) {
	topic := realGroupTopic(t, realBrokers(t), 3)
	static, dynamic := realOptions(topic, topic), realOptions(topic, topic)
	static.InstanceID, static.Page, dynamic.Page = "pod-1", 9464, 9465
	startMember(t, static)
	second := startMember(t, dynamic)
	client := realClient(t, realBrokers(t), topic)
	var seen map[uint16]Described
	var err error
	for range 100 {
		var list []kafka.Member
		if list, err = client.Members(t.Context(), topic); err != nil { // a group may have no coordinator at first
			time.Sleep(200 * time.Millisecond)
			continue
		}
		seen = map[uint16]Described{}
		all := 0
		for _, m := range list {
			d := Describe(m)
			seen[d.Page] = d
			all += len(d.Partitions)
		}
		if len(seen) == 2 && all == 3 {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	first, other := seen[9464], seen[9465]
	if first.Instance != "pod-1" || !first.Ours || !other.Ours || len(first.Partitions)+len(other.Partitions) != 3 || len(other.Partitions) == 0 ||
		other.ID != second.group.Status().MemberID || other.Host == "" {
		t.Errorf("described as %+v, %v", seen, err)
	}
}

var stranger = kafka.Member{ID: "X", ClientID: "console-consumer", Host: "/10.0.0.7"}

// ours returns an assignment as a leader of this program makes it, for topics with four partitions each.
func ours(topics map[string][]int32) []byte {
	shapes := map[string]topicShape{}
	for _, topic := range []string{"events", "removed"} {
		shapes[topic] = topicShape{id: [16]byte{1}, partitions: 4}
	}
	return encodeAssignment(topics, encodeShapes(shapes))
}

func TestAssignmentOfAnotherProgramIsRefused(t *testing.T) {
	all := map[string][]int32{"events": {0, 1, 2, 3}}
	for name, assignment := range map[string][]byte{
		"made by the broker":               encodeAssignment(all, nil),
		"nothing, made by the broker":      {0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
		"with the mark of another program": encodeAssignment(all, []byte{0, 0, 0, 1, 7}),
		"no bytes at all":                  {},
		"garbage":                          []byte("garbage that is no assignment"),
		"a partition below 0":              ours(map[string][]int32{"events": {0, -1}}),
		"a partition beyond the topic":     ours(map[string][]int32{"events": {0, 4}}),
		"a topic that the leader left out": ours(map[string][]int32{"elsewhere": {0}}),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(t *testing.T, s *scene) {
				s.assignedBy(assignment, stranger)
				s.start(30 * time.Second)
				s.told(t, "assigned 1")
				if n := len(s.generation().Partitions); n != 0 {
					t.Errorf("%d partitions were taken", n)
				}
				refused := s.group.Status().Refused
				if refused == nil {
					t.Fatal("the assignment is not refused")
				}
				for _, want := range []string{`"g"`, "console-consumer", "10.0.0.7", "KAFKA_GROUP_ID"} {
					if !strings.Contains(refused.Error(), want) {
						t.Errorf("%q does not name %s", refused, want)
					}
				}
				s.counts(t, s.group.metrics.refused, 1)

				if _, err := s.Commit(t.Context(), membership{}, []record.Commit{commit("events", 2, 7, "")}); err != nil {
					t.Fatal(err)
				}
				s.assignedBy(nil) // the other leader left, so this member leads again
				s.answerOnce(requestHeartbeat, kafkago.RebalanceInProgress)
				s.pass(5 * time.Second)
				s.told(t, "assigned 1", "revoked 1", "assigned 2")
				if refused := s.group.Status().Refused; refused != nil || len(s.generation().Partitions) != 4 {
					t.Errorf("of its own group it takes %d partitions: %v", len(s.generation().Partitions), refused)
				}
				if p := s.generation().Partitions[2]; !p.Beside {
					t.Errorf("what the other one committed is not known as that: %+v", p)
				}
				s.answerOnce(requestHeartbeat, kafkago.UnknownMemberId) // the group may have been empty since then
				s.pass(5 * time.Second)
				if p := s.generation().Partitions[2]; p.Beside {
					t.Errorf("in another membership: %+v", p)
				}
			})
		})
	}
}

func TestRefusalNamesWhoComesLater(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.assignedBy(encodeAssignment(nil, nil))
		s.answerOnce("members", errors.New("not now"))
		s.start(time.Second)
		if err := s.group.Status().Refused; err == nil || !strings.Contains(err.Error(), "its name is not known") {
			t.Errorf("%v", err)
		}
		s.assignedBy(encodeAssignment(nil, nil), stranger)
		s.pass(watchInterval)
		if err := s.group.Status().Refused; err == nil || !strings.Contains(err.Error(), "console-consumer") {
			t.Errorf("%v", err)
		}
	})
}

func TestClassicMemberOfAnotherProgramIsNamed(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.assignedBy(nil, stranger)
		s.answer(requestJoin, kafka.CodeError(11, none, int16(kafkago.InconsistentGroupProtocol)))
		s.start(0)
		<-s.done
		if s.err == nil || !strings.Contains(s.err.Error(), "console-consumer") || !strings.Contains(s.err.Error(), "10.0.0.7") {
			t.Errorf("the member ends with %v", s.err)
		}
	})
}

func TestMemberOfAnotherProgramGetsNothing(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		claim := encodeOwnership(ownership{generation: noGeneration})
		assignments, err := s.group.assign(t.Context(), []groupMember{
			{"ours", encodeSubscription([]string{"events"}, claim)},
			{"theirs", encodeSubscription([]string{"events"}, nil)},
			{"garbage", []byte{1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for member, want := range map[string]int{"ours": 4, "theirs": 0, "garbage": 0} {
			if owned, _, err := readAssignment(assignments[member]); err != nil || len(owned) != want {
				t.Errorf("%s gets %v (%v), want %d partitions", member, owned, err, want)
			}
		}
		s.start(0)
	})
}

func TestPartitionsOfOtherTopicsAreIgnored(t *testing.T) {
	play(t, func(o *Options) { o.InstanceID = "one" }, func(t *testing.T, s *scene) {
		s.assignedBy(ours(map[string][]int32{"events": {0, 1}, "removed": {0, 1, 2}}))
		s.start(time.Second)
		s.told(t, "assigned 1")
		if got := partitionsOf(s.generation()); len(got) != 2 || got[0].Topic != "events" || got[1].Topic != "events" {
			t.Errorf("assigned %v", got)
		}
		s.counts(t, s.group.metrics.ignored.WithLabelValues("removed", "2"), 1)
		s.pass(3 * watchInterval) // the other members are reported once
		s.told(t, "assigned 1", "assigned 2")
		s.counts(t, s.group.metrics.ignored.WithLabelValues("removed", "2"), 2)
		s.counts(t, s.group.metrics.rebalances.WithLabelValues(kindTopics), 1)
	})
}
