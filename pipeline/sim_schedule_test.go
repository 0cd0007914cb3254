package pipeline_test

import (
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/pipeline"
)

// schedule is a kind of event in a world. The seed of a run decides which of them happen, and when.
type schedule struct {
	name string
	do   func(*world)
}

// schedules are all schedules. Faults without a moment of their own, such as lost answers, late and partial bulks or commit lag,
// are traits.
var schedules = slices.Concat(memberSchedules, serverSchedules, operatorSchedules)

// memberSchedules make owners change. In half of the runs only these happen.
var memberSchedules = []*schedule{
	{"crash", func(w *world) { w.crashAndRestart(w.anyone(), w.between(0.1, 30)) }},
	{"crash in the middle of a call", func(w *world) { w.anyone().crashIn = 1 + w.rnd.IntN(12) }},
	{"process stopped and going on", func(w *world) { p := w.anyone(); p.paused = w.now + w.between(1, 60) }},
	{"clean stop and start", func(w *world) { w.terminate(w.anyone()) }},
	{"second incarnation beside the first", (*world).replaceProcess},
	{"rebalance", func(w *world) { w.anyone().rejoin = true }},
	{"all stop", (*world).stopAll},
	{"Kafka cut off", func(w *world) { p := w.anyone(); p.cut, p.only = w.now+w.between(1, 30), w.chance(0.4) }},
	{"coordinator cut off that still answers heartbeats", func(w *world) {
		p := w.anyone()
		p.cut = w.now + w.between(1, 60)
		p.only = w.chance(0.7)
		p.cutOff(p.cut)
	}},
	{"lease lapse and resume in one generation", func(w *world) {
		p := w.anyone()
		p.deaf = w.now + p.L + w.between(0, 6)
	}},
	{"member evicted", (*world).evict},
	{"member evicted while its claim is on its way", func(w *world) {
		p := w.anyone()
		p.rejoin, p.evictIn = true, pipeline.SendClaim{}
	}},
	staleSights,
	{"release on its way while a rival waits", func(w *world) {
		p := w.anyone()
		p.rejoin, p.evictIn = true, pipeline.SendRelease{}
	}},
	{"another owner in between", (*world).lend},
	{"slow rebalance", func(w *world) {
		w.anyone().rejoin = true
		p := w.anyone()
		w.at(w.now+w.between(0, 2), func() { p.paused = w.now + w.between(p.R.Seconds()/2, p.R.Seconds()*1.2) })
	}},
	{"MongoDB hangs, with a rebalance in the middle", (*world).hang},
}

// leavesBesideDead makes a member leave while the group waits for another member, which has died.
var leavesBesideDead = &schedule{"member that leaves beside a dead one", func(w *world) {
	dead, leaver := w.anyone(), w.anyone()
	w.crashAndRestart(dead, w.between(1, 30))
	w.at(w.now+w.between(0, 3), func() {
		if w.chaos {
			w.terminate(leaver)
		}
	})
}}

// staleSights evicts a member before it reads a claim, so that it sees the claim when its generation is long over.
var staleSights = &schedule{"member evicted before it reads the claim", func(w *world) {
	p := w.anyone()
	p.rejoin, p.evictIn = true, pipeline.ReadClaim{}
}}

// serverSchedules happen to MongoDB and Kafka.
var serverSchedules = []*schedule{
	{"MongoDB hangs", func(w *world) { w.mongo.hanging = w.now + w.between(3, 15) }},
	{"new primary whose majority point lags", func(w *world) {
		if w.traits.sessions && !w.mongo.stalled {
			w.mongo.elect()
			w.mongo.stall()
			w.at(w.now+w.between(1, 10), w.mongo.resume)
		}
	}},
	{"election that rolls back", func(w *world) {
		if w.traits.sessions && !w.mongo.stalled {
			w.mongo.stall()
			w.at(w.now+w.between(1, 10), w.mongo.elect)
		}
	}},
	{"topic deleted and created again", (*world).recreateTopic},
	{"partition added", func(w *world) {
		if w.kafka.partitions < 3 && w.kafka.topic != ([16]byte{}) {
			w.kafka.partitions++
			w.kafka.log(w.kafka.partitions - 1)
			w.at(w.now+w.between(0, 10), w.group.rebalance)
		}
	}},
	{"log truncated", func(w *world) {
		if l := w.anyLog(); l != nil {
			l.truncate(l.first + w.rnd.Int64N(l.end-l.first+1))
			w.logf("partition %d is truncated to %d", l.partition, l.end)
		}
	}},
	{"a server without sessions loses what is not in its journal", func(w *world) {
		if !w.traits.sessions && !w.mongo.stalled {
			w.mongo.stall()
			w.at(w.now+w.between(0.1, 3), w.mongo.elect)
		}
	}},
	{"clocks of producers jump", func(w *world) {
		w.kafka.clock = max(eventEpoch, w.kafka.clock+pick[int64](w, -86400, -7200, 7200, 86400, 30*86400)*1000)
	}},
	{"records expired", func(w *world) {
		if l := w.anyLog(); l != nil {
			l.expire(w, l.first+w.rnd.Int64N(l.end-l.first+1))
			w.logf("partition %d begins at %d", l.partition, l.first)
		}
	}},
}

var repairs = &schedule{"repair beside a live writer", (*world).repair}

// operatorSchedules are actions of operators.
var operatorSchedules = []*schedule{
	{"partition document deleted", (*world).deleteDocument},
	{"bucket closed by an operator", func(w *world) {
		w.editBucket(func(d bson.D) bson.D { return changed(d, []string{"control", "closed"}, "$set", true) })
	}},
	{"meta edited by an operator", func(w *world) {
		w.editBucket(func(d bson.D) bson.D { return changed(d, []string{"meta"}, "$set", pick(w, "A", "B", "C", "D")) })
	}},
	{"time edited by an operator", func(w *world) {
		w.editBucket(func(d bson.D) bson.D {
			return changed(d, []string{"control", "min", "time"}, "$set", bson.DateTime(eventEpoch+int64(w.rnd.IntN(7200))*1000))
		})
	}},
	{"bucket deleted by an operator", (*world).deleteBucket},
	{"options of the collection changed and set back", func(w *world) {
		w.mongo.definition.MetaField = "another"
		w.at(w.now+w.between(1, 10), func() { w.mongo.definition = simCollection })
	}},
	repairs,
	{"offsets reset, forward or back", func(w *world) { w.stopAll(); w.whenEmpty(12, w.reset) }},
	{"group offsets expired", func(w *world) { w.stopAll(); w.whenEmpty(12, w.expireOffsets) }},
	{"another program was a member", func(w *world) { w.stopAll(); w.whenEmpty(12, w.strangerCommits) }},
	{"takeover by another group", func(w *world) { w.stopAll(); w.whenEmpty(12, w.takeOver) }},
}

// acting starts random schedules, again and again.
func (w *world) acting() {
	if !w.chaos || w.over {
		return
	}
	s := pick(w, w.kinds...)
	w.note(s.name)
	w.logf("--- %s", s.name)
	s.do(w)
	w.at(w.now+w.between(1, w.traits.pace), w.acting)
}

func (w *world) anyone() *process {
	return w.slots[sortedKeys(w.slots)[w.rnd.IntN(len(w.slots))]]
}

func (w *world) anyLog() *partitionLog {
	if w.kafka.topic == ([16]byte{}) {
		return nil
	}
	return w.kafka.log(w.rnd.Int32N(w.kafka.partitions))
}

func (w *world) crashAndRestart(p *process, after time.Duration) {
	p.crash()
	w.restart(p, after)
}

// restart starts the next process of a slot, if p is still its last one.
func (w *world) restart(p *process, after time.Duration) {
	w.at(w.now+after, func() {
		if w.slots[p.slot] == p && w.chaos && !w.maintained {
			w.start(p.slot)
		}
	})
}

func (w *world) terminate(p *process) {
	p.term = true
	w.restart(p, 2*p.W+w.between(1, 15))
}

// replaceProcess starts a second process of a slot while the first one is stopped or cut off.
func (w *world) replaceProcess() {
	p := w.anyone()
	if w.chance(0.5) {
		p.paused = w.now + w.between(2, 30)
	} else {
		p.cut = w.now + 30*time.Second
	}
	w.restart(p, w.between(1, 6))
}

// evict removes a member with the admin tool while the member is cut off.
func (w *world) evict() {
	p := w.anyone()
	p.cut = w.now + w.between(5, 30)
	if p.only = w.chance(0.5); w.chance(0.5) {
		p.cutOff(p.cut)
	}
	w.remove(p)
}

// cutOff partitions this process's coordinator until a moment. A coordinator that still knows the member either continues to take
// its commits or stops answering.
func (p *process) cutOff(until time.Duration) {
	if g := p.present; p.zombie <= p.w.now && g != nil {
		m := p.group.members[g.member]
		p.w.drawAside(func() { p.deposed = p.w.chance(0.5) && m != nil && g.id == p.group.generation })
	}
	p.zombie = until
}

// readLate stops a process before it reads a claim, until another one has taken over its partitions. When the process can join
// again, the other one is lost in turn, perhaps with writes in flight.
func (w *world) readLate(p *process) {
	p.paused = w.now + w.between(5, 25)
	p.cut, p.only = p.paused+w.between(3, 15), true
	w.at(w.now, func() { w.remove(p) })
	w.at(p.cut-w.between(0, 2), func() {
		if !w.chaos {
			return
		}
		w.mongo.hanging = max(w.mongo.hanging, w.now+w.between(0, 5))
		for _, slot := range sortedKeys(w.slots) {
			if q := w.slots[slot]; q != p && !q.dead {
				q.cut, q.only = w.now+w.between(5, 30), w.chance(0.5)
				w.remove(q)
			}
		}
	})
}

// remove removes a process from the group.
func (w *world) remove(p *process) {
	for _, id := range sortedKeys(w.group.members) {
		if len(id) > len(p.name) && id[:len(p.name)+1] == p.name+"/" {
			w.group.remove(id)
		}
	}
}

// lend moves the partitions to other members, and moves them again after a while.
func (w *world) lend() {
	if w.group.moves > 0 {
		return
	}
	w.group.moves = 2
	w.anyone().rejoin = true
	w.at(w.now+w.between(5, 25), func() { w.anyone().rejoin = true })
}

func (w *world) hang() {
	w.mongo.hanging = w.now + w.between(3, 15)
	p := w.anyone()
	w.at(w.now+w.between(0, 8), func() {
		if !w.chaos {
			return
		}
		switch w.rnd.IntN(5) {
		case 0, 1, 2:
			p.rejoin = true
		case 3:
			p.paused = w.now + w.between(1, 15)
		case 4:
			w.terminate(p)
		}
	})
}

// stopAll stops all processes, each in a random way.
func (w *world) stopAll() {
	for _, slot := range sortedKeys(w.slots) {
		p := w.slots[slot]
		switch w.rnd.IntN(4) {
		case 0:
			w.terminate(p)
		case 1:
			p.paused = w.now + w.between(1, 30)
		case 2:
			p.cut = w.now + w.between(10, 30)
		default:
			w.crashAndRestart(p, w.between(20, 40))
		}
	}
}

// whenEmpty calls do as soon as the group has no members, as Kafka's tools require.
func (w *world) whenEmpty(tries int, do func()) {
	w.at(w.now+3*time.Second, func() {
		switch {
		case !w.chaos || tries == 0:
		case len(w.group.members) > 0 || w.group.preparing:
			w.whenEmpty(tries-1, do)
		default:
			do()
		}
	})
}
