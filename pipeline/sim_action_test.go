package pipeline_test

import (
	"fmt"
	"time"

	"waterwheel/bucketer"
	"waterwheel/claim"
	"waterwheel/pipeline"
	"waterwheel/record"
	"waterwheel/timeseries"
)

// perform carries out one action through the real sink.
func (r *runner) perform(t *task, action pipeline.Action) pipeline.Event {
	ctx := t.context()
	switch a := action.(type) {
	case pipeline.ReadClaim:
		return r.readClaim(t)
	case pipeline.SendClaim:
		won, err := r.store.Claim(ctx, claim.Document{Found: a.Seen.Found, Claim: a.Seen.Claim},
			claim.Claim{Token: a.Claim.Token, Start: a.Claim.Start, Wait: a.Claim.Wait})
		return pipeline.Claimed{Won: won, Err: err}
	case pipeline.NoteWaited:
		return pipeline.WaitedNoted{Err: r.store.NoteWaited(ctx, a.Claim, a.Waited)}
	case pipeline.LoadStored:
		stored, err := r.store.Stored(ctx, a.Start, a.End)
		if stored != nil {
			if _, end := stored.Window(); end < a.End {
				r.p.w.note("(met) a window of D ended early for its memory")
			}
		}
		return pipeline.StoredLoaded{Stored: stored, Err: err}
	case pipeline.SendWrites:
		t.sendBy = r.p.w.now + r.p.W
		return pipeline.WritesSent{Sent: r.store.Send(ctx, a.Writes)}
	case pipeline.ResolveWrites:
		found, err := r.store.Resolve(ctx, a.Writes)
		return pipeline.WritesResolved{Found: found, Err: err}
	case pipeline.AskPositions:
		stored, err := r.store.Positions(ctx, a.Write)
		return pipeline.PositionsAsked{Stored: stored, Err: err}
	case pipeline.FindBuckets:
		answers, err := r.store.Find(ctx, a.Lookups)
		return pipeline.BucketsFound{Answers: answers, Err: err}
	case pipeline.SendRelease:
		return pipeline.Released{Err: r.store.Release(ctx)}
	}
	return r.performKafka(t, action)
}

// performKafka carries out an action that is about Kafka.
func (r *runner) performKafka(t *task, action pipeline.Action) pipeline.Event {
	switch a := action.(type) {
	case pipeline.Fetch:
		batch, err := r.fetch(t, a.Offset, true)
		return pipeline.Fetched{Batch: batch, Err: err}
	case pipeline.ReadRecord:
		batch, err := r.fetch(t, a.Offset, false)
		return pipeline.RecordRead{Batch: batch, Err: err}
	case pipeline.AskBounds:
		bounds, err := r.bounds(t)
		return pipeline.BoundsAsked{Bounds: bounds, Err: err}
	case pipeline.AskTopic:
		id, ok := t.ask(3*time.Second, func() any { return r.p.w.topicSeen() })
		if !ok {
			return pipeline.TopicAsked{Err: errKafka}
		}
		return pipeline.TopicAsked{TopicID: id.([16]byte)}
	case pipeline.ProduceLetters:
		written, err := r.produce(t, a.Letters)
		return pipeline.LettersProduced{Written: written, Err: err}
	}
	panic(fmt.Sprintf("the simulation has no way to carry out %T", action))
}

// readClaim reads the partition document, the topic's document and the log's bounds.
func (r *runner) readClaim(t *task) pipeline.Event {
	seen, err := r.store.Read(t.context())
	if err != nil {
		return pipeline.ClaimRead{Err: err}
	}
	first, err := r.store.FirstPartitions(t.context(), r.p.w.kafka.partitions)
	if err != nil {
		return pipeline.ClaimRead{Err: err}
	}
	bounds, err := r.bounds(t)
	if err != nil {
		return pipeline.ClaimRead{Of: pipeline.Kafka, Err: err}
	}
	if r.committed < 0 && !seen.Found && r.partition < first { // KAFKA_START decides
		if l := r.p.w.kafka.find(r.source.TopicID, r.partition); l != nil {
			l.excuse(r.p.w, l.first, bounds.Start, "before the configured start")
		}
	}
	return pipeline.ClaimRead{Seen: seen, FirstPartitions: first, Bounds: bounds}
}

func (r *runner) bounds(t *task) (record.Bounds, error) {
	w := r.p.w
	answer, ok := t.ask(3*time.Second, func() any {
		l := w.kafka.find(w.kafka.topic, r.partition) // ListOffsets names the topic, not its id
		if l == nil {
			return nil
		}
		b := record.Bounds{First: l.first, End: l.end, Start: l.first}
		if w.traits.startAtEnd {
			b.Start = l.end
		}
		return b
	})
	if !ok || answer == nil {
		return record.Bounds{}, errKafka
	}
	return answer.(record.Bounds), nil
}

// fetch reads the log, and waits a while when there is nothing yet.
func (r *runner) fetch(t *task, offset int64, wait bool) (record.Batch, error) {
	type fetched struct {
		batch record.Batch
		err   error
	}
	for range 2 {
		answer, ok := t.ask(5*time.Second, func() any {
			l := r.p.w.kafka.find(r.source.TopicID, r.partition)
			if l == nil {
				return fetched{err: record.ErrTopicGone}
			}
			batch, err := l.fetch(r.p.w, offset)
			return fetched{batch, err}
		})
		if !ok {
			return record.Batch{}, errKafka
		}
		f := answer.(fetched)
		if !wait || f.err != nil || f.batch.Next > offset {
			return f.batch, f.err
		}
		wait = false
		t.sleep(fetchWait)
	}
	return record.Batch{Next: offset, End: offset}, nil
}

// letterKey names a part of a record; part -1 is the whole.
type letterKey struct {
	logKey
	offset int64
	part   int32
}

// produce writes letters.
func (r *runner) produce(t *task, letters []record.Letter) (int, error) {
	w := r.p.w
	if w.broken == lettersUnacknowledged {
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

// kept sends letters and does not wait.
func (t *task) kept(letters []record.Letter) {
	w := t.p.w
	if !w.mishap(0.3) {
		w.at(w.now+w.between(0, 3), func() { w.keep(letters) })
	}
}

func (w *world) keep(letters []record.Letter) {
	for _, l := range letters {
		w.letters[letterKey{logKey{l.TopicID, l.Number}, l.Offset, l.Part}] = true
		w.note("(met) letters")
	}
}

// described is an event or action in the trace.
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
	case pipeline.StoredLoaded:
		if x.Stored != nil {
			return fmt.Sprintf("StoredLoaded %d positions", x.Stored.Len())
		}
	case pipeline.BucketsFound:
		return fmt.Sprintf("BucketsFound %d answers, %v", len(x.Answers), x.Err)
	case pipeline.ProduceLetters:
		return fmt.Sprintf("ProduceLetters %d", len(x.Letters))
	case pipeline.FindBuckets:
		return fmt.Sprintf("FindBuckets %d", len(x.Lookups))
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

// usesSession tells whether an action is one of those of which a partition makes one at a time, in its session.
func usesSession(a pipeline.Action) bool {
	switch a.(type) {
	case pipeline.ReadClaim, pipeline.NoteWaited, pipeline.SendClaim, pipeline.LoadStored, pipeline.SendWrites, pipeline.ResolveWrites,
		pipeline.AskPositions, pipeline.SendRelease:
		return true
	}
	return false
}
