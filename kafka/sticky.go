package kafka

import (
	"cmp"
	"slices"

	kafkago "github.com/segmentio/kafka-go"
)

// stickyProtocol is the name members of a group must share. `kafka-consumer-groups.sh --describe --state` shows it.
const stickyProtocol = "waterwheel-sticky"

// sticky is the assignment of a group's partitions: every partition of every subscribed topic to exactly one member, each
// member's number within one of every other's (over all topics together, among members with the same topics), and with as
// few partitions moved as that allows. Where two members claim the same partition, the claim of the newer generation wins.
type sticky struct {
	owned ownership
}

var _ kafkago.GroupBalancer = sticky{}

// ProtocolName is the name of the assignment protocol.
func (s sticky) ProtocolName() string { return stickyProtocol }

// UserData is what this member owned last, see encodeOwnership.
func (s sticky) UserData() ([]byte, error) { return encodeOwnership(s.owned), nil }

// AssignGroups gives the partitions to the members. It depends on nothing but its arguments, and not on their order.
func (s sticky) AssignGroups(members []kafkago.GroupMember, partitions []kafkago.Partition) kafkago.GroupMemberAssignments {
	a := newAssignment(members)
	sorted := make([]topicPartition, 0, len(partitions))
	for _, p := range partitions {
		sorted = append(sorted, topicPartition{p.Topic, int32(p.ID)})
	}
	slices.SortFunc(sorted, comparePartitions)

	owners := a.claims()
	var free []topicPartition
	for _, p := range slices.Compact(sorted) {
		if o := owners[p]; o != nil && o.subscribed[p.topic] {
			o.add(p)
		} else {
			free = append(free, p)
		}
	}
	for _, p := range free {
		if m := a.leastLoaded(p.topic); m != nil {
			m.add(p)
		}
	}
	for a.moveOne() {
	}
	return a.result()
}

// share is what one member gets.
type share struct {
	id         string
	subscribed map[string]bool
	claim      ownership
	topics     map[string][]int // sorted partition numbers
	load       int              // over all topics
}

func (s *share) add(p topicPartition) {
	list := s.topics[p.topic]
	i, _ := slices.BinarySearch(list, int(p.partition))
	s.topics[p.topic] = slices.Insert(list, i, int(p.partition))
	s.load++
}

// dropLast takes the highest partition of a topic away.
func (s *share) dropLast(topic string) topicPartition {
	list := s.topics[topic]
	last := list[len(list)-1]
	s.topics[topic] = list[:len(list)-1]
	s.load--
	return topicPartition{topic, int32(last)}
}

// assignment is an assignment in the making; the members are sorted by id.
type assignment struct {
	members []*share
}

func newAssignment(members []kafkago.GroupMember) *assignment {
	a := &assignment{}
	for _, m := range members {
		s := &share{id: m.ID, subscribed: map[string]bool{}, topics: map[string][]int{}}
		for _, topic := range m.Topics {
			s.subscribed[topic] = true
		}
		// A claim that cannot be read is no claim: it costs stickiness only.
		s.claim, _ = decodeOwnership(m.UserData)
		a.members = append(a.members, s)
	}
	slices.SortFunc(a.members, func(x, y *share) int { return cmp.Compare(x.id, y.id) })
	return a
}

// claims gives each claimed partition to the member whose claim is of the newest generation; among equals, which no
// coordinator makes, to the one with the smallest id.
func (a *assignment) claims() map[topicPartition]*share {
	owners := map[topicPartition]*share{}
	for _, m := range a.members {
		for _, p := range m.claim.partitions {
			if o := owners[p]; o == nil || m.claim.generation > o.claim.generation {
				owners[p] = m
			}
		}
	}
	return owners
}

// leastLoaded is the subscriber of topic with the fewest partitions; among these, the fewest of the topic itself, so that
// a topic's load spreads; nil when nobody subscribes to it.
func (a *assignment) leastLoaded(topic string) *share {
	var least *share
	for _, m := range a.members {
		if !m.subscribed[topic] {
			continue
		}
		if least == nil || m.load < least.load ||
			m.load == least.load && len(m.topics[topic]) < len(least.topics[topic]) {
			least = m
		}
	}
	return least
}

// moveOne moves one partition from the most loaded member to the least loaded one that may have it, and reports whether
// any move made loads more equal. Each move is needed: as long as loads differ by two, somebody holds too many.
func (a *assignment) moveOne() bool {
	byLoad := slices.Clone(a.members)
	slices.SortStableFunc(byLoad, func(x, y *share) int { return cmp.Compare(x.load, y.load) })
	for from := len(byLoad) - 1; from > 0; from-- {
		for to := 0; to < from && byLoad[from].load-byLoad[to].load >= 2; to++ {
			if topic, ok := movable(byLoad[from], byLoad[to]); ok {
				byLoad[to].add(byLoad[from].dropLast(topic))
				return true
			}
		}
	}
	return false
}

// movable chooses the topic of which a partition goes from one member to the other: the one most unequally held; among
// these, the first by name.
func movable(from, to *share) (string, bool) {
	best, found := "", false
	for topic, held := range from.topics {
		if len(held) == 0 || !to.subscribed[topic] {
			continue
		}
		excess := len(held) - len(to.topics[topic])
		bestExcess := len(from.topics[best]) - len(to.topics[best])
		if !found || excess > bestExcess || excess == bestExcess && topic < best {
			best, found = topic, true
		}
	}
	return best, found
}

func (a *assignment) result() kafkago.GroupMemberAssignments {
	result := kafkago.GroupMemberAssignments{}
	for _, m := range a.members {
		topics := map[string][]int{}
		for topic, list := range m.topics {
			if len(list) > 0 {
				topics[topic] = list
			}
		}
		result[m.id] = topics
	}
	return result
}
