package pipeline_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// checks checks the protocol's invariants during a run. It counts how often each measurement is stored. A measurement is
// identified by its value, which is unique.
type checks struct {
	values map[int64]int
	terms  []*term
	edited map[string]bool // buckets that an operator has changed
	// movedBy is the latest edit of whole series that changed the meta of a bucket, by bucket.
	movedBy map[string]string
	// doubled holds the measurements that a process outside the protocol has stored again. zombie is the term of that process,
	// and repairer the term of a repair.
	doubled          map[int64]doubled
	zombie, repairer *term
	staged           staging
}

// term is a time in which a process owns and writes a partition. It begins with the claim.
type term struct {
	log      logKey
	owner    string
	claim    int64 // number of the claim's write
	known    int64 // the owner knew all writes up to this one when the term began
	released bool
}

// sending checks a write command when it is sent, and returns the term to which it belongs.
func (c *checks) sending(w *world, t *task, of *docs, updates []mongodb.Update) *term {
	if of == w.mongo.options || of == w.mongo.upkeep {
		return nil
	}
	g := t.p.present
	if t.r != nil {
		g = t.r.gen
	}
	leaseless := w.broken == noLease || w.broken == leaseByHeartbeats
	if (g == nil || !g.held(w.now)) && !leaseless {
		w.fail("E7", "%s writes %s without a lease", t.p.name, of.name)
	}
	if of != w.mongo.buckets {
		return nil
	}
	switch u := t.r.term; {
	case u == nil:
		w.fail("E7", "%s writes buckets without a claim, or before it read what is stored", t.p.name)
	case u.released:
		w.fail("E7", "%s writes buckets after its release", t.p.name)
	}
	if compacts(t.what) {
		return t.r.term
	}
	for _, update := range updates {
		for _, path := range []string{"_id", "meta", "control.min.time", "control.count", "control.closed"} {
			if _, err := update.Filter.LookupErr(path); err != nil {
				w.fail("E5", "an update has no condition on %s: %v", path, update.Filter)
			}
		}
	}
	return t.r.term
}

// changed checks the step of a bucket from one version to the next. by is nil for operators and elections.
func (c *checks) changed(w *world, before, after bson.Raw, by *term) {
	switch { // a bucket that is written again after its deletion is a new bucket
	case before == nil:
		delete(c.movedBy, string(after.Lookup("_id").Value))
	case after == nil:
		delete(c.movedBy, string(before.Lookup("_id").Value))
	}
	was := c.counted(w, before)
	recount := c.freezes(w, before, after)
	now := c.counted(w, after)
	defer func() {
		recount()
		c.shown(w, before, after)
	}()
	for _, m := range was {
		c.values[m.value]--
	}
	for _, m := range now {
		c.values[m.value]++
		if _, may := c.doubled[m.value]; c.values[m.value] > 1 && !(may && (by == nil || by == c.zombie || slices.Contains(was, m))) {
			w.fail("stored once", "offset %d part %d, value %d, is stored %d times", m.position.Offset, m.position.Part, m.value, c.values[m.value])
		}
	}
	if by == c.repairer {
		c.repaired(w, was)
	}
	if by == nil {
		if after != nil && before != nil {
			c.edited[string(after.Lookup("_id").Value)] = true
		}
		return
	}
	if after == nil {
		w.logf("%s deletes %s", by.owner, before.Lookup("_id").ObjectID().Hex())
		return
	}
	now = unpacked(w, after)
	w.logf("write of %s: %s holds %v", by.owner, after.Lookup("_id").ObjectID().Hex(), now)
	c.stale(w, by)
	c.content(w, after, now)
}

// stale checks that the stored positions were read after the last write of every earlier owner (E2).
func (c *checks) stale(w *world, by *term) {
	for _, later := range c.terms {
		if later.log == by.log && later.claim > by.claim && w.mongo.seq > later.known {
			w.fail("E2", "a write of %s (claim %d) is executed after %s (claim %d) read what is stored", by.owner, by.claim,
				later.owner, later.claim)
		}
	}
}

// held is one measurement in a bucket.
type held struct {
	position timeseries.Position
	time     int64
	series   string
	value    int64
}

// String returns a short text for the trace.
func (h held) String() string { return fmt.Sprintf("%d.%d", h.position.Offset, h.position.Part) }

// unpacked returns the measurements of a bucket, or nil for a nil bucket.
func unpacked(w *world, bucket bson.Raw) []held {
	if bucket == nil {
		return nil
	}
	u := timeseries.NewUnpacker(simCollection)
	if err := u.Reset(bucket); err != nil {
		w.fail("E1", "%v: %v", err, bucket)
	}
	var all []held
	var m timeseries.Unpacked
	for u.Next(&m) {
		elements := bson.Raw(append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(m.Elements)+5)), m.Elements...), 0))
		series, _ := m.Meta.StringValueOK()
		value, _ := elements.Lookup("v").AsInt64OK()
		all = append(all, held{m.Position, m.Time, series, value})
	}
	if err := errors.Join(u.Err(), u.Mismatch()); err != nil {
		w.fail("E1", "%v: %v", err, bucket)
	}
	return all
}

// content checks that a bucket lists exactly the positions of its measurements (E1). They must belong to its series and its
// window, and its bounds must be correct.
func (c *checks) content(w *world, bucket bson.Raw, all []held) {
	id := bucket.Lookup("_id")
	if c.edited[string(id.Value)] || w.broken == noTopicID || len(all) == 0 {
		return
	}
	first := bucket.Lookup("control", "min", "time").DateTime()
	var times, values []int64
	for _, m := range all {
		times, values = append(times, m.time), append(values, m.value)
		if m.time >= first+simCollection.Span() {
			w.note("(met) buckets of a larger span")
		}
		if m.time < first || m.time >= first+w.widest() {
			w.fail("window", "offset %d of time %d is in a bucket from %d on", m.position.Offset, m.time, first)
		}
		if want, ok := w.wanted(bucket, m.position); ok && (want.deadLetter || want.series != m.series && !c.staged.renamed[m.value] || want.time != m.time || want.value != m.value) {
			w.fail("E1", "a bucket of %v lists offset %d part %d, which is %+v, for %+v", bucket.Lookup("meta"), m.position.Offset, m.position.Part, want, m)
		}
	}
	for path, want := range map[string]int64{"min.v": slices.Min(values), "max.v": slices.Max(values), "max.time": slices.Max(times)} {
		if have, _ := number(valueAt(bucket, "control."+path)); have != want {
			w.fail("bounds", "control.%s of %v is %d, not %d", path, id, have, want)
		}
	}
}

// wanted returns the expected measurement at a stored position. It returns false if the expectation is not known any more.
func (w *world) wanted(bucket bson.Raw, at timeseries.Position) (wanted, bool) {
	_, topic, _ := valueAt(bucket, timeseries.PathTopicID).BinaryOK()
	partition, _ := valueAt(bucket, timeseries.PathPartition).AsInt64OK()
	l := w.kafka.logs[logKey{[16]byte(topic), int32(partition)}]
	if l == nil || l.records[at.Offset] == nil || at.Offset < l.reused {
		return wanted{}, false
	}
	for _, want := range l.records[at.Offset].wanted {
		if max(0, want.part) == at.Part {
			return want, true
		}
	}
	return wanted{deadLetter: true}, true
}

// done reports whether one part of a record is stored, or is a letter, as it must be.
func (c *checks) done(w *world, l *partitionLog, offset int64, want wanted) bool {
	if !want.deadLetter && (c.values[want.value] > 0 || want.series != refusedSeries || !w.traits.refusing) {
		return c.values[want.value] > 0
	}
	key := deadLetterKey{l.logKey, offset, want.part}
	if !want.deadLetter {
		key.part = want.whole
	}
	if w.broken == noTopicID {
		key.topic = w.topicSeen()
	}
	return w.deadLetters[key]
}

// strangersMetadata is the metadata of an offset that another program commits before the claim.
const strangersMetadata = "ww1;of another program"

// committing checks that everything below a committed offset is done (E6).
func (c *checks) committing(w *world, member string, sent time.Duration, commit record.Commit) {
	p, ok := claim.ParseProvenance(commit.Metadata)
	if commit.Metadata == strangersMetadata { // the commit says nothing about the records below
		return
	}
	if !ok {
		w.fail("E6", "offset %d is committed with the metadata %q", commit.Offset, commit.Metadata)
		return
	}
	if w.broken == noTopicID {
		p.TopicID = w.kafka.topic
	}
	if l := w.kafka.find(p.TopicID, commit.Number); l != nil { // otherwise the topic is gone
		c.below(w, l, commit.Offset)
		c.afterRelease(w, l, member, sent, commit)
	}
}

// afterRelease checks that a released partition continues at the offset of its last owner. An owner that releases a partition has
// committed everything it did, and a new owner that has seen the release starts there. A new owner that read the claim before the
// release may still commit the earlier start, and its claim is refused. A commit in flight may be executed late.
func (c *checks) afterRelease(w *world, l *partitionLog, member string, sent time.Duration, commit record.Commit) {
	last := w.group.last(commit.Number)
	if last.by == member || last.metadata != commit.Metadata || commit.Offset >= last.offset || l.reused > 0 || w.traits.commitLag || w.group.overtaken(commit.Number) {
		return // after a truncation of the log, offsets go back
	}
	if w.sawReleased(member, sent, commit.Number, uuidAt(w.mongo.parts.now(documentID(commit.Number)), "claim")) {
		w.fail("hand-over", "partition %d is committed to %d after its last owner has committed %d and released it", commit.Number, commit.Offset, last.offset)
	}
}

// sawReleased reports whether the claim that a member had last read at the time at is the given one, and was released.
func (w *world) sawReleased(member string, at time.Duration, partition int32, claim claim.Token) bool {
	return slices.ContainsFunc(w.all, func(p *process) bool {
		r := p.runners[partition]
		return strings.HasPrefix(member, p.name+"/") && r != nil && r.saw.Claim == claim && r.saw.Released && r.sawAt <= at
	})
}

func (c *checks) below(w *world, l *partitionLog, offset int64) {
	for ; l.checked < min(offset, l.end); l.checked++ {
		r := l.records[l.checked]
		if r == nil {
			continue
		}
		for _, want := range r.wanted {
			_, excused := l.excused[timeseries.Position{Offset: l.checked, Part: max(0, want.part)}]
			if !excused && !c.done(w, l, l.checked, want) {
				w.fail("E6", "partition %d is committed to %d, but offset %d is missing: %+v", l.partition, offset, l.checked, want)
				return
			}
		}
	}
}

// last checks everything again at the end of the run. Doubled measurements must be stored once by then, unless an operator's
// edits hide from a repair which copy is right.
//
// A compaction that is open when its buckets are shown must be finished or rolled back within finishWithin.
func (c *checks) last(w *world) {
	for _, id := range w.mongo.buckets.ids() {
		bucket := w.mongo.buckets.now(id)
		all := unpacked(w, bucket)
		c.content(w, bucket, all)
		if p, now := placeOf(bucket), w.mongo.clock(); !p.segment && c.staged.open[p.by] && now.Sub(time.UnixMilli(p.from)) > finishWithin {
			w.fail("shown once", "nobody finishes the compaction %x: its buckets are shown since %v, and so are its segments", p.by, time.UnixMilli(p.from))
		}
		for _, m := range all {
			if c.edited[string(bucket.Lookup("_id").Value)] || c.staged.renamed[m.value] {
				delete(c.doubled, m.value)
			}
		}
	}
	for _, value := range sortedKeys(c.doubled) {
		d := c.doubled[value]
		if c.values[value] > 1 && d.log.topic == w.kafka.topic && d.offset >= max(d.log.first, d.log.reused) {
			w.fail("repair", "offset %d is still stored %d times", d.offset, c.values[value])
		}
	}
	for p := range w.kafka.partitions {
		l := w.kafka.log(p)
		l.checked = l.first
		c.below(w, l, w.group.read(p).offset)
	}
}

// finishWithin is how long an owner may take, without faults, to handle an open compaction.
const finishWithin = 10 * time.Second
