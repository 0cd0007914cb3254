package pipeline

import (
	"bytes"
	"fmt"
)

// maxLetterBytes is how much may wait for the dead-letter topic before nothing more is read.
const maxLetterBytes = 4 << 20

// letterbox holds the letters that are not acknowledged, in the order they came up.
type letterbox struct {
	waiting []Letter
	// sending is how many of the first are under way.
	sending int
	bytes   int64
}

func (b *letterbox) full() bool { return b.bytes > maxLetterBytes }

func (b *letterbox) empty() bool { return len(b.waiting) == 0 }

// letterBytes is what a letter occupies in memory, roughly.
func letterBytes(l *Letter) int64 {
	return int64(len(l.Key)+len(l.Value)+len(l.Headers)+len(l.Message)) + 200
}

// addLetter keeps a copy of the letter until it is acknowledged, and the commit below its offset.
func (w *Worker) addLetter(l Letter) {
	l.Key, l.Value, l.Headers = bytes.Clone(l.Key), bytes.Clone(l.Value), bytes.Clone(l.Headers)
	w.letters.waiting = append(w.letters.waiting, l)
	w.letters.bytes += letterBytes(&l)
	w.ledger.open(l.Offset)
}

// stopAt stops the partition at a record that should become a letter, when there is no dead-letter topic. The record is
// not done, so the commit stays at it.
func (w *Worker) stopAt(offset int64, why error) {
	w.stop(&StopError{"bad_record", fmt.Sprintf(
		"the record at offset %d cannot be stored (%v) and DLQ_TOPIC is empty: set DLQ_TOPIC, or skip the record, once "+
			"everything before it is committed, by setting the group's offset to %d", offset, why, offset+1)})
}

// advanceLetters sends all letters that wait, one request at a time.
func (w *Worker) advanceLetters(m Moment, actions []Action) []Action {
	if w.busy.letters || w.letters.empty() || !w.retry.letters.ready(m.Now) {
		return actions
	}
	w.busy.letters, w.letters.sending = true, len(w.letters.waiting)
	return append(actions, ProduceLetters{Letters: w.letters.waiting[:w.letters.sending:w.letters.sending]})
}

// lettersProduced forgets the acknowledged letters; after a failure all of them are sent again.
func (w *Worker) lettersProduced(m Moment, e LettersProduced) {
	w.busy.letters = false
	n := w.letters.sending
	w.letters.sending = 0
	if e.Err != nil {
		w.retry.letters.fail(m.Now, w.o.Random)
		w.outage(m, DeadLetters, writingLetters, e.Err)
		return
	}
	w.retry.letters.succeed()
	w.answered(DeadLetters)
	for i := range w.letters.waiting[:n] {
		w.letters.bytes -= letterBytes(&w.letters.waiting[i])
		w.o.Metrics.letter(w.o.Topic, w.letters.waiting[i].Reason)
	}
	w.letters.waiting = append([]Letter(nil), w.letters.waiting[n:]...) // the runner may still hold the old array
	w.ledger.acknowledge(n)
}
