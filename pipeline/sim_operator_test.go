package pipeline_test

import (
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// documentID returns the _id of a partition document.
func documentID(partition int32) string {
	raw := encoded(bson.D{{Key: "_id", Value: fmt.Sprintf("%s/%s/%d", clusterName, topicName, partition)}})
	return string(raw.Lookup("_id").Value)
}

// deleteDocument deletes a partition document. It does not do so while another group still has processes, while processes with
// different leases run, or while a claim that found no document may still be executed. The documentation says that these lead to
// doubled measurements. It also keeps a
// document that is the only record of offsets another program has read, because its deletion skips records, as the documentation
// says.
func (w *world) deleteDocument() {
	if slices.ContainsFunc(w.all, func(p *process) bool { return !p.dead && (p.group != w.group || w.traits.mixed) }) {
		return
	}
	partition := w.rnd.Int32N(w.kafka.partitions)
	id := documentID(partition)
	document, last := w.mongo.parts.now(id), w.group.last(partition)
	if document == nil {
		return
	}
	start, _ := document.Lookup("start").AsInt64OK()
	stranger := last.ofAnotherProgram()
	if stranger && last.offset > start {
		return
	}
	if sent, ok := w.firstClaims[partition]; ok && w.now-sent <= longestGrace {
		return
	}
	w.mongo.put(w.mongo.parts, id, nil, nil)
	w.logf("an operator deletes %s", id)
}

// editBucket changes a random bucket. In a cluster the edit may move the bucket to another shard. The operator then waits until no
// insert of the bucket can be executed any more, as the documentation says.
func (w *world) editBucket(change func(bson.D) bson.D) {
	ids := slices.DeleteFunc(w.mongo.buckets.ids(), func(id string) bool { return isSegment(w.mongo.buckets.now(id)) })
	if len(ids) > 0 {
		id := pick(w, ids...)
		edit := func() {
			w.logf("an operator edits %x", id)
			w.mongo.edit(w.mongo.buckets, id, change)
		}
		if !w.traits.sharded {
			edit()
			return
		}
		w.at(w.now+longestLease+longestGrace, func() {
			if w.mongo.buckets.now(id) != nil {
				edit()
			}
		})
	}
}

// deleteBucket deletes a random bucket. Its measurements need not be stored any more. The operator waits until no insert of the
// bucket can be executed any more, which would store it again.
func (w *world) deleteBucket() {
	ids := w.mongo.buckets.ids()
	if len(ids) == 0 {
		return
	}
	id := pick(w, ids...)
	w.at(w.now+longestLease+longestGrace, func() {
		bucket := w.mongo.buckets.now(id)
		if bucket == nil || w.isDoubled(bucket) { // a repair comes first
			return
		}
		w.logf("an operator deletes %x", id)
		w.excuseBucket(bucket)
		w.mongo.put(w.mongo.buckets, id, nil, nil)
	})
}

// isDoubled reports whether a measurement of a bucket has been stored twice.
func (w *world) isDoubled(bucket bson.Raw) bool {
	return slices.ContainsFunc(unpacked(w, bucket), func(m held) bool {
		_, is := w.checks.doubled[m.value]
		return is
	})
}

// excuseBucket removes the duty to store the measurements of a bucket that an operator deletes.
func (w *world) excuseBucket(bucket bson.Raw) {
	w.excuse(bucket, func(held) bool { return true })
}

func (w *world) excuse(bucket bson.Raw, which func(held) bool) {
	_, topic, _ := valueAt(bucket, timeseries.PathTopicID).BinaryOK()
	partition, _ := valueAt(bucket, timeseries.PathPartition).AsInt64OK()
	key := logKey{[16]byte(topic), int32(partition)}
	if w.broken == noTopicID {
		key.topic = w.kafka.topic
	}
	for _, m := range unpacked(w, bucket) {
		if !which(m) {
			continue
		}
		w.checks.staged.loose[m.value] = true
		if l := w.kafka.logs[key]; l != nil {
			l.excused[m.position] = "an operator deleted it"
		}
	}
}

// reset moves the group's offsets, as kafka-consumer-groups.sh does.
func (w *world) reset() {
	if w.kafka.topic == ([16]byte{}) {
		return
	}
	for p := range w.kafka.partitions {
		l := w.kafka.log(p)
		to := pick(w, l.first, l.end, l.first+w.rnd.Int64N(l.end-l.first+1))
		w.note("(met) partitions reset")
		w.setOffset(l, to, l.first)
	}
}

// expireOffsets deletes the group's offsets. The start in the claim then applies. A reset that no owner has claimed is forgotten.
func (w *world) expireOffsets() {
	for p := range w.kafka.partitions {
		if _, ours := claim.ParseProvenance(w.group.read(p).metadata); !ours {
			continue // otherwise partitions that no owner has begun to read would be forgotten too
		}
		w.excuseToStart(p)
		w.group.commits[p] = append(w.group.commits[p], committed{visible: w.now, offset: -1})
		w.logf("the offset of partition %d expires", p)
	}
}

// strangerCommits is a commit by a consumer of another program that was temporarily a member of the group. Before the first claim
// this cannot be distinguished from the program whose group this pipeline took over.
func (w *world) strangerCommits() {
	if w.kafka.topic == ([16]byte{}) || w.mongo.majority != w.mongo.seq {
		return
	}
	for p := range w.kafka.partitions {
		last, l := w.group.last(p), w.kafka.log(p)
		if _, ours := claim.ParseProvenance(last.metadata); !ours || last.offset > l.end || w.mongo.parts.now(documentID(p)) == nil {
			continue // an operator's reset that no owner has seen yet would be forgotten
		}
		to := last.offset + w.rnd.Int64N(l.end-last.offset+1)
		w.group.commits[p] = append(w.group.commits[p], committed{visible: max(w.now, last.visible), offset: to, consumed: true})
		if to > last.offset {
			w.note("(met) another program's commit beyond ours")
		}
		w.logf("another program commits %d of partition %d", to, p)
	}
}

// excuseToStart removes the duty to store the records before the start in the partition document.
func (w *world) excuseToStart(p int32) {
	document := w.mongo.parts.now(documentID(p))
	if document == nil || w.kafka.topic == ([16]byte{}) {
		return
	}
	l := w.kafka.log(p)
	start, _ := document.Lookup("start").AsInt64OK()
	if _, topic, _ := document.Lookup("topicId").BinaryOK(); [16]byte(topic) == w.topicSeen() {
		l.excuse(w, l.first, min(start, l.end), "before the claim's start")
	}
}

// takeOver gives the collection to another group, as `collection takeover` does.
func (w *world) takeOver() {
	if w.mongo.away > w.now || w.mongo.stalled {
		return
	}
	for p := range w.kafka.partitions {
		if id := documentID(p); w.mongo.parts.now(id) == nil && len(w.mongo.parts.byID[id]) > 0 {
			return // after its deletion the new group would not wait for the old one, as the documentation says
		}
	}
	w.group = newCoordinator(w, w.group.name+"'")
	w.logf("the group %s takes over", w.group.name)
	for p := range w.kafka.partitions {
		id := documentID(p)
		if w.mongo.parts.now(id) == nil {
			continue
		}
		w.excuseToStart(p)
		w.mongo.edit(w.mongo.parts, id, func(d bson.D) bson.D {
			d = changed(d, []string{"group"}, "$set", w.group.name)
			return changed(d, []string{"released"}, "$set", false)
		})
	}
	w.mongo.floor = w.mongo.seq
	for _, p := range w.all { // the processes of the old group are stopped for good sooner or later
		w.at(w.now+w.between(0, 20), p.crash)
		w.restart(p, w.between(0, 20))
	}
}

// takeOverAgain gives documents to the new group that late claims of the old group have made since.
func (w *world) takeOverAgain() {
	for p := range w.kafka.partitions {
		id := documentID(p)
		document := w.mongo.parts.now(id)
		if document == nil || document.Lookup("group").StringValue() == w.group.name {
			continue
		}
		w.mongo.edit(w.mongo.parts, id, func(d bson.D) bson.D { return changed(d, []string{"group"}, "$set", w.group.name) })
		for _, p := range w.all {
			p.crash()
		}
	}
}

// recreateTopic deletes the topic, and creates it again after a while.
func (w *world) recreateTopic() {
	if w.kafka.topic == ([16]byte{}) || w.kafka.topics > 3 {
		return
	}
	w.logf("the topic is deleted")
	w.kafka.topic = [16]byte{}
	for p := range w.kafka.partitions { // Kafka deletes the offsets as well, but a commit may be in flight
		if _, ours := claim.ParseProvenance(w.group.read(p).metadata); !ours || w.chance(0.5) {
			w.group.commits[p] = append(w.group.commits[p], committed{visible: w.now, offset: -1})
		}
	}
	w.at(w.now+w.between(0, 10), func() {
		w.kafka.create()
		w.logf("the topic is created again: %x", w.kafka.topic)
	})
}
