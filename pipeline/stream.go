package pipeline

import (
	"errors"
	"time"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// recordWork is the cost of a measurement or a letter besides its bytes. It is stated in bytes of JSON that take as long.
const recordWork = 200

// advanceStream starts the next fetch, look-up, letters and flush.
func (w *Worker) advanceStream(m Moment, actions []Action) []Action {
	w.shrink(m)
	if w.mayRead() && w.ledger.next >= w.window && !w.busy.claim && !w.writing() && w.retry.claim.ready(m.Now) {
		actions = w.loadStored(actions)
	}
	actions = w.advanceQuestions(m, actions)
	actions = w.advanceRefused(m, actions)
	actions = w.advanceSchema(m, actions)
	if w.mayFetch(m) {
		w.busy.fetch = true
		actions = append(actions, Fetch{Offset: w.ledger.next})
	}
	actions = w.advanceLookups(m, actions)
	actions = w.advanceLetters(m, actions)
	if w.term.segments.turn || w.crowdedSegments(m.Now) { // They take turns, so that neither keeps the other from going on.
		actions = w.advanceCompaction(m, actions)
		return w.advanceFlush(m, actions)
	}
	actions = w.advanceFlush(m, actions)
	return w.advanceCompaction(m, actions)
}

// writing reports whether a call is under way that excludes every other call except look-ups.
func (w *Worker) writing() bool { return w.flush != nil && w.flush.acting != nil || w.busy.compact }

// mayFetch reports whether the next fetch may start. While too much waits already, the stream pauses.
func (w *Worker) mayFetch(m Moment) bool {
	w.paused = w.pause(m)
	return w.paused == notPaused && w.mayRead() && w.ledger.next < w.window && !w.busy.fetch && w.retry.fetch.ready(m.Now)
}

// pause returns why nothing is fetched although there may be more.
func (w *Worker) pause(m Moment) pause {
	pending, bytes := w.catalog.Pending()
	switch {
	case w.flush != nil && (bytes >= w.o.FlushBytes || pending >= w.o.FlushCount):
		return forFlush
	case w.needed != nil:
		return forSchema
	case w.letterBufferFull():
		return forLetters
	case w.crowded(m):
		return forMemory
	}
	return notPaused
}

// fetched takes a batch in. Each measurement is skipped as stored, inserted, or becomes a letter. A batch may be too much for
// one call or for the dead-letter buffer. Its rest is left, and the next fetch begins with it.
func (w *Worker) fetched(m Moment, e Fetched) {
	w.busy.fetch = false
	if e.Batch.Release != nil {
		defer e.Batch.Release()
	}
	if !w.mayRead() || w.phase != running {
		return // it will be read again
	}
	if e.Err != nil {
		w.fetchFailed(m, e.Err)
		return
	}
	w.succeeded(&w.retry.fetch, Kafka)
	w.signs.sawEnd(m.Now, e.Batch.End, e.Batch.High)
	w.forgetBadSchemas(m.Now)
	if !w.takeAll(e.Batch.Records) {
		return
	}
	w.ledger.next = max(w.ledger.next, e.Batch.Next)
	w.lag.took(m.Now, &e.Batch, w.ledger.next, w.o.FlushInterval)
	if w.stored != nil {
		if last, ok := w.stored.Max(); !ok || w.ledger.next > last {
			w.stored = nil
		}
	}
}

// takeAll takes records until one may not be taken now. The position then stays at that record.
func (w *Worker) takeAll(records []record.Record) bool {
	read, work := 0, 0
	defer func() { w.metrics.read(read) }()
	for i := range records {
		r := &records[i]
		if r.Offset < w.ledger.next {
			continue // a batch may begin before the requested offset
		}
		if r.Offset >= w.window || work >= w.o.Portion || w.letterBufferFull() { // The next window of D may have to be read first.
			w.ledger.next = r.Offset
			return false
		}
		work += w.take(r)
		if w.needed != nil {
			w.ledger.next = r.Offset
			return false
		}
		if !w.mayRead() {
			return false
		}
		read++
		w.ledger.next = r.Offset + 1
	}
	return true
}

// take decodes one record and inserts its measurements. It returns its cost, as bytes of JSON that take about as long.
func (w *Worker) take(r *record.Record) (work int) {
	if r.Unreadable != "" {
		w.skipUnreadable(r)
		return len(r.Value)
	}
	w.signs.took(r)
	if r.Value == nil {
		w.metrics.skipped("tombstone")
		return recordWork
	}
	results, unfolded, err := w.decode(r)
	if w.needs(err) {
		return 0
	}
	work = max(len(r.Value), unfolded) + recordWork*max(1, len(results))
	if err != nil {
		w.bad(r, asDecodeError(err))
		return work
	}
	for range w.o.Decoder.Skipped() {
		w.metrics.skipped(eventSkip)
	}
	for range w.o.Decoder.Tombstones() {
		w.metrics.skipped("tombstone")
	}
	for i := range results {
		if results[i].Err != nil {
			w.bad(r, results[i].Err)
			continue
		}
		if w.insert(r, &results[i].Measurement); w.term.restart != nil {
			return work
		}
	}
	return work
}

func (w *Worker) insert(r *record.Record, measured *measurement.Measurement) {
	if w.stored != nil && w.stored.Contains(measured.Position) {
		w.metrics.skipped(replayed)
		return
	}
	err := w.tryInsert(r, measured)
	if err == nil || w.term.restart != nil {
		return
	}
	bad := measurement.DecodeError{Reason: measurement.InternalError, Detail: err.Error()}
	if reason, ok := errors.AsType[*measurement.DecodeError](err); ok {
		bad = *reason
	}
	bad.Part = record.WholeRecord
	if element, ok := w.o.Decoder.Element(*r, measured.Position.Part); ok {
		bad.Part, bad.Value = measured.Position.Part, element
	}
	w.bad(r, &bad)
}

func (w *Worker) fetchFailed(m Moment, err error) {
	w.retry.fetch.fail(m.Now, w.o.Random)
	switch {
	case errors.Is(err, record.ErrOutOfRange):
		w.question = askBounds
	case errors.Is(err, record.ErrTopicGone):
		w.question = askTopic
	default:
		w.outage(m, Kafka, fetchingRecords, err)
	}
}

func asDecodeError(err error) *measurement.DecodeError {
	if e, ok := errors.AsType[*measurement.DecodeError](err); ok {
		return e
	}
	return internalError(err.Error())
}

// lag follows whether the reading is behind the log's end by more than the last fetch brought. Records that were read while it
// was behind are written as soon as it reaches the end, because there is nothing more to wait for.
type lag struct {
	behind bool
	since  Instant
	over   bool // the end was reached, and no flush was cut since
	ended  bool // the end was reached at least once; what came before that was a backlog
}

// shortLag is the least duration of a lag whose end is a reason to flush, as a fraction of the flush interval. Without it, a
// stream whose fetches are full now and then would be written in small pieces. The lag of the backlog always counts.
const shortLag = 8

// took notes how far a fetched batch was read. The position is next now.
func (l *lag) took(now Instant, b *record.Batch, next int64, interval time.Duration) {
	switch {
	case next >= b.End:
		if l.behind && (!l.ended || now-l.since >= interval/shortLag) {
			l.over = true
		}
		l.behind, l.ended = false, true
	case !b.More && !l.behind:
		l.behind, l.since = true, now
	}
}
