package pipeline_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// These are names in the simulation.
const (
	topicName   = "events"
	clusterName = "cluster"
	namespace   = "db.events"
)

// eventEpoch is the time of the first measurement in milliseconds.
const eventEpoch = int64(1_700_000_000_000)

// broker is Kafka without its groups. It has one topic, whose logs are kept after its deletion.
type broker struct {
	w          *world
	topic      [16]byte // zero while the topic does not exist
	topics     int      // created so far
	partitions int32
	logs       map[logKey]*partitionLog
	clock      int64 // time of the newest measurement
}

type logKey struct {
	topic     [16]byte
	partition int32
}

// partitionLog is one partition under one topic id.
type partitionLog struct {
	logKey
	first, end int64
	records    map[int64]*logged
	reused     int64 // offsets below this one were used before the log was truncated
	checked    int64 // all records below were found stored at some commit
	excused    map[timeseries.Position]string
}

// logged is a record with its expected outcome.
type logged struct {
	record record.Record
	wanted []wanted
}

// wanted is the expected outcome of one part of a record, which is a stored measurement or a letter.
type wanted struct {
	part       int32
	whole      int32 // part of its letter if MongoDB refuses the measurement
	deadLetter bool
	series     string
	time       int64
	value      int64
}

func newBroker(w *world) *broker {
	k := &broker{w: w, partitions: w.traits.partitions, logs: map[logKey]*partitionLog{}, clock: eventEpoch}
	k.create()
	return k
}

// create creates the topic, or recreates it.
func (k *broker) create() {
	k.topics++
	binary.BigEndian.PutUint64(k.topic[:], uint64(0xabc0+k.topics))
	for p := range k.partitions {
		k.log(p)
	}
}

// log returns a partition of the present topic.
func (k *broker) log(partition int32) *partitionLog {
	key := logKey{k.topic, partition}
	l, ok := k.logs[key]
	if !ok {
		l = &partitionLog{logKey: key, records: map[int64]*logged{}, excused: map[timeseries.Position]string{}}
		k.logs[key] = l
	}
	return l
}

// find returns the log of a topic id. Nil means that it does not exist, or not any more.
func (k *broker) find(topic [16]byte, partition int32) *partitionLog {
	if k.w.broken == noTopicID {
		topic = k.topic
	}
	if topic != k.topic || topic == ([16]byte{}) || partition >= k.partitions {
		return nil
	}
	return k.log(partition)
}

// produce appends a record.
func (k *broker) produce(partition int32) {
	w, l := k.w, k.log(partition)
	if w.chance(0.05) {
		l.end++ // a control batch
	}
	r := &logged{record: record.Record{Offset: l.end, Timestamp: k.clock}}
	switch {
	case w.chance(0.02): // a tombstone
	case w.chance(w.traits.bad):
		r.record.Value = k.bad()
		r.wanted = []wanted{{part: -1, deadLetter: true}}
	case w.chance(w.traits.arrays) && !w.traits.schemas:
		k.array(l, r)
	default:
		text, want := k.event(l, -1)
		r.record.Value, r.wanted = k.valueOf(text), []wanted{want}
	}
	for _, want := range r.wanted {
		if l.end < l.reused {
			l.excused[timeseries.Position{Offset: l.end, Part: max(0, want.part)}] = "its offset was in use before"
		}
	}
	l.records[l.end] = r
	l.end++
}

// bad returns a value that is no event.
func (k *broker) bad() []byte {
	if k.w.traits.schemas {
		return k.w.registry.bad()
	}
	return []byte(pick(k.w, `{"meta": "A", "time":`, `[{"meta": "A", "time": 1700000000000, "v": -1}, {"meta":`))
}

// valueOf returns an event as it is sent.
func (k *broker) valueOf(text string) []byte {
	if k.w.traits.schemas {
		return k.w.registry.framed(text)
	}
	return []byte(text)
}

// array makes a record of several measurements, some of which are bad.
func (k *broker) array(l *partitionLog, r *logged) {
	var texts []string
	for part := range int32(2 + k.w.rnd.IntN(4)) {
		text, want := k.event(l, part)
		if k.w.chance(k.w.traits.bad) {
			text, want = `{"meta": "A", "v": 1}`, wanted{part: part, deadLetter: true}
		}
		texts, r.wanted = append(texts, text), append(r.wanted, want)
	}
	r.record.Value = []byte("[" + strings.Join(texts, ",") + "]")
}

// event makes one measurement. part is -1 if it is a record of its own.
func (k *broker) event(l *partitionLog, part int32) (string, wanted) {
	w := k.w
	k.clock += int64(w.rnd.IntN(400)) * 1000
	want := wanted{
		part: max(0, part), whole: part, series: pick(w, "A", "B", "C"), time: k.clock,
		value: int64(k.topics)*1e9 + int64(l.partition)*1e8 + l.end*100 + int64(max(0, part)),
	}
	if w.chance(0.2) {
		want.time -= int64(w.rnd.IntN(7200)) * 1000
	}
	poison := ""
	if w.chance(w.traits.poison) {
		want.deadLetter, want.part, poison = true, part, `, "poison": 1`
	}
	kind := ""
	if want.series == "C" { // the values of C change their types, so it has several open buckets
		kind = `, "k": ` + []string{"null", "1.5", `"off"`}[l.end%3]
	}
	return fmt.Sprintf(`{"meta": %q, "time": %d, "v": %d%s%s}`, want.series, want.time, want.value, kind, poison), want
}

var errKafka = errors.New("no answer from Kafka")

// fetch reads from a partition. It returns a batch or an error.
func (l *partitionLog) fetch(w *world, offset int64) any {
	if offset < l.first || offset > l.end {
		return record.ErrOutOfRange
	}
	b := record.Batch{Next: offset, End: l.end}
	from, limit := max(l.first, offset-int64(w.rnd.IntN(3))), offset+1+int64(w.rnd.IntN(12)) // a batch may begin earlier
	for o := from; o < min(limit, l.end); o++ {
		if r := l.records[o]; r != nil {
			b.Records = append(b.Records, r.record)
		}
		b.Next = o + 1
	}
	b.Next = max(b.Next, offset)
	return b
}

// truncate cuts the end of the log, as an unclean election of a leader does.
func (l *partitionLog) truncate(to int64) {
	for o := to; o < l.end; o++ {
		delete(l.records, o)
	}
	l.reused, l.end = max(l.reused, l.end), to
	l.checked = min(l.checked, to)
}

// expire deletes the beginning of the log.
func (l *partitionLog) expire(w *world, to int64) {
	l.excuse(w, l.first, to, "it expired unread")
	for o := l.first; o < to; o++ {
		delete(l.records, o)
	}
	l.first = to
}

// excuse removes the duty to store the measurements at [from, to) that are not stored, or whose writes may be rolled back.
func (l *partitionLog) excuse(w *world, from, to int64, why string) {
	durable := w.mongo.majority == w.mongo.seq
	for o := from; o < to; o++ {
		r := l.records[o]
		if r == nil {
			continue
		}
		for _, want := range r.wanted {
			if !durable || !w.checks.done(w, l, o, want) {
				l.excused[timeseries.Position{Offset: o, Part: max(0, want.part)}] = why
			}
		}
	}
}

// producing keeps the topic growing.
func (w *world) producing() {
	if !w.chaos {
		return
	}
	if w.kafka.topic != ([16]byte{}) {
		for range w.rnd.IntN(4) {
			w.kafka.produce(w.rnd.Int32N(w.kafka.partitions))
		}
	}
	w.at(w.now+w.between(0.5, 3), w.producing)
}

// fetchWait is how long a fetch waits for records.
const fetchWait = time.Second
