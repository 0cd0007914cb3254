package pipeline

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// recordWork is the cost of a measurement or a letter besides its bytes. It is stated in bytes of JSON that take as long.
const recordWork = 200

// advanceStream starts the next fetch, look-up, letters and flush.
func (w *Worker) advanceStream(m Moment) {
	w.shrink(m)
	if w.mayRead() && w.offsetTracker.next >= w.window && !w.busy.claim && !w.writing() && w.retry.claim.ready(m.Now) {
		w.loadStored()
	}
	w.advanceQuestions(m)
	w.advanceRefused(m)
	w.advanceSchema(m)
	if w.mayFetch(m) {
		w.start(&w.busy.fetch, Fetch{Offset: w.offsetTracker.next})
	}
	w.advanceLookups(m)
	w.advanceDeadLetters(m)
	if w.term.segments.turn || w.crowdedSegments(m.Now) { // They take turns, so that neither keeps the other from going on.
		w.advanceCompaction(m)
		w.advanceFlush(m)
	} else {
		w.advanceFlush(m)
		w.advanceCompaction(m)
	}
}

// writing reports whether a call is under way that excludes every other call except look-ups.
func (w *Worker) writing() bool { return w.flush != nil && w.flush.acting != nil || w.busy.compact }

// mayFetch reports whether the next fetch may start. While too much waits already, the stream pauses.
func (w *Worker) mayFetch(m Moment) bool {
	w.paused = w.pause(m)
	return w.paused == notPaused && w.mayRead() && w.offsetTracker.next < w.window && !w.busy.fetch && w.retry.fetch.ready(m.Now)
}

// pause returns why nothing is fetched although there may be more.
func (w *Worker) pause(m Moment) pause {
	pending, bytes := w.catalog.Pending()
	switch {
	case w.flush != nil && (bytes >= w.o.FlushBytes || pending >= w.o.FlushCount):
		return forFlush
	case w.needed != nil:
		return forSchema
	case w.deadLetterBufferFull():
		return forDeadLetters
	case w.crowded(m):
		return forMemory
	}
	return notPaused
}

// handle takes a batch in. Each measurement is skipped as stored, inserted, or becomes a letter. A batch may be too much for
// one call or for the dead-letter buffer. Its rest is left, and the next fetch begins with it.
func (e Fetched) handle(w *Worker, m Moment) {
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
	w.logStatus.sawEnd(m.Now, e.Batch.End, e.Batch.High)
	w.forgetBadSchemas(m.Now)
	if !w.takeAll(e.Batch.Records) {
		return
	}
	w.offsetTracker.next = max(w.offsetTracker.next, e.Batch.Next)
	w.lag.took(m.Now, &e.Batch, w.offsetTracker.next, w.o.FlushInterval)
	if w.stored != nil {
		if last, ok := w.stored.Max(); !ok || w.offsetTracker.next > last {
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
		if r.Offset < w.offsetTracker.next {
			continue // a batch may begin before the requested offset
		}
		if r.Offset >= w.window || work >= w.o.Portion || w.deadLetterBufferFull() { // The next window of the stored positions may have to be read first.
			w.offsetTracker.next = r.Offset
			return false
		}
		work += w.take(r)
		if w.needed != nil {
			w.offsetTracker.next = r.Offset
			return false
		}
		if !w.mayRead() {
			return false
		}
		read++
		w.offsetTracker.next = r.Offset + 1
	}
	return true
}

// take decodes one record and inserts its measurements. It returns its cost, as bytes of JSON that take about as long.
func (w *Worker) take(r *record.Record) (work int) {
	if r.Unreadable != "" {
		w.skipUnreadable(r)
		return len(r.Value)
	}
	w.logStatus.took(r)
	if r.Value == nil {
		w.metrics.skipped("tombstone", 1)
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
	w.metrics.skipped(eventSkip, w.o.Decoder.Skipped())
	w.metrics.skipped("tombstone", w.o.Decoder.Tombstones())
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
		w.metrics.skipped(replayed, 1)
		return
	}
	err := w.tryInsert(r, measured)
	if err == nil || w.term.restart != nil {
		return
	}
	bad := *asDecodeError(err)
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

const (
	// badSchemaFor is how long an answer that makes letters is remembered.
	badSchemaFor = 10 * time.Minute
	// mostBadSchemas bounds the remembered answers.
	mostBadSchemas = 1000
)

// neededSchema is the schema that the next record names and that the decoder does not know.
type neededSchema struct {
	id        measurement.SchemaID
	from      Instant // when it was first asked for. Zero means not yet.
	asked     Instant // when it was last asked for
	isUnknown bool    // the registry answered that it does not have the schema
	since     Instant // when it first answered so
}

// advanceSchema asks for the schema that the next record names. No record is read before the answer.
func (w *Worker) advanceSchema(m Moment) {
	if w.needed == nil || !w.mayRead() || w.busy.schema || !w.retry.schema.ready(m.Now) {
		return
	}
	if w.needed.from == 0 {
		w.needed.from = m.Now
	}
	w.needed.asked = m.Now
	w.start(&w.busy.schema, FetchSchema{w.needed.id})
}

// handle goes on with the record that names the schema. The partition waits while the registry does not answer.
func (e SchemaFetched) handle(w *Worker, m Moment) {
	w.busy.schema = false
	if w.needed == nil || w.needed.id != e.ID {
		return // the records were forgotten, and will be read again
	}
	switch {
	case e.Err != nil:
		w.failed(m, &w.retry.schema, Registry, readingSchema, e.Err)
	case e.Answer.Unknown:
		w.answered(Registry)
		w.schemaUnknown(m, e.Answer.KnowsTopic)
	default:
		w.succeeded(&w.retry.schema, Registry)
		if e.Answer.Schema.Reason != "" {
			w.judge(m, e.Answer.Schema)
		} else {
			w.learn(e.Answer.Schema)
		}
	}
}

// schemaUnknown asks again for a while, because a registry's servers do not all learn of a new schema at once. Only a question asked
// after that time ends the wait. The time of the answer does not count, because the process may have been suspended meanwhile. A
// registry that has known no schema of the topic so far may be the wrong one. It must not turn a whole topic into
// letters.
func (w *Worker) schemaUnknown(m Moment, knowsTopic bool) {
	if !w.needed.isUnknown {
		w.needed.isUnknown, w.needed.since = true, m.Now
	}
	switch {
	case w.needed.asked-w.needed.since < w.o.SchemaUnknownWait:
		w.retry.schema.fail(m.Now, w.o.Random)
	case knowsTopic:
		w.retry.schema.succeed()
		w.judge(m, measurement.Schema{Reason: measurement.UnknownSchema, Detail: fmt.Sprintf("the registry has had no schema with this id for %v", w.o.SchemaUnknownWait)})
	default:
		w.stop(&record.StopError{Reason: "unknown_schema", Detail: fmt.Sprintf(
			"the registry has no schema %s, which the record at offset %d needs, and has returned no schema of this topic before: is SCHEMA_REGISTRY_URL the right registry?", w.needed.id, w.offsetTracker.next)})
	}
}

// judge gives the decoder a schema whose records become letters, and remembers to ask for it again.
func (w *Worker) judge(m Moment, s measurement.Schema) {
	if len(w.badSchemas) >= mostBadSchemas {
		w.forgetBadSchemas(m.Now + badSchemaFor)
	}
	w.badSchemas[w.needed.id] = m.Now + badSchemaFor
	w.learn(s)
}

// forgetBadSchemas makes the decoder ask again for bad schemas whose time is over.
func (w *Worker) forgetBadSchemas(now Instant) {
	for id, until := range w.badSchemas {
		if now >= until {
			delete(w.badSchemas, id)
			w.o.Decoder.Forget(id)
		}
	}
}

// learn gives the decoder the schema that the next record names.
func (w *Worker) learn(s measurement.Schema) {
	w.o.Decoder.Learn(w.needed.id, s)
	w.needed = nil
}

// needs reports whether a record names a schema that must be asked for first.
func (w *Worker) needs(err error) bool {
	need, is := errors.AsType[*measurement.NeedSchemaError](err)
	if is {
		w.needed = &neededSchema{id: need.ID}
	}
	return is
}

// maxLookups is how many look-ups are made at a time.
const maxLookups = 1000

// advanceLookups starts the next look-up.
func (w *Worker) advanceLookups(m Moment) {
	if !w.mayFind(m) {
		return
	}
	if w.lookups == nil {
		w.lookups = w.catalog.Lookups(maxLookups)
	}
	if len(w.lookups) > 0 {
		w.start(&w.busy.find, FindBuckets{Lookups: w.lookups})
	}
}

// mayFind reports whether the next look-up may start. A measurement that awaits a look-up takes more memory once its look-up is
// answered. So when memory is short, a flush comes first.
func (w *Worker) mayFind(m Moment) bool {
	if w.busy.find || w.term.revoked || !w.retry.find.ready(m.Now) {
		return false
	}
	pending, _ := w.catalog.Pending()
	return pending == 0 && w.flush == nil || !w.over(m)
}

// handle gives the answers to the catalog.
func (e BucketsFound) handle(w *Worker, m Moment) {
	w.busy.find = false
	if e.Err != nil {
		w.failed(m, &w.retry.find, MongoDB, lookingUp, e.Err)
		return
	}
	w.succeeded(&w.retry.find, MongoDB)
	w.lookups = unanswered(w.lookups, e.Answers)
	if w.catalog != nil {
		w.catalog.Load(e.Answers)
	}
}

// unanswered returns the look-ups that must be asked again. The answers have the order of the look-ups.
func unanswered(asked []bucketer.Lookup, answers []bucketer.Answer) []bucketer.Lookup {
	var left []bucketer.Lookup
	for i := range asked {
		l := &asked[i]
		if len(answers) > 0 && answers[0].Lookup.IsSame(l) {
			answers = answers[1:]
		} else if !l.Ahead {
			left = append(left, *l)
		}
	}
	return left
}

// answerBytes is the memory of answers. Several answers may share a document, which counts once.
func answerBytes(answers []bucketer.Answer) int64 {
	bytes := int64(cap(answers)) * int64(unsafe.Sizeof(bucketer.Answer{}))
	known := map[*byte]struct{}{}
	for i := range answers {
		bytes += int64(cap(answers[i].Candidates)) * int64(unsafe.Sizeof(bucketer.Candidate{}))
		for _, c := range answers[i].Candidates {
			at := unsafe.SliceData(c.Document)
			if _, ok := known[at]; !ok {
				known[at] = struct{}{}
				bytes += int64(cap(c.Document))
			}
		}
	}
	return bytes
}
