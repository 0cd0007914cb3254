package pipeline

import (
	"cmp"
	"log/slog"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// Worker owns one partition, from its first assignment to the end of this process. See the package's documentation.
type Worker struct {
	o   Options
	log *slog.Logger

	phase    phase
	source   timeseries.Source
	assigned Assigned
	halt     *record.StopError // why the partition stopped. Nothing more is read then.
	busy     busy
	retry    retries
	actions  []Action // of the event being handled

	term term
	past past

	held

	// badSchemas are schemas whose records become letters. The value is the time at which the registry is asked again.
	badSchemas map[measurement.SchemaID]Instant

	// poison are measurements whose insertion made the program panic. poisoned counts them, and records whose decoding made it
	// panic.
	poison        map[timeseries.Position]struct{}
	poisonRecords int
	pace          pace                // of writes
	question      question            // what a failed fetch must find out first
	newOptions    *timeseries.Options // new options of the collection, not yet applied. Nil means none.

	metrics *partitionMetrics

	logStatus logStatus              // shown on the status page; they decide nothing
	paused    pause                  // why no record is fetched
	lastFlush Instant                // when the last flush was resolved
	failures  [Dependencies]*Failure // the requests being retried
}

// busy tells which actions are under way.
type busy struct {
	claim       bool // ReadClaim, WatchClaim, NoteWaited, NoteLost, SendClaim, LoadStoredPositions, SendRelease
	fetch       bool // Fetch, AskBounds, AskTopic, ReadRecord
	find        bool
	deadLetters bool
	schema      bool // FetchSchema
	compact     bool // ReadSegments and every action of a compaction
}

// retries hold the back-off of each kind of action.
type retries struct{ claim, fetch, find, deadLetters, schema backoff }

// rival is the claim of another group on the partition.
type rival struct {
	by    *record.StopError // Nil means that the last look showed none.
	since Instant           // when it was seen first. Zero means that it has not been seen since the partition last stopped for it.
}

// past is the state that outlives terms and catalogs.
type past struct {
	refused       rival         // another group's claim, which keeps us from claiming
	mine          claim.Token   // the last claim that we know to have won
	unknownUntil  Instant       // until then, unknown writes of ours may still be executed (E4)
	observedClaim observedClaim // another owner's claim
	unreleased    bool          // the last term has ended, but its claim was not released
	compactBytes  int64         // the bound of a compaction, by what the server has managed
}

// held is what a worker knows of the log: what it has read and not stored yet, and what it knows to be stored. It is forgotten
// as a whole, and then read again.
type held struct {
	catalog *bucketer.Catalog
	// catalogClaim is the claim under which the catalog lives.
	catalogClaim  claim.Token
	stored        *timeseries.PositionSet // the stored positions. Nil means that the position has passed its last entry.
	window        int64                   // the stored positions cover offsets below this
	offsetTracker offsetTracker
	committed     int64 // the last committed offset known in a term of this catalog. -1 means none.
	flush         *inFlight
	deadLetters   deadLetterBuffer
	lookups       []bucketer.Lookup // under way, or to be repeated
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
	w.logStatus.recordAges, w.logStatus.newest, w.logStatus.last = recordAges{}, 0, 0
	w.giveUp(DeadLetterTopic, Registry)
}

// handle drops the state of a partition that belongs to another process now. It comes between terms only.
func (Dropped) handle(w *Worker, _ Moment) {
	w.drop()
	w.logStatus = unknownLog
	w.giveUp(MongoDB, Kafka, Coordinator, DeadLetterTopic, Registry)
}

// countBuckets adds what the catalog has counted since the last call to the metrics.
func (w *Worker) countBuckets() {
	if w.catalog != nil {
		stats := w.catalog.Stats()
		w.metrics.countBuckets(&w.counted, &stats)
		w.counted = stats
	}
}

// NewWorker returns a worker without a term.
func NewWorker(o Options) *Worker {
	o.Window = cmp.Or(o.Window, DefaultWindow)
	o.Portion = cmp.Or(o.Portion, DefaultPortion)
	o.DeadLetterBuffer = cmp.Or(o.DeadLetterBuffer, DefaultDeadLetterBuffer)
	o.Send = cmp.Or(o.Send, DefaultSend)
	o.SchemaUnknownWait = cmp.Or(o.SchemaUnknownWait, DefaultSchemaUnknownWait)
	o.CompactDelay = cmp.Or(o.CompactDelay, DefaultCompactDelay)
	o.CompactMargin = cmp.Or(o.CompactMargin, DefaultCompactMargin)
	o.SegmentRetention = cmp.Or(o.SegmentRetention, DefaultSegmentRetention)
	o.CompactBytes = cmp.Or(o.CompactBytes, DefaultCompactBytes)
	o.SegmentMeasurements = cmp.Or(o.SegmentMeasurements, DefaultSegmentMeasurements)
	o.Bucketing.FlushWrites = cmp.Or(o.Bucketing.FlushWrites, DefaultFlushWrites)
	if o.newCatalog == nil {
		o.newCatalog = bucketer.New
	}
	return &Worker{
		o:       o,
		metrics: o.Metrics.of(o.Partition),
		log:     o.Log.With("topic", o.Partition.Topic, "partition", o.Partition.Number),
		held:    nothing,
		poison:  map[timeseries.Position]struct{}{}, badSchemas: map[measurement.SchemaID]Instant{},
		pace:      pace{bound: o.Send, target: o.WriteGrace / 8},
		logStatus: unknownLog,
		past:      past{compactBytes: o.CompactBytes},
	}
}

// Handle takes an event and returns the actions that follow. See the table in the package's documentation.
func (w *Worker) Handle(m Moment, e Event) []Action {
	e.handle(w, m)
	switch e.(type) {
	case CompactionAsked, CollectionChanged: // the next event starts what follows
	default:
		w.advance(m)
	}
	actions := w.actions
	w.actions = nil
	return actions
}

// do returns an action to the caller of Handle.
func (w *Worker) do(a Action) { w.actions = append(w.actions, a) }

// start does an action, and notes that it is under way. The handler of its answer notes the end.
func (w *Worker) start(busy *bool, a Action) {
	*busy = true
	w.do(a)
}

// advance starts whatever can be started now.
func (w *Worker) advance(m Moment) {
	w.advanceRestart(m)
	switch {
	case w.phase == idle:
	case w.phase == running:
		w.advanceLoss(m)
		w.advanceStream(m)
		w.advanceHandOver(m)
	case w.term.revoked && w.quiet():
		w.withdraw(m)
	case w.question != askNothing: // the claim waits for the answer
		w.advanceQuestions(m)
	default:
		w.advanceClaim(m)
	}
}

// handle does nothing by itself. A tick starts the next attempt of whatever has failed.
func (Ticked) handle(*Worker, Moment) {}

// quiet reports whether no action is under way whose answer belongs to the present state.
func (w *Worker) quiet() bool {
	return w.flush == nil && w.busy == (busy{})
}
