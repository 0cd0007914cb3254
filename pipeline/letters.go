package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// letterBuffer holds the letters that are not acknowledged, in the order in which they were made: first those under way, then
// those waiting.
type letterBuffer struct {
	sending, waiting []record.Letter
	// bytes is the memory that the letters refer to: messages, values, and once per record its key and headers.
	bytes int64
	// refused means that the dead-letter topic refuses one of the letters, and an operator must act.
	refused bool
}

// size is the memory of the letters, in bytes.
func (b *letterBuffer) size() int64 {
	return b.bytes + int64(cap(b.sending)+cap(b.waiting))*int64(unsafe.Sizeof(record.Letter{}))
}

func (b *letterBuffer) empty() bool { return len(b.sending) == 0 && len(b.waiting) == 0 }

// put keeps a copy of a letter. It copies the record's key and headers, unless the letter before is of the same record.
func (b *letterBuffer) put(l record.Letter) {
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
func (b *letterBuffer) took(n int) {
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
func sharesRecord(a, b *record.Letter) bool {
	return unsafe.SliceData(a.Key) == unsafe.SliceData(b.Key) && unsafe.SliceData(a.Headers) == unsafe.SliceData(b.Headers)
}

// recall puts the letters under way back before the waiting ones. They count as not sent.
func (b *letterBuffer) recall() {
	b.sending, b.waiting = nil, append(b.sending, b.waiting...)
}

// letterBufferFull reports whether too many letters wait for another one to be made.
func (w *Worker) letterBufferFull() bool { return w.letters.size() >= w.o.LetterBuffer }

// addLetter keeps a letter until it is acknowledged. Until then no commit passes its offset.
func (w *Worker) addLetter(l record.Letter) {
	cut(&l, w.o.LongestLetter)
	w.letters.put(l)
	w.ledger.open(l.Offset)
}

// cut shortens a letter to its bound. Headers go first, because they take many times their size once they are read. The key is
// next, then the end of the value.
func cut(l *record.Letter, longest int) {
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
	w.addLetter(record.Letter{
		Place: w.place(r.Offset), TopicID: w.source.TopicID, Part: e.Part, Timestamp: r.Timestamp, Key: r.Key, Value: value,
		Headers: r.Headers, Reason: string(e.Reason), Message: e.Error(), Cut: cut,
	})
}

// skipUnreadable makes a letter of a record batch that cannot be read, if there is a dead-letter topic. An operator asked to
// skip such batches (KAFKA_SKIP_CORRUPT).
func (w *Worker) skipUnreadable(r *record.Record) {
	w.metrics.unreadable.WithLabelValues().Inc()
	w.log.Warn("skipping a record batch that cannot be read", "offset", r.Offset, "err", r.Unreadable)
	if w.o.StopOnBad {
		return
	}
	w.addLetter(record.Letter{
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

// advanceLetters sends all waiting letters, one request at a time.
func (w *Worker) advanceLetters(m Moment, actions []Action) []Action {
	if w.busy.letters || w.letters.refused || len(w.letters.waiting) == 0 || !w.retry.letters.ready(m.Now) {
		return actions
	}
	w.busy.letters = true
	w.letters.sending, w.letters.waiting = w.letters.waiting, nil
	return append(actions, ProduceLetters{Letters: w.letters.sending})
}

// lettersProduced forgets the acknowledged letters. The others are sent again.
func (w *Worker) lettersProduced(m Moment, e LettersProduced) {
	w.busy.letters = false
	if e.Err == nil {
		e.Written = len(w.letters.sending)
	}
	w.acknowledge(e.Written)
	if stop, ok := errors.AsType[*record.StopError](e.Err); ok {
		w.letters.refused = true
		w.stop(stop)
		return
	}
	if e.Err != nil {
		w.failed(m, &w.retry.letters, DeadLetters, writingLetters, e.Err)
		return
	}
	w.succeeded(&w.retry.letters, DeadLetters)
}

// acknowledge removes the first n letters under way, and puts the others back before the waiting ones.
func (w *Worker) acknowledge(n int) {
	for _, l := range w.letters.sending[:n] {
		w.metrics.letter(l.Reason)
	}
	w.letters.took(n)
	w.ledger.acknowledge(n)
	w.letters.recall()
}

// place is the place of a record of this partition.
func (w *Worker) place(offset int64) record.Place {
	return record.Place{Partition: w.o.Partition, Offset: offset}
}
