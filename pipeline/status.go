package pipeline

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
)

// Status is what a partition looked like at one moment. It is immutable.
type Status struct {
	Topic     string
	Partition int32
	// Phase is the word for where the tenure stands; Stopped, when not nil, why nothing more is read.
	Phase   string
	Stopped *StopError
	Paused  bool
	// Position is the fetch position, End the log's end, Committed the last offset known to be committed (-1: none).
	Position, End, Committed int64
	// Newest and Durable are record timestamps in milliseconds: of the newest record read, and stored. 0: none yet.
	Newest, Durable int64
	// PendingFor is how long the oldest pending measurement has waited.
	PendingFor time.Duration
	// Pending are the measurements waiting for the next flush, Flushing those in the present one.
	Pending, Flushing int
	// Unknown are writes that were sent and not answered.
	Unknown int
	// Poisoned are records that made the program panic; each became a letter.
	Poisoned int
	// LastFlush is when the last flush was resolved.
	LastFlush Instant
	// Troubles are the failures that are being retried, by server; nil: it works.
	Troubles [servers]*Trouble
	// ClaimWait is how much of the wait for a former owner's writes is left.
	ClaimWait time.Duration
	// Memory by kind, in bytes; ReservedBytes is what will be taken without another fetch, by the next flush above all.
	BucketBytes, PendingBytes, StoredBytes, LetterBytes, LedgerBytes, ReservedBytes int64
	Buckets                                                                         bucketer.Stats
}

// metas are identities of series in memory, see bucketer.Catalog.Metas.
func (w *Worker) metas(most int) []bson.RawValue {
	if w.catalog == nil {
		return nil
	}
	return w.catalog.Metas(most)
}

// Bytes is the sum of the memory of all kinds.
func (s *Status) Bytes() int64 {
	return s.BucketBytes + s.PendingBytes + s.StoredBytes + s.LetterBytes + s.LedgerBytes + s.ReservedBytes
}

// Status describes the worker now.
func (w *Worker) Status(now Instant) *Status {
	s := &Status{
		Topic: w.o.Topic, Partition: w.o.Partition, Phase: w.phase.String(), Stopped: w.halt, Paused: w.paused,
		Position: w.ledger.next, End: w.end, Committed: w.known, Newest: w.newest, Durable: w.durable,
		Poisoned: w.poisoned, LastFlush: w.lastFlush, Troubles: w.troubles, LetterBytes: w.letters.size(), LedgerBytes: w.ledgerBytes(),
	}
	if w.pendingSince > 0 {
		s.PendingFor = now - w.pendingSince
	}
	if w.phase == waiting {
		s.ClaimWait = max(0, max(w.tenure.until, w.memory.unknownUntil)-now)
	}
	if w.flush != nil {
		s.Flushing = w.flush.cut.Measurements
		s.Unknown = len(w.flush.at(toResolve)) + len(w.flush.at(toAsk))
	}
	if w.stored != nil {
		s.StoredBytes = w.stored.Bytes()
	}
	if w.catalog != nil {
		s.Pending, s.PendingBytes = w.catalog.Pending()
		s.BucketBytes = w.catalog.Bytes() - s.PendingBytes
		s.ReservedBytes = w.yetToTake()
		s.Buckets = w.catalog.Stats()
	}
	return s
}
