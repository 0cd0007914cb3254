package group

import (
	"cmp"
	"maps"
	"slices"

	"waterwheel/internal/record"
)

// stickyProtocol is the name members of a group must share. `kafka-consumer-groups.sh --describe --state` shows it.
const stickyProtocol = "waterwheel-sticky"

// claimant is a member with what it claims.
type claimant struct {
	id         string
	subscribed []string // topics
	claim      ownership
}

// sticky assigns a group's partitions: every partition of every subscribed topic to exactly one member, each member's number
// within one of every other's (over all topics together, among members with the same topics), and with as few partitions moved
// as that allows. Unless all members can hand over what they go on with while the group joins (cooperative), those that do so
// keep what they have, and the next generation is to make numbers equal. Where two members claim the same partition, the claim of the newer generation wins. The result is by member
// and topic, sorted. It depends on nothing but the arguments, and not on their order.
func sticky(members []claimant, partitions []record.Partition, cooperative bool) map[string]map[string][]int32 {
	a := newAssignment(members)
	for _, s := range a {
		s.keeps = s.claim.holding && !cooperative
	}
	owners := a.claims()
	var free []record.Partition
	for _, p := range slices.Compact(slices.SortedFunc(slices.Values(partitions), record.Partition.Compare)) {
		if o := owners[p]; o != nil && o.reads[p.Topic] {
			o.add(p)
		} else {
			free = append(free, p)
		}
	}
	for _, p := range free {
		if m := a.leastLoaded(p.Topic); m != nil {
			m.add(p)
		}
	}
	for a.moveOne() {
	}
	return a.result()
}

// share is what one member gets.
type share struct {
	claimant
	reads  map[string]bool    // the topics that it subscribes to: they may be thousands
	topics map[string][]int32 // sorted partition numbers
	load   int                // over all topics
	keeps  bool               // nothing is taken from it
}

func (s *share) add(p record.Partition) {
	list := s.topics[p.Topic]
	i, _ := slices.BinarySearch(list, p.Number)
	s.topics[p.Topic] = slices.Insert(list, i, p.Number)
	s.load++
}

// dropLast takes the highest partition of a topic away.
func (s *share) dropLast(topic string) record.Partition {
	list := s.topics[topic]
	last := list[len(list)-1]
	s.topics[topic] = list[:len(list)-1]
	s.load--
	return record.Partition{Topic: topic, Number: last}
}

// assignment is an assignment in the making: the members' shares, sorted by their ids.
type assignment []*share

func newAssignment(members []claimant) (a assignment) {
	for _, m := range members {
		reads := make(map[string]bool, len(m.subscribed))
		for _, topic := range m.subscribed {
			reads[topic] = true
		}
		a = append(a, &share{claimant: m, reads: reads, topics: map[string][]int32{}})
	}
	slices.SortFunc(a, func(x, y *share) int { return cmp.Compare(x.id, y.id) })
	return a
}

// claims gives each claimed partition to the member whose claim is of the newest generation; among equals, which no
// coordinator makes, to the one with the smallest id.
func (a assignment) claims() map[record.Partition]*share {
	owners := map[record.Partition]*share{}
	for _, m := range a {
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
func (a assignment) leastLoaded(topic string) *share {
	var least *share
	for _, m := range a {
		if !m.reads[topic] {
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
// any move made loads more equal. Each move is needed: as long as loads differ by two, a member holds too many.
func (a assignment) moveOne() bool {
	byLoad := slices.SortedStableFunc(slices.Values(a), func(x, y *share) int { return cmp.Compare(x.load, y.load) })
	for from := len(byLoad) - 1; from > 0; from-- {
		if byLoad[from].keeps {
			continue
		}
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
		if len(held) == 0 || !to.reads[topic] {
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

func (a assignment) result() map[string]map[string][]int32 {
	result := map[string]map[string][]int32{}
	for _, m := range a {
		maps.DeleteFunc(m.topics, func(_ string, list []int32) bool { return len(list) == 0 })
		result[m.id] = m.topics
	}
	return result
}
