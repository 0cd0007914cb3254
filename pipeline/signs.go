package pipeline

import (
	"slices"
	"time"

	"waterwheel/internal/record"
)

// signs are the shown state of a partition. They decide nothing, and outlive the state that the protocol forgets.
type signs struct {
	assigned  Instant // when the term began
	committed int64   // the group's offset. -1 means none, or not known.
	end       int64   // the log's end. -1 means unknown.
	readable  int64   // how far it may be read: less than that while a transaction is open
	endAt     Instant // when that was learnt
	read      int64   // the offset after the last record read in this term. Zero means that none was.
	newest    int64   // timestamp of the newest record that was read with the catalog, milliseconds
	last      int64   // the timestamp of the last one
	ages      ages
}

// noSigns are the signs of a partition of which nothing is known.
var noSigns = signs{committed: -1, end: -1, readable: -1}

// begin forgets what an earlier term saw; known tells that it saw the same log a moment ago.
func (s *signs) begin(now Instant, known bool) {
	s.assigned, s.read = now, 0
	if !known {
		s.end, s.readable, s.endAt, s.committed = -1, -1, 0, -1
	}
}

// took notes a record that was read.
func (s *signs) took(r *record.Record) {
	s.read, s.newest, s.last = r.Offset+1, max(s.newest, r.Timestamp), max(0, r.Timestamp)
	s.ages.read(r.Offset, r.Timestamp)
}

// timeOf is the timestamp of the first record that is not durable, 0 when it is not known. One that follows the last record
// read in the log is taken to be as old as that.
func (s *signs) timeOf(undurable int64) int64 {
	s.ages.durable(undurable)
	if len(s.ages.marks) > 0 && undurable >= s.ages.next && undurable < s.readable {
		return s.last
	}
	return s.ages.of(undurable)
}

// sawEnd notes up to where the log may be read, and where it ends, if that is known to be further.
func (s *signs) sawEnd(now Instant, readable, high int64) {
	s.readable, s.end, s.endAt = readable, max(readable, high), now
}

// pause is why nothing is fetched though there may be more: too much waits already.
type pause uint8

const (
	notPaused  pause = iota
	forFlush         // the next flush is full, and the present one not done
	forLetters       // for the dead-letter topic
	forMemory        // the budget is used up
	forSchema        // for the registry
)

// String is what the status says, empty when nothing is paused.
func (p pause) String() string {
	return [...]string{"", "the next flush is full", "too many letters are waiting", "memory is full", "the schema of the next record is not known yet"}[p]
}

// Timestamps are kept of one record a second, and of fewer where that would be more than maxMarks.
const (
	markEvery = int64(time.Second / time.Millisecond)
	maxMarks  = 1024
)

// ages tells, roughly and in little memory, how old the records are that were read and are not durable: a record counts as
// old as the last mark at or before it.
type ages struct {
	marks []mark
	every int64 // least distance of two marks, milliseconds. Zero means markEvery.
	next  int64 // the offset after the last record read
}

type mark struct{ offset, timestamp int64 }

// read notes a record.
func (a *ages) read(offset, timestamp int64) {
	a.next = offset + 1
	if n := len(a.marks); n > 0 {
		every := max(a.every, markEvery)
		if apart := timestamp - a.marks[n-1].timestamp; apart > -every && apart < every {
			return
		}
		if n == maxMarks {
			a.thin()
			a.every = 2 * every
		}
	}
	a.marks = append(a.marks, mark{offset, timestamp})
}

// thin forgets every second mark.
func (a *ages) thin() {
	kept := a.marks[:0]
	for i := 0; i < len(a.marks); i += 2 {
		kept = append(kept, a.marks[i])
	}
	a.marks = kept
}

// durable notes that all records before an offset are.
func (a *ages) durable(offset int64) {
	a.marks = slices.Delete(a.marks, 0, a.last(offset))
	if len(a.marks) <= 1 {
		a.every = 0
	}
}

// of is the timestamp of a record that was read, 0 when it is not known.
func (a *ages) of(offset int64) int64 {
	if offset >= a.next || len(a.marks) == 0 || a.marks[0].offset > offset {
		return 0
	}
	return max(0, a.marks[a.last(offset)].timestamp)
}

// last is the index of the last mark at or before an offset, 0 if there is none.
func (a *ages) last(offset int64) int {
	i := 0
	for i+1 < len(a.marks) && a.marks[i+1].offset <= offset {
		i++
	}
	return i
}
