package pipeline_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
)

// repair stores some measurements again, like a process that breaks an assumption. It makes an operator repair them while owners
// work, once or twice.
func (w *world) repair() {
	if w.broken == noTopicID {
		return // a repair identifies topics by their ids
	}
	w.plant()
	w.at(w.now+w.between(0, longestGrace.Seconds()), func() { // while the repair waits
		if w.chaos {
			w.plant()
		}
	})
	for range pick(w, 1, 2, 3) {
		w.at(w.now+w.between(0, 4), w.startRepair)
	}
}

// source returns a partition under the present topic id.
func (w *world) source(partition int32) timeseries.Source {
	return timeseries.Source{Topic: topicName, TopicID: w.topicSeen(), Partition: partition}
}

// startRepair runs `waterwheel verify --repair` as a process outside of any group. Only one repair runs at a time.
func (w *world) startRepair() {
	if w.repairer != nil && !w.repairer.dead {
		w.at(w.now+time.Second, func() {
			if w.chaos {
				w.startRepair()
			}
		})
		return
	}
	p := &process{
		began: w.now,
		w:     w, slot: -1, name: fmt.Sprintf("repair %d", len(w.all)), settings: w.settings(), group: w.group,
		tasks: map[*task]bool{}, runners: map[int32]*runner{},
	}
	w.repairer, w.all = p, append(w.all, p)
	w.logf("%s starts", p.name)
	p.spawn(func(t *task) {
		for partition := range w.kafka.partitions {
			t.repair(partition)
		}
	}, p.crash)
}

// repairing reports whether a repair must still remove doubled measurements. It must be a repair that began after the given time.
// Further repairs follow as long as one leaves unfinished compactions to the next.
func (w *world) repairing(after time.Duration) bool {
	last := w.repairer
	switch {
	case len(w.checks.doubled) == 0:
		return false
	case last == nil || last.began < after:
		if last != nil {
			last.crash() // it works in small steps, and may take long
		}
		w.startRepair()
		return true
	case last.dead && last.again && w.repairs < 6:
		w.repairs++
		w.startRepair()
		return true
	}
	return !last.dead
}

// repair verifies one partition below the committed offset, which it reads first, and removes doubled measurements.
func (t *task) repair(partition int32) {
	w := t.p.w
	answer, ok := t.ask(3*time.Second, func() any { return t.p.group.read(partition) })
	l := w.kafka.find(w.source(partition).TopicID, partition)
	if !ok || l == nil {
		return
	}
	at := answer.(committed)
	if p, ours := claim.ParseProvenance(at.metadata); ours && p.TopicID != l.topic {
		return
	}
	t.sleep(longestGrace) // a write of committed measurements may still be in flight
	window := pick[int64](w, 8, 1000)
	if !w.chaos {
		window = 1000
	}
	log := repairLog{t, l.topic}
	v, err := verify.New(verify.Options{
		Collection: simCollection, Decoder: w.decoder(true), Log: log, Claims: repairClaims{port{w: w, of: w.mongo.parts}}, Buckets: repairBuckets{t, port{w: w, of: w.mongo.buckets}},
		Content: w.chance(0.5), Repair: verify.Repair, Window: window, Examples: 1000,
	})
	if err != nil {
		panic(err)
	}
	report, err := v.Partition(t.context(), verify.Range{Source: w.source(partition), From: l.first, To: max(l.first, min(at.offset, l.end))})
	r := &report.Repair // its examples are pointers, which differ from run to run
	w.logf("%s: %d repaired, %d copies, %d updated, %d deleted, %d left, %v", t.p.name, r.Repaired, r.Copies, r.Updated, r.Deleted, r.Left.Count, err)
	for _, f := range r.Left.First {
		w.logf("%s: left %v %s", t.p.name, f.Position, f.Text)
		t.p.again = t.p.again || strings.Contains(f.Text, "run the repair again")
	}
	if report.Repair.Repaired > 0 {
		w.note("(met) doubles repaired")
	}
}

// repairLog is a repair's view of the log.
type repairLog struct {
	t       *task
	topicID [16]byte
}

// Scan implements verify.Log.
func (g repairLog) Scan(_ context.Context, of record.Partition, from, to int64, each func(*record.Record) error) (int64, error) {
	w := g.t.p.w
	answer, ok := g.t.ask(5*time.Second, func() any {
		l := w.kafka.find(g.topicID, of.Number)
		if l == nil {
			return nil
		}
		var records []record.Record
		for o := max(from, l.first); o < min(to, l.end); o++ {
			if r := l.records[o]; r != nil {
				records = append(records, record.Record{Offset: o, Timestamp: r.record.Timestamp, Value: r.record.Value})
			}
		}
		return append(records, record.Record{Offset: l.first}) // the last record tells where the log begins
	})
	if !ok || answer == nil {
		return 0, errKafka
	}
	records := answer.([]record.Record)
	last := len(records) - 1
	for _, r := range records[:last] {
		if err := each(&r); err != nil {
			return records[last].Offset, err
		}
	}
	return records[last].Offset, nil
}

// repairClaims is a repair's view of the partition documents.
type repairClaims struct{ c port }

// Claims implements verify.Claims. The repair has already waited, by the clock of the simulation.
func (r repairClaims) Claims(ctx context.Context) (claims []claim.Document, err error) {
	seq, err := r.c.moment(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range r.c.of.order {
		d := r.c.of.asOf(id, seq)
		if d == nil {
			continue
		}
		seen := claim.Document{Found: true, Released: true}
		claims = append(claims, seen)
	}
	return claims, nil
}

// repairBuckets is a repair's view of the buckets. It reads some at a time, and without a session.
type repairBuckets struct {
	t *task
	c port
}

// Find implements verify.Buckets.
func (b repairBuckets) Find(ctx context.Context, src timeseries.Source, from, to int64, _ bool, each func(bson.Raw) error) error {
	filter := encoded(bson.D{
		{Key: timeseries.PathTopicID, Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: src.TopicID[:]}},
		{Key: timeseries.PathPartition, Value: src.Partition},
		{Key: timeseries.PathLast, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$lt", Value: from}}}}},
		{Key: timeseries.PathFirst, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gte", Value: to}}}}},
	})
	seq := int64(0)
	for next := 0; next < len(b.c.of.order); {
		now, err := b.c.moment(ctx)
		if err != nil {
			return err
		}
		seq = max(seq, now)
		for range min(1+b.c.w.rnd.IntN(16), len(b.c.of.order)-next) {
			d := b.c.of.asOf(b.c.of.order[next], seq)
			next++
			if d == nil || !matches(d, filter) {
				continue
			}
			if err := each(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unfinished implements verify.Buckets.
func (b repairBuckets) Unfinished(ctx context.Context) (map[claim.Token]bool, error) {
	seq, err := b.c.moment(ctx)
	if err != nil {
		return nil, err
	}
	all, ended := map[claim.Token]bool{}, map[claim.Token]bool{}
	for _, id := range b.c.of.order {
		switch d := b.c.of.asOf(id, seq); {
		case d == nil:
		case placeOf(d).frozen():
			all[placeOf(d).by] = true
		case placeOf(d).segment:
			ended[placeOf(d).by] = true
		}
	}
	maps.DeleteFunc(all, func(id claim.Token, _ bool) bool { return ended[id] })
	return all, nil
}

// Update implements verify.Buckets.
func (b repairBuckets) Update(ctx context.Context, filter, update bson.Raw) (bool, error) {
	return b.change(ctx, filter, func(before bson.Raw) bson.Raw { return updated(before, update) })
}

// Delete implements verify.Buckets.
func (b repairBuckets) Delete(ctx context.Context, filter bson.Raw) (bool, error) {
	return b.change(ctx, filter, func(bson.Raw) bson.Raw { return nil })
}

// change sends one conditional write of a bucket.
func (b repairBuckets) change(ctx context.Context, filter bson.Raw, change func(before bson.Raw) bson.Raw) (bool, error) {
	w := b.c.w
	if w.chaos && w.chance(0.9) { // the repair stops for a while, so its write is late and based on an old read
		b.t.sleep(w.between(0, 40))
	}
	id := string(filter.Lookup("_id").Value)
	reply, err := b.c.write(ctx, 1, func(int) (int, *mongodb.WriteError) {
		before := b.c.of.now(id)
		if before == nil || w.broken != repairUnconditional && !matches(before, filter) {
			w.note("(met) repair meets a live owner's write")
			return 0, nil
		}
		w.mongo.put(b.c.of, id, change(before), w.checks.repairer)
		return 1, nil
	}, func(int) bool { return false })
	if err == nil {
		err = reply.Unconfirmed
	}
	return reply.N > 0, err
}
