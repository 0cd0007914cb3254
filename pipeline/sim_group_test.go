package pipeline_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// These are answers of the coordinator.
const (
	codeNone        = 0
	codeIllegal     = 22 // ILLEGAL_GENERATION
	codeUnknown     = 25 // UNKNOWN_MEMBER_ID
	codeRebalancing = 27
	codeFenced      = 82
)

// coordinator is Kafka's side of a consumer group.
type coordinator struct {
	w          *world
	name       string
	members    map[string]*membership
	generation int32
	preparing  bool // a rebalance is in progress
	round      int
	owners     map[int32]string
	fenced     map[string]bool
	commits    map[int32][]committed
	moves      int // number of further generations that give each partition to another member
}

// membership is the coordinator's state of a member.
type membership struct {
	instance           string // instance id of a static member. Empty means a dynamic member.
	session, rebalance time.Duration
	joined             func(any) // answers the member's JoinGroup. Nil means that the member has not joined again.
	last               time.Duration
	leaving            bool // the member gets no partitions if others are there
}

// committed is one committed offset. It can be read from the time visible on.
type committed struct {
	visible  time.Duration
	offset   int64 // -1 means deleted.
	metadata string
	consumed bool // committed by another program's consumer
	by       string
	sent     time.Duration
}

// ofAnotherProgram reports whether another program has read up to this offset. The records that it read need not be stored.
func (c committed) ofAnotherProgram() bool {
	return claim.Committed{Offset: c.offset, Metadata: c.metadata, Consumed: c.consumed}.OfAnotherProgram()
}

// joined is the answer to JoinGroup.
type joined struct {
	code       int
	generation int32
}

func newCoordinator(w *world, name string) *coordinator {
	return &coordinator{
		w: w, name: name, members: map[string]*membership{}, owners: map[int32]string{}, fenced: map[string]bool{},
		commits: map[int32][]committed{},
	}
}

// touch records a sign of life. Without a later one the session ends after its timeout.
func (k *coordinator) touch(id string) {
	m := k.members[id]
	m.last = k.w.now
	k.w.at(k.w.now+m.session, func() {
		if k.members[id] == m && m.joined == nil && k.w.now >= m.last+m.session {
			k.remove(id)
		}
	})
}

func (k *coordinator) remove(id string) {
	k.w.logf("coordinator: %s is gone", id)
	delete(k.members, id)
	k.rebalance()
	k.complete(false)
}

// rebalance starts a rebalance. It waits for every member for at most the longest rebalance timeout.
func (k *coordinator) rebalance() {
	if k.preparing {
		return
	}
	k.preparing = true
	k.round++
	round, wait := k.round, time.Duration(0)
	for _, m := range k.members {
		wait = max(wait, m.rebalance)
	}
	k.w.at(k.w.now+wait, func() {
		if k.preparing && k.round == round {
			k.complete(true)
		}
	})
}

// complete begins the next generation when all members have joined, or at once if force is set.
func (k *coordinator) complete(force bool) {
	if !k.preparing {
		return
	}
	ids := slices.Sorted(maps.Keys(k.members))
	for _, id := range ids {
		if k.members[id].joined == nil && !force {
			return
		}
	}
	for _, id := range ids {
		if k.members[id].joined == nil {
			k.w.note("(met) member too slow for a rebalance")
			delete(k.members, id)
		}
	}
	k.preparing = false
	k.generation++
	k.assign()
	for _, id := range ids {
		if m := k.members[id]; m != nil {
			m.joined(joined{codeNone, k.generation})
			m.joined = nil
			k.touch(id)
		}
	}
}

// assign keeps a partition at its owner, or moves it.
func (k *coordinator) assign() {
	ids := slices.Sorted(maps.Keys(k.members))
	if stay := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return k.members[id].leaving }); len(stay) > 0 {
		ids = stay
	}
	owners := map[int32]string{}
	for p := range k.w.kafka.partitions {
		if len(ids) == 0 {
			break
		}
		owner := k.owners[p]
		others := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == owner })
		switch {
		case k.moves > 0 && len(others) > 0:
			owner = others[k.w.rnd.IntN(len(others))]
		case k.members[owner] == nil || !slices.Contains(ids, owner) || k.w.chance(0.5):
			owner = ids[k.w.rnd.IntN(len(ids))]
		}
		owners[p] = owner
		k.w.logf("coordinator: generation %d, partition %d for %s", k.generation, p, owners[p])
	}
	k.owners, k.moves = owners, max(0, k.moves-1)
}

// join is JoinGroup. It is answered when the rebalance is complete.
func (k *coordinator) join(id string, p *process, reply func(any)) {
	if k.fenced[id] {
		reply(joined{code: codeFenced})
		return
	}
	instance := ""
	if p.static {
		instance = p.slotName()
	}
	for _, old := range slices.Sorted(maps.Keys(k.members)) {
		if m := k.members[old]; instance != "" && m.instance == instance && old != id {
			k.replace(old, id, p, reply)
			return
		}
	}
	if k.members[id] == nil {
		k.members[id] = &membership{instance: instance}
	}
	m := k.members[id]
	m.session, m.rebalance, m.joined, m.leaving = p.S, p.R, reply, p.announced > 0
	k.rebalance()
	k.complete(false)
}

// replace puts a new incarnation of a static member in the place of the old one.
func (k *coordinator) replace(old, id string, p *process, reply func(any)) {
	k.w.note("(met) static member replaced")
	k.fenced[old] = true
	m := k.members[old]
	delete(k.members, old)
	k.members[id] = &membership{instance: m.instance, session: p.S, rebalance: p.R}
	for partition, owner := range k.owners {
		if owner == old {
			k.owners[partition] = id
		}
	}
	if k.preparing {
		k.members[id].joined = reply
		k.complete(false)
		return
	}
	k.touch(id)
	reply(joined{codeNone, k.generation})
}

// waitsForDead reports whether a member of the group is dead and its session has not timed out.
func (k *coordinator) waitsForDead() bool {
	for _, p := range k.w.all {
		for id := range k.members {
			if p.dead && strings.HasPrefix(id, p.name+"/") {
				return true
			}
		}
	}
	return false
}

// check is a heartbeat. Every other request is checked in the same way first.
func (k *coordinator) check(id string, generation int32, preparing int) int {
	switch {
	case k.fenced[id]:
		return codeFenced
	case k.members[id] == nil:
		return codeUnknown
	case generation != k.generation:
		return codeIllegal
	}
	k.touch(id)
	if k.preparing {
		return preparing
	}
	return codeNone
}

// owned is SyncGroup. It returns the partitions of a member.
func (k *coordinator) owned(id string, generation int32) (int, []int32) {
	if code := k.check(id, generation, codeRebalancing); code != codeNone {
		return code, nil
	}
	var partitions []int32
	for _, p := range slices.Sorted(maps.Keys(k.owners)) {
		if k.owners[p] == id {
			partitions = append(partitions, p)
		}
	}
	return codeNone, partitions
}

// commit is OffsetCommit, sent at the time sent. It has one answer code for all partitions.
func (k *coordinator) commit(id string, generation int32, sent time.Duration, commits []record.Commit) int {
	code := k.check(id, generation, codeNone)
	if code != codeNone {
		return code
	}
	for _, c := range commits {
		if k == k.w.group { // commits of a group whose partitions were taken over do not matter
			k.w.checks.committing(k.w, id, sent, c)
		}
		k.store(c.Number, c.Offset, c.Metadata)
		stored := &k.commits[c.Number][len(k.commits[c.Number])-1]
		stored.by, stored.sent = id, sent
		k.w.logf("coordinator: %s commits %d of partition %d", id, c.Offset, c.Number)
	}
	return codeNone
}

func (k *coordinator) store(partition int32, offset int64, metadata string) {
	visible := k.w.now
	if k.w.traits.commitLag && k.w.chaos {
		visible += k.w.between(0, 2)
	}
	if all := k.commits[partition]; len(all) > 0 {
		visible = max(visible, all[len(all)-1].visible)
	}
	k.commits[partition] = append(k.commits[partition], committed{visible: visible, offset: offset, metadata: metadata})
}

// read is OffsetFetch.
func (k *coordinator) read(partition int32) committed {
	all := k.commits[partition]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].visible <= k.w.now {
			return all[i]
		}
	}
	return committed{offset: -1}
}

// overtaken reports whether the last commit was executed after a commit that its member sent later. This happens if an answer was
// lost and the member repeats the commit. The coordinator then has an offset that no earlier reader knows.
func (k *coordinator) overtaken(partition int32) bool {
	last := k.last(partition)
	return slices.ContainsFunc(k.commits[partition], func(c committed) bool { return c.by == last.by && c.sent > last.sent })
}

// last returns the last commit, even if it is not visible yet.
func (k *coordinator) last(partition int32) committed {
	if all := k.commits[partition]; len(all) > 0 {
		return all[len(all)-1]
	}
	return committed{offset: -1}
}

// leave is LeaveGroup.
func (k *coordinator) leave(id string) int {
	if k.members[id] != nil {
		k.remove(id)
	}
	return codeNone
}
