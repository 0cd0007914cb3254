package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"unsafe"

	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// deadLetterBuffer holds the letters that are not acknowledged, in the order in which they were made: first those under way, then
// those waiting.
type deadLetterBuffer struct {
	sending, waiting []record.DeadLetter
	// bytes is the memory that the letters refer to: messages, values, and once per record its key and headers.
	bytes int64
	// refused means that the dead-letter topic refuses one of the letters, and an operator must act.
	refused bool
}

// size is the memory of the letters, in bytes.
func (b *deadLetterBuffer) size() int64 {
	return b.bytes + int64(cap(b.sending)+cap(b.waiting))*int64(unsafe.Sizeof(record.DeadLetter{}))
}

func (b *deadLetterBuffer) empty() bool { return len(b.sending) == 0 && len(b.waiting) == 0 }

// put keeps a copy of a letter. It copies the record's key and headers, unless the letter before is of the same record.
func (b *deadLetterBuffer) put(l record.DeadLetter) {
	if n := len(b.waiting); n > 0 && b.waiting[n-1].Offset == l.Offset {
		l.Key, l.Headers = b.waiting[n-1].Key, b.waiting[n-1].Headers
	} else {
		l.Key, l.Headers = bytes.Clone(l.Key), bytes.Clone(l.Headers)
		b.bytes += int64(len(l.Key) + len(l.Headers))
	}
	l.Value = bytes.Clone(l.Value)
	b.bytes += int64(len(l.Value) + len(l.Message) + len(l.Cut))
	b.waiting = append(b.waiting, l)
}

// took forgets the first n letters under way, which were acknowledged. The key and headers of a record go with its last letter.
func (b *deadLetterBuffer) took(n int) {
	for i := range b.sending[:n] {
		l := &b.sending[i]
		b.bytes -= int64(len(l.Value) + len(l.Message) + len(l.Cut))
		if i+1 == len(b.sending) || !sharesRecord(l, &b.sending[i+1]) {
			b.bytes -= int64(len(l.Key) + len(l.Headers))
		}
	}
	b.sending = slices.Clone(b.sending[n:]) // the copy frees the acknowledged letters
}

// sharesRecord reports whether two consecutive letters share their key and headers.
func sharesRecord(a, b *record.DeadLetter) bool {
	return unsafe.SliceData(a.Key) == unsafe.SliceData(b.Key) && unsafe.SliceData(a.Headers) == unsafe.SliceData(b.Headers)
}

// recall puts the letters under way back before the waiting ones. They count as not sent.
func (b *deadLetterBuffer) recall() {
	b.sending, b.waiting = nil, append(b.sending, b.waiting...)
}

// deadLetterBufferFull reports whether too many letters wait for another one to be made.
func (w *Worker) deadLetterBufferFull() bool { return w.deadLetters.size() >= w.o.DeadLetterBuffer }

// addDeadLetter keeps a letter until it is acknowledged. Until then no commit passes its offset.
func (w *Worker) addDeadLetter(l record.DeadLetter) {
	cut(&l, w.o.LongestDeadLetter)
	w.deadLetters.put(l)
	w.offsetTracker.open(l.Offset)
}

// cut shortens a letter to its bound. Headers go first, because they take many times their size once they are read. The key is
// next, then the end of the value.
func cut(l *record.DeadLetter, longest int) {
	if longest <= 0 {
		return
	}
	lost := func(what string, length int) {
		if l.Cut != "" {
			l.Cut += ", "
		}
		l.Cut += fmt.Sprintf("%s of %d bytes", what, length)
	}
	if n := len(l.Headers); n > longest/16 {
		lost("headers", n)
		l.Headers = nil
	}
	if n := len(l.Key); n > longest/2 {
		lost("key", n)
		l.Key = nil
	}
	if n, kept := len(l.Value), longest-len(l.Key)-len(l.Headers); n > kept {
		lost("value", n)
		l.Value = l.Value[:kept]
	}
}

// bad makes a letter of a record or of one of its elements. Without a dead-letter topic it stops the partition.
func (w *Worker) bad(r *record.Record, e *measurement.DecodeError) {
	if w.o.StopOnBad {
		w.stopAt(r.Offset, e)
		return
	}
	value := r.Value
	if e.Part != record.WholeRecord {
		value = e.Value
	}
	cut := ""
	if r.Cut > 0 {
		cut = fmt.Sprintf("record of %d bytes", r.Cut)
	}
	w.addDeadLetter(record.DeadLetter{
		Place: w.place(r.Offset), TopicID: w.source.TopicID, Part: e.Part, Timestamp: r.Timestamp, Key: r.Key, Value: value,
		Headers: r.Headers, Reason: string(e.Reason), Message: e.Error(), Cut: cut,
	})
}

// skipUnreadable makes a letter of a record batch that cannot be read, if there is a dead-letter topic. An operator asked to
// skip such batches (KAFKA_SKIP_CORRUPT).
func (w *Worker) skipUnreadable(r *record.Record) {
	w.metrics.counter(w.metrics.unreadable).Inc()
	w.log.Warn("skipping a record batch that cannot be read", "offset", r.Offset, "err", r.Unreadable)
	if w.o.StopOnBad {
		return
	}
	w.addDeadLetter(record.DeadLetter{
		Place: w.place(r.Offset), TopicID: w.source.TopicID, Part: record.WholeRecord, Value: r.Value,
		Reason: string(measurement.Unreadable), Message: r.Unreadable,
		Cut: "the single records, because their record batch cannot be read (the value is the whole batch)",
	})
}

// stopAt stops the partition at a record that should become a letter, because there is no dead-letter topic. The record is not
// done, so the commit stays at it.
func (w *Worker) stopAt(offset int64, why error) {
	w.stop(&record.StopError{Reason: "bad_record", Detail: fmt.Sprintf(
		"the record at offset %d cannot be stored (%v) and DLQ_TOPIC is empty: set DLQ_TOPIC. Or skip the record: "+
			"when all records before it are committed, stop the consumers and set the group's offset to %d", offset, why, offset+1)})
}

// advanceDeadLetters sends all waiting letters, one request at a time.
func (w *Worker) advanceDeadLetters(m Moment) {
	if w.busy.deadLetters || w.deadLetters.refused || len(w.deadLetters.waiting) == 0 || !w.retry.deadLetters.ready(m.Now) {
		return
	}
	w.deadLetters.sending, w.deadLetters.waiting = w.deadLetters.waiting, nil
	w.start(&w.busy.deadLetters, ProduceDeadLetters{DeadLetters: w.deadLetters.sending})
}

// handle forgets the acknowledged letters. The others are sent again.
func (e DeadLettersProduced) handle(w *Worker, m Moment) {
	w.busy.deadLetters = false
	if e.Err == nil {
		e.Written = len(w.deadLetters.sending)
	}
	w.acknowledge(e.Written)
	if stop, ok := errors.AsType[*record.StopError](e.Err); ok {
		w.deadLetters.refused = true
		w.stop(stop)
		return
	}
	if e.Err != nil {
		w.failed(m, &w.retry.deadLetters, DeadLetterTopic, writingDeadLetters, e.Err)
		return
	}
	w.succeeded(&w.retry.deadLetters, DeadLetterTopic)
}

// acknowledge removes the first n letters under way, and puts the others back before the waiting ones.
func (w *Worker) acknowledge(n int) {
	for _, l := range w.deadLetters.sending[:n] {
		w.metrics.deadLetter(l.Reason)
	}
	w.deadLetters.took(n)
	w.offsetTracker.acknowledge(n)
	w.deadLetters.recall()
}

// place is the place of a record of this partition.
func (w *Worker) place(offset int64) record.Place {
	return record.Place{Partition: w.o.Partition, Offset: offset}
}

// A record that makes our own code panic, by a bug, must not block its partition. It becomes a letter like any other record
// that cannot be stored. Broken invariants of the protocol are not caught, so they end the process.

// decode decodes a record. A panic becomes the record's error. The result unfolded is the size of its value without
// compression, in bytes.
func (w *Worker) decode(r *record.Record) (results []measurement.Result, unfolded int, err error) {
	defer measurement.Guard(&err, func(cause any) { w.notePoison(r, cause) })
	results, err = w.o.Decoder.Decode(*r)
	return results, w.o.Decoder.ValueBytes(), err
}

// tryInsert inserts a measurement. After a panic the catalog cannot be trusted. It is dropped, what it held is read again, and
// this measurement is not inserted a second time.
func (w *Worker) tryInsert(r *record.Record, m *measurement.Measurement) (err error) {
	if _, bad := w.poison[m.Position]; bad {
		return internalError("the program has already failed while it stored this record: please report the stack trace in the log")
	}
	defer measurement.Guard(&err, func(cause any) {
		w.notePoison(r, cause)
		w.poison[m.Position] = struct{}{}
		w.restart(w.again())
	})
	return w.catalog.Insert(m)
}

// notePoison counts and logs a record that made the program fail.
func (w *Worker) notePoison(r *record.Record, cause any) {
	w.poisonRecords++
	w.log.Error("a bug in this program: processing a record failed; please report this log line", "offset", r.Offset, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
}

func internalError(detail string) *measurement.DecodeError {
	return &measurement.DecodeError{Reason: measurement.InternalError, Detail: detail, Part: record.WholeRecord}
}

// advanceRefused reads the record of a refused measurement again, for its letter. The read takes the place of a fetch. It also
// happens during a hand-over, which waits for the letter.
func (w *Worker) advanceRefused(m Moment) {
	if len(w.rejected) == 0 || w.halt != nil || w.term.restart != nil || w.busy.fetch || w.deadLetterBufferFull() || !w.retry.fetch.ready(m.Now) {
		return
	}
	if w.o.StopOnBad {
		first := slices.MinFunc(w.rejected, func(a, b bucketer.Rejected) int { return a.Position.Compare(b.Position) })
		w.stopAt(first.Position.Offset, refusal(&first))
		return
	}
	w.start(&w.busy.fetch, ReadRecord{Offset: w.rejected[0].Position.Offset})
}

// refusal says why MongoDB refused a measurement.
func refusal(r *bucketer.Rejected) error {
	return fmt.Errorf("MongoDB refused the measurement with code %d: %s", r.Code, r.Message)
}

// handle makes the letters of refused measurements from their record, which was read again.
func (e RecordRead) handle(w *Worker, m Moment) {
	w.busy.fetch = false
	if e.Batch.Release != nil {
		defer e.Batch.Release()
	}
	if e.Err != nil && !errors.Is(e.Err, record.ErrOutOfRange) {
		w.fetchFailed(m, e.Err) // this read takes the place of a fetch, and leads to the same questions
		return
	}
	offset := w.rejected[0].Position.Offset
	if e.Err == nil && len(e.Batch.Records) == 0 && e.Batch.Next <= offset {
		w.retry.fetch.fail(m.Now, w.o.Random) // no record came, which does not prove that it is gone
		return
	}
	var found *record.Record
	if i := slices.IndexFunc(e.Batch.Records, func(r record.Record) bool { return r.Offset == offset }); i >= 0 {
		found = &e.Batch.Records[i]
	}
	for work := 0; len(w.rejected) > 0 && w.rejected[0].Position.Offset == offset && work < w.o.Portion && !w.deadLetterBufferFull(); {
		work += w.addRefused(found, &w.rejected[0])
		w.rejected = w.rejected[1:]
	}
}

// addRefused makes the letter of a refused measurement. Its record is nil if the log no longer has it. addRefused returns the
// work done, in bytes.
func (w *Worker) addRefused(r *record.Record, rejected *bucketer.Rejected) (work int) {
	letter := record.DeadLetter{
		Place: w.place(rejected.Position.Offset), TopicID: w.source.TopicID, Part: record.WholeRecord,
		Reason: string(measurement.RefusedByDatabase), RefusedByDatabase: true,
		Message: refusal(rejected).Error(),
	}
	if r == nil {
		letter.Cut = "the whole record, because retention deleted it before this letter was written"
	} else {
		letter.Timestamp, letter.Key, letter.Value, letter.Headers = r.Timestamp, r.Key, r.Value, r.Headers
		if element, ok := w.o.Decoder.Element(*r, rejected.Position.Part); ok {
			letter.Part, letter.Value = rejected.Position.Part, element
		}
		work = len(r.Value)
	}
	w.addDeadLetter(letter)
	return work + recordWork
}
