package pipeline

import (
	"slices"
	"sort"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// Status is the state of a partition at one moment. It is immutable.
type Status struct {
	record.Partition
	TopicID [16]byte
	// Phase is the name of the term's phase. Stopped, when not nil, is why nothing more is read.
	Phase   string
	Stopped *record.StopError
	// Refused, when not nil, tells which other group's claim blocks ours. The claim is read again for a while before the partition
	// stops.
	Refused *record.StopError
	// Paused is why nothing is fetched although there may be more. It is empty while records are fetched.
	Paused string
	// Claim is the claim under which the partition is written. Zero means that there is none.
	Claim claim.Token
	// Between means that there is no term because the group joins. Running means that records are read, or were until the
	// partition stopped. Since is when the term began.
	Between, Running bool
	Since            Instant
	// Position is the next offset to read and Committed the group's offset. Undurable is the first offset that is not durable. It
	// is Position when no record that was read waits. -1 means unknown or none.
	Position, Committed, Undurable int64
	// End is the log's end (the high watermark), and EndAt is when it was learnt. Readable is how far the log may be read, which
	// is less than End while a transaction is open. -1 means unknown.
	End, Readable int64
	EndAt         Instant
	// Transaction is the open transaction beyond which nothing can be read. Nil means that it is not known.
	Transaction *record.Transaction
	// UndurableTime and Newest are timestamps of records, in milliseconds. Zero means unknown. UndurableTime is of the record at
	// Undurable, and Newest of the newest record read.
	UndurableTime, Newest int64
	// ReadTo is the offset after the last record read since the assignment. Zero means none. It stays when the records are
	// forgotten.
	ReadTo int64
	// Unreleased means that the last term ended without releasing its claim, so the next owner waits.
	Unreleased bool
	// PendingFor is how long the oldest pending measurement has waited.
	PendingFor time.Duration
	// Pending counts the measurements that wait for the next flush, Flushing those in the present one.
	Pending, Flushing int
	// Unknown counts the writes that were sent and whose outcome is not known.
	Unknown int
	// InSegments counts the measurements in segments that have not ended, OpenSegments those segments. SegmentAge is how long the
	// oldest of them has been known. Zero means that there is none.
	InSegments   int64
	OpenSegments int
	SegmentAge   time.Duration
	// PoisonRecords counts the records that made the program panic. Each became a letter.
	PoisonRecords int
	// SendBytes is how many bytes of writes one call to the database may carry. It follows from how quickly the database answered
	// lately.
	SendBytes int64
	// LastFlush is when the last flush was resolved.
	LastFlush Instant
	// Failures are the failures that are being retried, by dependency. Nil means that the dependency works.
	Failures [Dependencies]*Failure
	// ClaimWait is how much of the wait for a former owner is left, unless it releases before. FormerOwner is the host of that
	// owner.
	ClaimWait   time.Duration
	FormerOwner string
	// SchemaWait is how long the next record has waited for its schema.
	SchemaWait time.Duration
	// Memory by kind, in bytes. ReservedBytes is the memory to be taken without another fetch, above all by the next flush.
	BucketBytes, PendingBytes, StoredBytes, DeadLetterBytes, TrackingBytes, ReservedBytes int64
	Buckets                                                                               bucketer.Stats
}

// metas returns the metas of up to most series in memory, see bucketer.Catalog.Metas.
func (w *Worker) metas(most int) []bson.RawValue {
	if w.catalog == nil {
		return nil
	}
	return w.catalog.Metas(most)
}

// Bytes is the memory of all kinds together.
func (s *Status) Bytes() int64 {
	return s.BucketBytes + s.PendingBytes + s.StoredBytes + s.DeadLetterBytes + s.TrackingBytes + s.ReservedBytes
}

// Lag is the number of records in the log that are not committed. False means unknown.
func (s *Status) Lag() (records int64, known bool) {
	from := s.Committed
	if from < 0 { // the group has no offset yet
		from = s.Undurable
	}
	if from < 0 || s.End < 0 {
		return 0, false
	}
	return max(0, s.End-from), true
}

// Blocked reports whether the partition has read everything up to an open transaction, and more records lie behind it.
func (s *Status) Blocked() bool {
	return s.Running && s.Stopped == nil && s.Readable >= 0 && s.Position >= s.Readable && s.End > s.Readable
}

// Freshness is the age of the oldest record that is not durable. Zero means that nothing waits and nothing is left to read.
// False means unknown.
func (s *Status) Freshness(now time.Time) (age time.Duration, known bool) {
	switch {
	case s.Undurable >= 0 && s.UndurableTime > 0 && (s.Undurable < s.Position || s.Undurable < s.End):
		return max(0, now.Sub(time.UnixMilli(s.UndurableTime))), true
	case s.Undurable < 0 || s.End < 0:
		return 0, false
	}
	return 0, s.Undurable >= s.End
}

// Status describes the worker now.
func (w *Worker) Status(now Instant) *Status {
	s := &Status{
		Partition: w.o.Partition, TopicID: w.source.TopicID, Phase: w.phase.String(), Stopped: w.halt,
		Refused: w.past.refused.by,
		Between: w.phase == idle, Running: w.phase == running, Since: w.logStatus.assigned, Position: w.position(), End: w.logStatus.end, Readable: w.logStatus.readable, EndAt: w.logStatus.endAt,
		Committed: w.logStatus.committed, Newest: w.logStatus.newest, ReadTo: w.logStatus.read, Unreleased: w.phase == idle && w.past.unreleased,
		PoisonRecords: w.poisonRecords, SendBytes: w.pace.bound, LastFlush: w.lastFlush, Failures: w.failures, DeadLetterBytes: w.deadLetters.size(), TrackingBytes: w.trackingBytes(),
	}
	if w.phase == running && w.term.claimed && w.term.restart == nil {
		s.Claim = w.past.mine
	}
	if s.Running {
		s.Paused = w.paused.String()
	}
	s.Undurable = s.Position
	if w.catalog != nil {
		s.Undurable = w.committable()
		s.UndurableTime = w.logStatus.timeOf(s.Undurable)
		s.Pending, s.PendingBytes = w.catalog.Pending()
		s.BucketBytes = w.catalog.Bytes() - s.PendingBytes
		s.ReservedBytes = w.yetToTake()
		s.Buckets = w.catalog.Stats()
	}
	s.InSegments, s.OpenSegments, s.SegmentAge = w.term.segments.status(now)
	if w.pendingSince > 0 {
		s.PendingFor = now - w.pendingSince
	}
	if w.phase == waiting {
		s.ClaimWait = max(0, max(w.term.until, w.past.unknownUntil)-now)
		s.FormerOwner = w.term.seen.Owner
	}
	if w.needed != nil && w.needed.from > 0 {
		s.SchemaWait = now - w.needed.from
	}
	if w.flush != nil {
		s.Flushing = w.flush.cut.Measurements
		s.Unknown = w.flush.unconfirmed()
	}
	if w.stored != nil {
		s.StoredBytes = w.stored.Bytes()
	}
	return s
}

// position returns the next offset to read. Before the claim that is the start, and before the start is decided the committed
// offset.
func (w *Worker) position() int64 {
	switch {
	case w.catalog != nil || w.term.claimed:
		return w.offsetTracker.next
	case w.term.resolved:
		return w.term.start.Offset
	}
	return w.logStatus.committed
}

// logStatus is the state of a partition that is shown. It decides nothing, and outlives the state that the protocol forgets.
type logStatus struct {
	assigned   Instant // when the term began
	committed  int64   // the group's offset. -1 means none or unknown.
	end        int64   // the log's end. -1 means unknown.
	readable   int64   // how far the log may be read, which is less than end while a transaction is open
	endAt      Instant // when end was learnt
	read       int64   // the offset after the last record read in this term. Zero means none.
	newest     int64   // timestamp in milliseconds of the newest record read since the catalog began
	last       int64   // the timestamp of the last record read
	recordAges recordAges
}

// unknownLog are the signs of an unknown partition.
var unknownLog = logStatus{committed: -1, end: -1, readable: -1}

// begin forgets what an earlier term saw. The argument known means that the last term saw the same log a moment ago.
func (s *logStatus) begin(now Instant, known bool) {
	s.assigned, s.read = now, 0
	if !known {
		s.end, s.readable, s.endAt, s.committed = -1, -1, 0, -1
	}
}

// took notes a record that was read.
func (s *logStatus) took(r *record.Record) {
	s.read, s.newest, s.last = r.Offset+1, max(s.newest, r.Timestamp), max(0, r.Timestamp)
	s.recordAges.read(r.Offset, r.Timestamp)
}

// timeOf returns the timestamp of the first record that is not durable. Zero means unknown. A record of the log behind the last
// one read counts as old as that one.
func (s *logStatus) timeOf(undurable int64) int64 {
	s.recordAges.durable(undurable)
	if len(s.recordAges.marks) > 0 && undurable >= s.recordAges.next && undurable < s.readable {
		return s.last
	}
	return s.recordAges.of(undurable)
}

// sawEnd notes how far the log may be read, and where it ends if that is known to be further.
func (s *logStatus) sawEnd(now Instant, readable, high int64) {
	s.readable, s.end, s.endAt = readable, max(readable, high), now
}

// pause is the reason why nothing is fetched although there may be more, because too much waits already.
type pause uint8

const (
	notPaused      pause = iota
	forFlush             // the next flush is full, and the present one is not done
	forDeadLetters       // waits for the dead-letter topic
	forMemory            // the budget is used up
	forSchema            // waits for the registry
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

// recordAges tells, roughly and in little memory, how old records are that were read and are not durable. A record counts as old as
// the last mark at or before it.
type recordAges struct {
	marks []mark
	every int64 // least distance of two marks, in milliseconds. Zero means markEvery.
	next  int64 // the offset after the last record read
}

type mark struct{ offset, timestamp int64 }

// read notes a record.
func (a *recordAges) read(offset, timestamp int64) {
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
func (a *recordAges) thin() {
	n := 0
	a.marks = slices.DeleteFunc(a.marks, func(mark) bool { n++; return n%2 == 0 })
}

// durable notes that all records before an offset are durable.
func (a *recordAges) durable(offset int64) {
	a.marks = slices.Delete(a.marks, 0, a.last(offset))
	if len(a.marks) <= 1 {
		a.every = 0
	}
}

// of returns the timestamp of a record that was read. Zero means unknown.
func (a *recordAges) of(offset int64) int64 {
	if offset >= a.next || len(a.marks) == 0 || a.marks[0].offset > offset {
		return 0
	}
	return max(0, a.marks[a.last(offset)].timestamp)
}

// last is the index of the last mark at or before an offset. Zero also means that there is none.
func (a *recordAges) last(offset int64) int {
	return max(0, sort.Search(len(a.marks), func(i int) bool { return a.marks[i].offset > offset })-1)
}
