package pipeline

import (
	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// held is what a worker knows of the log: what it has read and not stored yet, and what it knows to be stored. It is forgotten
// as a whole, and then read again.
type held struct {
	catalog *bucketer.Catalog
	// catalogClaim is the claim under which the catalog lives.
	catalogClaim claim.Token
	stored       *timeseries.PositionSet // D. Nil means that the position has passed its last entry.
	window       int64                   // D covers offsets below this
	ledger       ledger
	committed    int64 // the last committed offset known in a term of this catalog. -1 means none.
	flush        *flush
	letters      letterBuffer
	lookups      []bucketer.Lookup // under way, or to be repeated
	// losing are the offsets that the log lost before they were read, and that are not noted yet. Nil means none.
	losing *claim.Lost
	// needed is the schema that the next record names and the decoder lacks. Nil means that none is missing.
	needed *neededSchema
	// rejected are measurements that MongoDB refused, whose records must be read again for their letters.
	rejected     []bucketer.Rejected
	pendingSince Instant        // when the oldest pending measurement came. Zero means none.
	lag          lag            // of the reading
	counted      bucketer.Stats // of the catalog, as already added to the metrics
}

var nothing = held{committed: -1}

// drop forgets everything in held. The unresolved outcomes of sent writes stay in past.
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

// countBuckets adds what the catalog has counted since the last call to the metrics.
func (w *Worker) countBuckets() {
	if w.catalog != nil {
		stats := w.catalog.Stats()
		w.metrics.countBuckets(&w.counted, &stats)
		w.counted = stats
	}
}
