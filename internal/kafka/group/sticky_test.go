package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/record"
)

// world is a group that the balancer assigns repeatedly.
type world struct {
	random     *rand.Rand
	topics     map[string]int // the numbers of partitions
	members    map[string]ownership
	generation int32
	ids        int
}

func (w *world) join() {
	w.ids++
	w.members[fmt.Sprintf("m%03d", w.random.IntN(900)*1000+w.ids)] = ownership{generation: noGeneration}
}

func (w *world) leave() {
	for id := range w.members {
		if len(w.members) > 1 {
			delete(w.members, id)
		}
		return
	}
}

func (w *world) arguments() ([]claimant, []record.Partition) {
	var members []claimant
	for id, owned := range w.members {
		members = append(members, claimant{id, slices.Collect(maps.Keys(w.topics)), owned})
	}
	var partitions []record.Partition
	for topic, n := range w.topics {
		for p := range n {
			partitions = append(partitions, record.Partition{Topic: topic, Number: int32(p)})
		}
	}
	w.random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	w.random.Shuffle(len(partitions), func(i, j int) { partitions[i], partitions[j] = partitions[j], partitions[i] })
	return members, partitions
}

// rebalance assigns the partitions, checks the result, and makes the members own their partitions.
func (w *world) rebalance(t *testing.T) (moved int) {
	t.Helper()
	members, partitions := w.arguments()
	result := sticky(members, partitions)
	again, morePartitions := w.arguments()
	if diff := cmp.Diff(result, sticky(again, morePartitions)); diff != "" {
		t.Fatalf("another order of arguments gives another assignment:\n%s", diff)
	}

	owners := map[record.Partition]string{}
	least, most := len(partitions), 0
	for id := range w.members {
		load := 0
		for topic, list := range result[id] {
			for _, p := range list {
				if other, ok := owners[record.Partition{Topic: topic, Number: p}]; ok {
					t.Fatalf("%s/%d has the owners %s and %s", topic, p, other, id)
				}
				owners[record.Partition{Topic: topic, Number: p}] = id
				load++
			}
		}
		least, most = min(least, load), max(most, load)
	}
	if len(owners) != len(partitions) || len(result) != len(w.members) {
		t.Fatalf("%d of %d partitions are assigned, to %d of %d members", len(owners), len(partitions), len(result), len(w.members))
	}
	if most-least > 1 {
		t.Fatalf("members hold between %d and %d partitions", least, most)
	}
	moved, needed := w.moves(owners)
	if moved != needed {
		t.Fatalf("%d partitions moved, %d would do", moved, needed)
	}
	w.generation++
	for id := range w.members {
		w.members[id] = ownership{generation: w.generation, partitions: ownedBy(owners, id)}
	}
	return moved
}

// moves counts the partitions with a new owner, and those that cannot stay: partitions without an owner, and those above a fair
// share when the members that hold most are the ones that may hold one more.
func (w *world) moves(owners map[record.Partition]string) (moved, needed int) {
	was := map[record.Partition]string{}
	for id, owned := range w.members {
		for _, p := range owned.partitions {
			if int(p.Number) < w.topics[p.Topic] {
				was[p] = id
			}
		}
	}
	held := map[string]int{}
	for p, id := range owners {
		if was[p] != id {
			moved++
		}
		if was[p] == "" {
			needed++
		} else {
			held[was[p]]++
		}
	}
	share, larger := len(owners)/len(w.members), len(owners)%len(w.members)
	loads := slices.Sorted(maps.Values(held))
	slices.Reverse(loads)
	for i, load := range loads {
		fair := share
		if i < larger {
			fair++
		}
		needed += max(0, load-fair)
	}
	return moved, needed
}

func ownedBy(owners map[record.Partition]string, id string) []record.Partition {
	var owned []record.Partition
	for p, owner := range owners {
		if owner == id {
			owned = append(owned, p)
		}
	}
	return owned
}

func TestStickyIsFairTotalAndMovesTheLeast(t *testing.T) {
	for seed := range uint64(200) {
		w := &world{
			random: rand.New(rand.NewPCG(seed, 1)), members: map[string]ownership{},
			topics: map[string]int{"a": 1 + int(seed%30), "b": int(seed % 7), "c": int(seed / 10)},
		}
		w.join()
		for range 12 {
			switch w.random.IntN(5) {
			case 0, 1:
				w.join()
			case 2:
				w.leave()
			case 3:
				w.topics["b"] += w.random.IntN(4)
			case 4:
				w.topics[fmt.Sprintf("t%d", w.random.IntN(3))] += 1
			}
			w.rebalance(t)
			if moved := w.rebalance(t); moved != 0 {
				t.Fatalf("seed %d: %d partitions moved although nothing had changed", seed, moved)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

func TestStickyTakesTheNewestClaim(t *testing.T) {
	partitions := []record.Partition{{Topic: "t", Number: 0}, {Topic: "t", Number: 1}}
	member := func(id string, generation int32, owned ...int32) claimant {
		o := ownership{generation: generation}
		for _, p := range owned {
			o.partitions = append(o.partitions, record.Partition{Topic: "t", Number: p})
		}
		return claimant{id, []string{"t"}, o}
	}
	// Member a missed generation 8, in which b got both partitions and then lost one of them to nobody.
	got := sticky([]claimant{member("a", 7, 0, 1), member("b", 8, 0)}, partitions)
	want := map[string]map[string][]int32{"a": {"t": {1}}, "b": {"t": {0}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStickyGivesOnlyWhatIsSubscribed(t *testing.T) {
	var partitions []record.Partition
	for p := range int32(4) {
		partitions = append(partitions, record.Partition{Topic: "old", Number: p}, record.Partition{Topic: "new", Number: p}, record.Partition{Topic: "nobody's", Number: p})
	}
	claims := ownership{generation: 1, partitions: []record.Partition{{Topic: "new", Number: 0}, {Topic: "old", Number: 0}}}
	got := sticky([]claimant{
		{"a", []string{"old"}, claims},
		{"b", []string{"old", "new"}, ownership{generation: noGeneration}},
	}, partitions)
	want := map[string]map[string][]int32{"a": {"old": {0, 1, 2, 3}}, "b": {"new": {0, 1, 2, 3}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStickySpreadsEachTopic(t *testing.T) {
	var partitions []record.Partition
	for p := range int32(2) {
		partitions = append(partitions, record.Partition{Topic: "busy", Number: p}, record.Partition{Topic: "calm", Number: p})
	}
	var members []claimant
	for id, topic := range map[string]string{"a": "busy", "b": "calm"} {
		members = append(members, claimant{id, []string{"busy", "calm"}, ownership{generation: 1, partitions: []record.Partition{{Topic: topic}}}})
	}
	want := map[string]map[string][]int32{"a": {"busy": {0}, "calm": {1}}, "b": {"busy": {1}, "calm": {0}}}
	if diff := cmp.Diff(want, sticky(members, partitions)); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkStickyAfterAMemberLeft(b *testing.B) {
	w := &world{random: rand.New(rand.NewPCG(1, 1)), members: map[string]ownership{}, topics: map[string]int{"a": 1000, "b": 1000}}
	for range 50 {
		w.join()
	}
	members, partitions := w.arguments()
	var rejoining []claimant
	for id, topics := range sticky(members, partitions) {
		o := ownership{generation: 1}
		for topic, list := range topics {
			for _, p := range list {
				o.partitions = append(o.partitions, record.Partition{Topic: topic, Number: p})
			}
		}
		rejoining = append(rejoining, claimant{id, []string{"a", "b"}, o})
	}
	b.ReportAllocs()
	for b.Loop() {
		sticky(rejoining[1:], partitions)
	}
}

// BenchmarkStickyOfManyPartitions assigns 10,000 partitions to 100 members: to all of them for the first time, to the first
// member and 99 new ones, and after a tenth of the members left.
func BenchmarkStickyOfManyPartitions(b *testing.B) {
	for _, topics := range []int{1, 1000} {
		w := &world{random: rand.New(rand.NewPCG(1, 1)), members: map[string]ownership{}, topics: map[string]int{}}
		var subscribed []string
		for i := range topics {
			name := fmt.Sprint("topic-", i)
			w.topics[name] = 10_000 / topics
			subscribed = append(subscribed, name)
		}
		for range 100 {
			w.join()
		}
		members, partitions := w.arguments()
		for i := range members {
			members[i].subscribed = subscribed
		}
		claiming := func(members []claimant) (after []claimant) {
			for id, topics := range sticky(members, partitions) {
				o := ownership{generation: 1}
				for topic, list := range topics {
					for _, p := range list {
						o.partitions = append(o.partitions, record.Partition{Topic: topic, Number: p})
					}
				}
				after = append(after, claimant{id, subscribed, o})
			}
			return after
		}
		for name, given := range map[string][]claimant{
			"first": members, "joined": append(claiming(members[:1]), members[1:]...), "left": claiming(members)[10:],
		} {
			b.Run(fmt.Sprintf("topics=%d/%s", topics, name), func(b *testing.B) {
				for b.Loop() {
					sticky(given, partitions)
				}
			})
		}
	}
}
