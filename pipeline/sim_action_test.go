package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
)

// simBudget is a memory budget so large that no piece of a log ever waits for memory.
const simBudget = 1 << 40

// ports carries out a runner's actions with the model's Kafka and dead-letter topic, and with the real sink on the model's
// MongoDB.
type ports struct{ r *runner }

// Open implements pipeline.Ports.
func (o ports) Open(source timeseries.Source) (pipeline.Log, pipeline.Store) {
	r := o.r
	r.source = source
	return &kafkaLog{r: r, source: source}, r.p.store.Partition(source, clusterName, r.p.group.name, r.p.name)
}

// DeadLetters implements pipeline.Ports.
func (o ports) DeadLetters(string) pipeline.DeadLetters { return o }

// Schemas implements pipeline.Ports.
func (o ports) Schemas() pipeline.Schemas { return o }

// TopicID implements pipeline.Ports.
func (o ports) TopicID(ctx context.Context, _ string) (id [16]byte, err error) {
	answer, ok := taskOf(ctx).ask(3*time.Second, func() any { return o.r.p.w.topicSeen() })
	if !ok {
		return id, errKafka
	}
	return answer.([16]byte), nil
}

// Committed implements pipeline.Ports.
func (o ports) Committed(ctx context.Context, p record.Partition) (claim.Committed, error) {
	r := o.r
	if r.p.w.broken == startReadBefore && r.turn == r.readIn {
		return r.read, nil
	}
	answer, ok := taskOf(ctx).ask(3*time.Second, func() any { return r.p.group.read(p.Number) })
	if !ok {
		return claim.Committed{}, errKafka
	}
	c := answer.(committed)
	r.read, r.readIn = claim.Committed{Offset: c.offset, Metadata: c.metadata, Consumed: c.consumed}, r.turn
	return r.read, nil
}

// kafkaLog is a process's view of a partition of the model.
type kafkaLog struct {
	r      *runner
	source timeseries.Source
	batch  record.Batch // the current batch
}

// find returns the model's log. Nil means that the log does not exist, or not any more.
func (l *kafkaLog) find() *partitionLog {
	return l.r.p.w.kafka.find(l.source.TopicID, l.source.Partition)
}

// Await implements pipeline.Log.
func (l *kafkaLog) Await(ctx context.Context, offset, _ int64) (int64, error) {
	t := taskOf(ctx)
	for wait := true; ; wait = false {
		answer, ok := t.ask(5*time.Second, func() any {
			log := l.find()
			if log == nil {
				return record.ErrTopicGone
			}
			return log.fetch(l.r.p.w, offset)
		})
		switch answer := answer.(type) {
		case error:
			return 0, answer
		case record.Batch:
			if l.batch = answer; answer.Next > offset || !wait {
				return 0, nil
			}
		}
		if !ok {
			return 0, errKafka
		}
		t.sleep(fetchWait)
	}
}

// Take implements pipeline.Log. Its records are overwritten on release, as the next records overwrite those of a real log.
func (l *kafkaLog) Take(int64, int) (record.Batch, error) {
	lent := l.batch
	lent.Records = slices.Clone(l.batch.Records)
	var bytes [][]byte
	own := func(b *[]byte) {
		*b = slices.Clone(*b)
		bytes = append(bytes, *b)
	}
	for i := range lent.Records {
		r := &lent.Records[i]
		own(&r.Key)
		own(&r.Value)
		own(&r.Headers)
	}
	lent.Release = func() {
		clear(lent.Records)
		for _, b := range bytes {
			for i := range b {
				b[i] = '#'
			}
		}
	}
	return lent, nil
}

// Bounds implements pipeline.Log.
func (l *kafkaLog) Bounds(ctx context.Context) (b record.Bounds, err error) {
	w := l.r.p.w
	_, ok := taskOf(ctx).ask(3*time.Second, func() any {
		log := w.kafka.find(w.kafka.topic, l.source.Partition) // ListOffsets names the topic, not its id
		if log == nil {
			err = errKafka
			return nil
		}
		b = record.Bounds{First: log.first, End: log.end, Start: log.first}
		if w.traits.startAtEnd {
			b.Start = log.end
		}
		return nil
	})
	if !ok {
		err = errKafka
	}
	return b, err
}

// Partitions implements pipeline.Log.
func (l *kafkaLog) Partitions(ctx context.Context) (n int32, err error) {
	_, ok := taskOf(ctx).ask(3*time.Second, func() any {
		if n = l.r.p.w.kafka.partitions; l.find() == nil {
			err = record.ErrTopicGone
		}
		return nil
	})
	if !ok {
		err = errKafka
	}
	return n, err
}

// deadLetterKey names a part of a record. Part -1 is the whole record.
type deadLetterKey struct {
	logKey
	offset int64
	part   int32
}

// Produce implements pipeline.DeadLetters.
func (o ports) Produce(ctx context.Context, letters []record.DeadLetter) (int, error) {
	t, w := taskOf(ctx), o.r.p.w
	if w.broken == deadLettersUnacknowledged {
		t.kept(letters)
		return len(letters), nil
	}
	written := len(letters)
	if w.mishap(0.1) {
		written = w.rnd.IntN(len(letters) + 1)
	}
	_, ok := t.ask(3*time.Second, func() any { w.keep(letters[:written]); return true })
	switch {
	case !ok:
		return 0, errKafka
	case written < len(letters):
		w.note("(met) letters written in part")
		return written, errKafka
	}
	return written, nil
}

// kept sends letters without waiting for their acknowledgement.
func (t *task) kept(letters []record.DeadLetter) {
	w := t.p.w
	if !w.mishap(0.3) {
		w.at(w.now+w.between(0, 3), func() { w.keep(letters) })
	}
}

func (w *world) keep(letters []record.DeadLetter) {
	for _, l := range letters {
		w.deadLetters[deadLetterKey{logKey{l.TopicID, l.Number}, l.Offset, l.Part}] = true
		w.note("(met) letters")
	}
}

// described describes an event or action for the trace.
func described(x any) string {
	switch x := x.(type) {
	case string:
		return x
	case pipeline.Fetched:
		return fmt.Sprintf("Fetched %d records to %d of %d, %v", len(x.Batch.Records), x.Batch.Next, x.Batch.End, x.Err)
	case pipeline.SendWrites:
		return "SendWrites" + describedWrites(x.Writes)
	case pipeline.ResolveWrites:
		return "ResolveWrites" + describedWrites(x.Writes)
	case pipeline.AskPositions:
		return "AskPositions" + describedWrites([]*bucketer.Write{x.Write})
	case pipeline.StoredPositionsLoaded:
		if x.Stored != nil {
			return fmt.Sprintf("StoredLoaded %d positions", x.Stored.Len())
		}
	case pipeline.BucketsFound:
		return fmt.Sprintf("BucketsFound %d answers, %v", len(x.Answers), x.Err)
	case pipeline.ProduceDeadLetters:
		return fmt.Sprintf("ProduceLetters %d", len(x.DeadLetters))
	case pipeline.FindBuckets:
		return fmt.Sprintf("FindBuckets %d", len(x.Lookups))
	case pipeline.InsertCompacted:
		return "InsertCompacted" + describedWrites(x.Writes)
	case pipeline.SegmentsRead:
		return fmt.Sprintf("SegmentsRead %d, %v", len(x.Segments.All), x.Err)
	case pipeline.FrozenRead:
		return fmt.Sprintf("FrozenRead %d, %v", len(x.Segments.All), x.Err)
	case pipeline.ChangeSegments:
		return fmt.Sprintf("ChangeSegments %x: %d of %d segments, %d", x.Compaction.ID[:4], x.Change, len(x.Compaction.Segments), len(x.Segments))
	case pipeline.ReadFrozen:
		return fmt.Sprintf("ReadFrozen %x", x.Compaction.ID[:4])
	case pipeline.DeleteCompacted:
		return fmt.Sprintf("DeleteCompacted %x", x.Compaction.ID[:4])
	case pipeline.SweepSegments:
		return fmt.Sprintf("SweepSegments %d", len(x.Segments))
	}
	return fmt.Sprintf("%T %+v", x, x)
}

func describedWrites(writes []*bucketer.Write) string {
	text := ""
	for _, w := range writes {
		positions, err := timeseries.DecodePositions(nil, w.Offsets)
		if err != nil {
			panic(err)
		}
		text += fmt.Sprintf(" [kind %d %s count %d +%v closes %v]", w.Kind, w.ID.Hex(), w.Count, positions, w.Closes)
	}
	return text
}

// usesSession reports whether an action needs the partition's session, which carries out one such action at a time.
func usesSession(a pipeline.Action) bool {
	switch a.(type) {
	case pipeline.ReadClaim, pipeline.WatchClaim, pipeline.NoteWaited, pipeline.NoteLost, pipeline.SendClaim, pipeline.LoadStoredPositions, pipeline.SendWrites, pipeline.ResolveWrites,
		pipeline.AskPositions, pipeline.SendRelease, pipeline.ReadSegments, pipeline.ChangeSegments, pipeline.ReadFrozen,
		pipeline.InsertCompacted, pipeline.DeleteCompacted, pipeline.SweepSegments:
		return true
	}
	return false
}
