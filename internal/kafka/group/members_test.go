package group

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
