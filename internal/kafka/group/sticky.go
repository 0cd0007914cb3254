package group

import (
	"cmp"
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
	partitions = slices.Compact(slices.SortedFunc(slices.Values(partitions), record.Partition.Compare))
	a := newAssignment(members, partitions)
	for _, s := range a.shares {
		s.keeps = s.claim.holding && !cooperative
	}
	owners := a.claims()
	var free []record.Partition
	for _, p := range partitions {
		if o := owners[p]; o != nil && o.reads[a.number[p.Topic]] {
			o.add(a.number[p.Topic], p.Number)
		} else {
			free = append(free, p)
		}
	}
	for _, p := range free {
		topic := a.number[p.Topic]
		if m := a.leastLoaded(topic); m != nil {
			m.add(topic, p.Number)
		}
	}
	for a.moveOne() {
	}
	return a.result()
}

// share is what one member gets. Topics go by their places in the order of their names: they may be thousands, and each move of a
// partition looks at all of them.
type share struct {
	claimant
	reads []bool    // by topic: whether it subscribes to it
	held  [][]int32 // by topic: sorted partition numbers
	load  int       // over all topics
	keeps bool      // nothing is taken from it
}

func (s *share) add(topic int, partition int32) {
	i, _ := slices.BinarySearch(s.held[topic], partition)
	s.held[topic] = slices.Insert(s.held[topic], i, partition)
	s.load++
}

// dropLast takes the highest partition of a topic away.
func (s *share) dropLast(topic int) (partition int32) {
	list := s.held[topic]
	last := len(list) - 1
	s.held[topic] = list[:last]
	s.load--
	return list[last]
}

// assignment is an assignment in the making.
type assignment struct {
	topics []string       // sorted
	number map[string]int // their places
	shares []*share       // of the members, sorted by their ids
	byLoad []*share       // the same, sorted by their loads before the last move
}

// newAssignment is one of sorted partitions that nobody has yet.
func newAssignment(members []claimant, partitions []record.Partition) *assignment {
	a := &assignment{number: map[string]int{}}
	for _, p := range partitions {
		if _, known := a.number[p.Topic]; !known {
			a.number[p.Topic] = len(a.topics)
			a.topics = append(a.topics, p.Topic)
		}
	}
	for _, m := range members {
		s := &share{claimant: m, reads: make([]bool, len(a.topics)), held: make([][]int32, len(a.topics))}
		for _, topic := range m.subscribed {
			if i, known := a.number[topic]; known {
				s.reads[i] = true
			}
		}
		a.shares = append(a.shares, s)
	}
	slices.SortFunc(a.shares, func(x, y *share) int { return cmp.Compare(x.id, y.id) })
	a.byLoad = slices.Clone(a.shares)
	return a
}

// claims gives each claimed partition to the member whose claim is of the newest generation; among equals, which no
// coordinator makes, to the one with the smallest id.
func (a *assignment) claims() map[record.Partition]*share {
	owners := map[record.Partition]*share{}
	for _, m := range a.shares {
		for _, p := range m.claim.partitions {
			if o := owners[p]; o == nil || m.claim.generation > o.claim.generation {
				owners[p] = m
			}
		}
	}
	return owners
}

// leastLoaded is the subscriber of a topic with the fewest partitions; among these, the fewest of the topic itself, so that
// a topic's load spreads; nil when nobody subscribes to it.
func (a *assignment) leastLoaded(topic int) *share {
	var least *share
	for _, m := range a.shares {
		if !m.reads[topic] {
			continue
		}
		if least == nil || m.load < least.load || m.load == least.load && len(m.held[topic]) < len(least.held[topic]) {
			least = m
		}
	}
	return least
}

// moveOne moves one partition from the most loaded member to the least loaded one that may have it, and reports whether
// any move made loads more equal. Each move is needed: as long as loads differ by two, a member holds too many.
func (a *assignment) moveOne() bool {
	slices.SortFunc(a.byLoad, func(x, y *share) int { return cmp.Or(cmp.Compare(x.load, y.load), cmp.Compare(x.id, y.id)) })
	byLoad := a.byLoad
	for from := len(byLoad) - 1; from > 0; from-- {
		if byLoad[from].keeps {
			continue
		}
		for to := 0; to < from && byLoad[from].load-byLoad[to].load >= 2; to++ {
			if topic, ok := movable(byLoad[from], byLoad[to]); ok {
				byLoad[to].add(topic, byLoad[from].dropLast(topic))
				return true
			}
		}
	}
	return false
}

// movable chooses the topic of which a partition goes from one member to the other: the one most unequally held; among
// these, the first by name.
func movable(from, to *share) (best int, found bool) {
	most := 0
	for topic, held := range from.held {
		if len(held) == 0 || !to.reads[topic] {
			continue
		}
		if excess := len(held) - len(to.held[topic]); !found || excess > most {
			best, most, found = topic, excess, true
		}
	}
	return best, found
}

func (a *assignment) result() map[string]map[string][]int32 {
	result := map[string]map[string][]int32{}
	for _, m := range a.shares {
		held := map[string][]int32{}
		for topic, list := range m.held {
			if len(list) > 0 {
				held[a.topics[topic]] = list
			}
		}
		result[m.id] = held
	}
	return result
}
