package pipeline

import (
	"slices"
	"time"

	"waterwheel/internal/record"
)

// signs is the state of a partition that is shown. It decides nothing, and outlives the state that the protocol forgets.
type signs struct {
	assigned  Instant // when the term began
	committed int64   // the group's offset. -1 means none or unknown.
	end       int64   // the log's end. -1 means unknown.
	readable  int64   // how far the log may be read, which is less than end while a transaction is open
	endAt     Instant // when end was learnt
	read      int64   // the offset after the last record read in this term. Zero means none.
	newest    int64   // timestamp in milliseconds of the newest record read since the catalog began
	last      int64   // the timestamp of the last record read
	ages      ages
}

// noSigns are the signs of an unknown partition.
var noSigns = signs{committed: -1, end: -1, readable: -1}

// begin forgets what an earlier term saw. The argument known means that the last term saw the same log a moment ago.
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

// timeOf returns the timestamp of the first record that is not durable. Zero means unknown. A record of the log behind the last
// one read counts as old as that one.
func (s *signs) timeOf(undurable int64) int64 {
	s.ages.durable(undurable)
	if len(s.ages.marks) > 0 && undurable >= s.ages.next && undurable < s.readable {
		return s.last
	}
	return s.ages.of(undurable)
}

// sawEnd notes how far the log may be read, and where it ends if that is known to be further.
func (s *signs) sawEnd(now Instant, readable, high int64) {
	s.readable, s.end, s.endAt = readable, max(readable, high), now
}

// pause is the reason why nothing is fetched although there may be more, because too much waits already.
type pause uint8

const (
	notPaused  pause = iota
	forFlush         // the next flush is full, and the present one is not done
	forLetters       // waits for the dead-letter topic
	forMemory        // the budget is used up
	forSchema        // waits for the registry
)

// String is the text for the status page. It is empty when nothing is paused.
func (p pause) String() string {
	return [...]string{"", "the next flush is full", "too many dead letters are waiting", "the memory limit is reached", "the schema of the next record is not known yet"}[p]
}

// ages keeps one timestamp per second, and fewer if that would be more than maxMarks.
const (
	markEvery = int64(time.Second / time.Millisecond)
	maxMarks  = 1024
)

// ages tells, roughly and in little memory, how old records are that were read and are not durable. A record counts as old as
// the last mark at or before it.
type ages struct {
	marks []mark
	every int64 // least distance of two marks, in milliseconds. Zero means markEvery.
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

// durable notes that all records before an offset are durable.
func (a *ages) durable(offset int64) {
	a.marks = slices.Delete(a.marks, 0, a.last(offset))
	if len(a.marks) <= 1 {
		a.every = 0
	}
}

// of returns the timestamp of a record that was read. Zero means unknown.
func (a *ages) of(offset int64) int64 {
	if offset >= a.next || len(a.marks) == 0 || a.marks[0].offset > offset {
		return 0
	}
	return max(0, a.marks[a.last(offset)].timestamp)
}

// last is the index of the last mark at or before an offset. Zero also means that there is none.
func (a *ages) last(offset int64) int {
	i := 0
	for i+1 < len(a.marks) && a.marks[i+1].offset <= offset {
		i++
	}
	return i
}
