package group

import (
	"cmp"
	"slices"

	"waterwheel/internal/record"
)

// stickyProtocol is the name of the assignment protocol, which all members share. `kafka-consumer-groups.sh --describe --state`
// shows it.
const stickyProtocol = "waterwheel-sticky"

// claimant is a member with its claim.
type claimant struct {
	id         string
	subscribed []string // topics
	claim      ownership
}

// sticky assigns every partition of every subscribed topic to exactly one member. Among members with the same topics, the total
// numbers of partitions differ by at most one. It moves as few partitions as that allows. Where two members claim the same
// partition, the claim of the newer generation wins. The result is sorted, by member and topic. It depends only on the arguments,
// and not on their order.
func sticky(members []claimant, partitions []record.Partition) map[string]map[string][]int32 {
	partitions = slices.Compact(slices.SortedFunc(slices.Values(partitions), record.Partition.Compare))
	a := newAssignment(members, partitions)
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

// share is the partitions of one member. Topics are numbered in the order of their names, because they may be thousands and each
// move of a partition looks at all of them.
type share struct {
	claimant
	reads []bool    // by topic: whether the member subscribes to it
	held  [][]int32 // by topic: sorted partition numbers
	load  int       // over all topics
}

func (s *share) add(topic int, partition int32) {
	i, _ := slices.BinarySearch(s.held[topic], partition)
	s.held[topic] = slices.Insert(s.held[topic], i, partition)
	s.load++
}

// dropLast removes the highest partition of a topic.
func (s *share) dropLast(topic int) (partition int32) {
	list := s.held[topic]
	last := len(list) - 1
	s.held[topic] = list[:last]
	s.load--
	return list[last]
}

// assignment is an assignment under construction.
type assignment struct {
	topics []string       // sorted
	number map[string]int // index of each topic in topics
	shares []*share       // of all members, sorted by their ids
	byLoad []*share       // the same, sorted by their loads before the last move
}

// newAssignment returns an assignment in which no partition has an owner. partitions are sorted.
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

// claims gives each claimed partition to the member whose claim has the newest generation. Among equal claims, which no
// coordinator causes, the smallest id wins.
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

// leastLoaded returns the subscriber of a topic with the fewest partitions. Among equals it is the one with the fewest partitions
// of that topic, so that a topic's load spreads. It is nil when no member subscribes to the topic.
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

// moveOne moves one partition from the most loaded member to the least loaded one that may have it. It reports whether such a
// move was possible. It moves only between loads that differ by at least two, so every move is necessary.
func (a *assignment) moveOne() bool {
	slices.SortFunc(a.byLoad, func(x, y *share) int { return cmp.Or(cmp.Compare(x.load, y.load), cmp.Compare(x.id, y.id)) })
	byLoad := a.byLoad
	for from := len(byLoad) - 1; from > 0; from-- {
		for to := 0; to < from && byLoad[from].load-byLoad[to].load >= 2; to++ {
			if topic, ok := movable(byLoad[from], byLoad[to]); ok {
				byLoad[to].add(topic, byLoad[from].dropLast(topic))
				return true
			}
		}
	}
	return false
}

// movable chooses the topic of the partition that moves: the topic that the two members hold most unequally, or the first of
// these by name.
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
