package pipeline

import (
	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// held is what a worker has of the log: what it read and did not store yet, and what it knows of what is stored. It is
// forgotten as a whole, and then read again.
type held struct {
	catalog *bucketer.Catalog
	// catalogClaim is the claim under which the catalog lives.
	catalogClaim claim.Token
	stored       *timeseries.PositionSet // D; nil when the position has passed it
	window       int64                   // D was read for offsets below
	ledger       ledger
	committed    int64 // the last offset known to be committed in a term of the catalog. -1 means none.
	flush        *flush
	letters      letterBuffer
	lookups      []bucketer.Lookup // under way, or to be made again
	// losing is what the log lost before it was read, and is not noted yet. Nil means nothing.
	losing *claim.Lost
	// needed is the schema that the next record names. Nil means that it is known.
	needed *neededSchema
	// rejected are measurements that MongoDB refused, whose records must be read again for their letters.
	rejected     []bucketer.Rejected
	pendingSince Instant        // when the oldest pending measurement came. Zero means none.
	lag          lag            // of the reading
	counted      bucketer.Stats // of the catalog, as far as the metrics have it
}

var nothing = held{committed: -1}

// drop forgets all of it. Sent writes that are not resolved stay in past.
func (w *Worker) drop() {
	w.countBuckets()
	w.held = nothing
	w.signs.ages, w.signs.newest, w.signs.last = ages{}, 0, 0
	w.giveUp(DeadLetters, Registry)
}

// forget drops the state of a partition that belongs to another process now. It is called between terms only.
func (w *Worker) forget() {
	w.drop()
	w.signs = noSigns
	w.giveUp(MongoDB, Kafka, DeadLetters, Registry)
}

// countBuckets brings the metrics up to what the catalog has done.
func (w *Worker) countBuckets() {
	if w.catalog != nil {
		stats := w.catalog.Stats()
		w.metrics.countBuckets(&w.counted, &stats)
		w.counted = stats
	}
}
