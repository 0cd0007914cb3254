package pipeline

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"waterwheel/bucketer"
	"waterwheel/claim"
	"waterwheel/measurement"
	"waterwheel/record"
	"waterwheel/timeseries"
)

// DefaultWindow is how many offsets D covers at a time: 32 MiB at one bit each, in the worst case.
const DefaultWindow = 1 << 28

// Options set a Worker up. All are required unless said otherwise.
type Options struct {
	Partition record.Partition
	Group     string
	ClusterID string
	// Namespace is database.collection, for the metadata of commits.
	Namespace string
	// Bucketing is the catalog's set-up; its Source is set by the worker, its Collection changes by CollectionChanged.
	Bucketing bucketer.Options
	Decoder   *measurement.Decoder
	// OutOfRange says what to do about an offset beyond the log's end.
	OutOfRange claim.OutOfRange
	// StopOnBad: there is no dead-letter topic, a bad record stops the partition.
	StopOnBad bool
	// FlushInterval bounds how long a measurement waits for its write, FlushBytes and FlushCount how much may wait.
	FlushInterval time.Duration
	FlushBytes    int64
	FlushCount    int
	// Wait is how long the next owner must wait for us: lease and grace. Grace is how long a write may still be executed
	// after it was sent.
	Wait, Grace time.Duration
	// Window is how many offsets D covers at a time; 0: DefaultWindow.
	Window int64
	// Portion is how many bytes of records one call of Handle takes, or what takes as long; 0: DefaultPortion. One record is
	// always taken whole.
	Portion int
	// Letterbox is how many bytes of letters may wait before no record is taken; 0: DefaultLetterbox. LongestLetter is how
	// many bytes of a record its letter keeps; 0: all.
	Letterbox     int64
	LongestLetter int
	// Warm: a catalog outlives a hand-over if nobody was in between.
	Warm bool
	// NewToken makes a random token; Random feeds the jitter of retries.
	NewToken func() claim.Token
	Random   *rand.Rand
	Log      *slog.Logger
	// Metrics and Outages may be nil.
	Metrics *Metrics
	Outages *Outages
}

// phase is where a tenure stands.
type phase uint8

const (
	idle     phase = iota // no tenure
	finding               // asks for the topic's id
	reading               // reads the partition document
	waiting               // waits until nobody else's write can come any more
	proving               // commits the start: a fresh proof of membership
	claiming              // sends the claim
	loading               // reads D
	running               // reads and writes
	stopped               // cannot go on until somebody acts
)

// String is the phase's word on the status page.
func (p phase) String() string {
	return [...]string{"idle", "finding topic", "reading claim", "waiting", "proving", "claiming", "loading", "running", "stopped"}[p]
}

// Worker owns one partition, from its first assignment to this process on. See the package's documentation.
type Worker struct {
	o   Options
	log *slog.Logger

	phase    phase
	source   timeseries.Source
	assigned Assigned
	revoked  bool              // the tenure is to end in order
	halt     *record.StopError // nothing more is read; what was read is still stored
	busy     busy
	retry    retries

	tenure tenure
	past   past

	catalog *bucketer.Catalog
	// catalogClaim is the claim under which the catalog lives.
	catalogClaim claim.Token
	stored       *timeseries.PositionSet // D; nil when the position has passed it
	window       int64                   // D was read for offsets below
	ledger       ledger
	committed    int64 // the last offset known to be committed in a tenure of the catalog, -1: none
	flush        *flush
	letters      letterbox
	lookups      []bucketer.Lookup // under way, or to be made again
	// rejected are measurements that MongoDB refused, whose records must be read again for their letters.
	rejected []bucketer.Rejected
	// poison are measurements whose insertion made the program panic; poisoned counts those and records that could not be
	// decoded for the same reason.
	poison     map[timeseries.Position]struct{}
	poisoned   int
	question   question            // what a failed fetch must find out first
	newOptions *timeseries.Options // of the collection, not yet applied; nil: they have not changed

	pendingSince Instant                // when the oldest pending measurement came, 0: none
	signs        signs                  // what is shown and decides nothing
	paused       pause                  // why nothing is fetched
	counted      bucketer.Stats         // of the catalog, as far as the metrics have it
	lastFlush    Instant                // when the last flush was resolved
	troubles     [Dependencies]*Trouble // what is being retried
}

// busy tells which actions are under way.
type busy struct {
	claim   bool // ReadClaim, NoteWaited, SendClaim, LoadStored, SendRelease
	fetch   bool // Fetch, AskBounds, AskTopic, ReadRecord
	find    bool
	letters bool
}

// retries hold the back-off of each kind of action.
type retries struct{ claim, fetch, find, letters backoff }

// tenure is what belongs to one assignment.
type tenure struct {
	seen     claim.Document
	start    claim.Start
	resolved bool
	until    Instant
	noted    time.Duration // how long the claim seen was waited for, as far as that is written down
	proving  bool          // a commit was asked for that proves the sight of it
	provedBy Instant       // a commit sent after this is the proof
	sent     claim.Token   // the claim sent and not answered
	claimed  bool          // the claim in the document is ours
	foreign  bool          // the release found another claim there
	// handing is how far the hand-over is: the final commit, the release.
	handing  handing
	shutdown bool // the hand-over is the process' last
	dry      bool // nothing more can be flushed in this tenure
	// restart, when set, begins the tenure anew as soon as the flush is resolved.
	restart *Assigned
}

type handing uint8

const (
	notHanding handing = iota
	committing
	releasing
	released
)

// rival is the claim of another group on the partition.
type rival struct {
	by    *record.StopError // nil: there was none at the last look
	since Instant           // when it was seen first, 0: not since the partition stopped for it
}

// past is what outlives tenures and catalogs.
type past struct {
	refused      rival       // of our claim
	mine         claim.Token // the last claim that we know we won
	unknownUntil Instant     // until then, own unknown writes may still be executed (E4)
	sighting     sighting    // of somebody else's claim
}

// NewWorker returns a worker without a tenure.
func NewWorker(o Options) *Worker {
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	if o.Portion <= 0 {
		o.Portion = DefaultPortion
	}
	if o.Letterbox <= 0 {
		o.Letterbox = DefaultLetterbox
	}
	return &Worker{
		o:         o,
		log:       o.Log.With("topic", o.Partition.Topic, "partition", o.Partition.Number),
		committed: -1,
		poison:    map[timeseries.Position]struct{}{},
		signs:     noSigns,
	}
}

// Handle takes an event and returns what is to be done next.
func (w *Worker) Handle(m Moment, e Event) []Action {
	var actions []Action
	switch e := e.(type) {
	case Assigned:
		actions = w.assign(m, e)
	case ClaimRead:
		w.claimRead(m, e)
	case WaitedNoted:
		w.waitedNoted(m, e)
	case Claimed:
		w.claimAnswered(m, e)
	case StoredLoaded:
		w.storedLoaded(m, e)
	case Fetched:
		w.fetched(m, e)
	case BoundsAsked:
		w.boundsAsked(m, e)
	case TopicAsked:
		w.topicAsked(m, e)
	case WritesSent:
		w.writesSent(m, e)
	case WritesResolved:
		w.writesResolved(m, e)
	case PositionsAsked:
		w.positionsAsked(m, e)
	case BucketsFound:
		w.bucketsFound(m, e)
	case RecordRead:
		w.recordRead(m, e)
	case LettersProduced:
		w.lettersProduced(m, e)
	case Committed:
		w.commitAnswered(m, e)
	case Revoked:
		w.revoked, w.tenure.shutdown = true, e.Shutdown
	case Released:
		w.released(m, e)
	case Abandoned:
		w.abandon(m)
		return nil
	case CollectionChanged:
		w.newOptions = &e.Options
		w.followCollection()
		return nil
	case Dropped:
		w.drop()
		w.signs = noSigns
		w.giveUp(MongoDB, Kafka, DeadLetters)
		return nil
	}
	return w.advance(m, actions)
}

// advance starts whatever can be started now.
func (w *Worker) advance(m Moment, actions []Action) []Action {
	if a := w.tenure.restart; a != nil && w.quiet() {
		w.drop()
		if w.revoked {
			return w.leave(actions)
		}
		actions = w.assign(m, *a)
	}
	switch w.phase {
	case finding, reading, waiting, proving, claiming, loading:
		if w.revoked && w.busy == (busy{}) {
			return w.leave(actions)
		}
		actions = w.advanceQuestions(m, w.advanceClaim(m, actions))
	case running:
		actions = w.advanceStream(m, actions)
		if w.revoked {
			actions = w.advanceHandOver(m, actions)
		}
	case stopped:
		if w.revoked && w.busy == (busy{}) {
			return w.leave(actions)
		}
	}
	return actions
}

// leave ends a tenure that never came to read or write.
func (w *Worker) leave(actions []Action) []Action {
	w.phase, w.tenure = idle, tenure{}
	return append(actions, HandedOver{})
}

// quiet tells whether no action is under way whose answer belongs to the present state.
func (w *Worker) quiet() bool {
	return w.flush == nil && w.busy == (busy{})
}

// stop ends the partition's work until somebody acts. The first reason stays: what comes after it comes again.
func (w *Worker) stop(err *record.StopError) {
	w.log.Error("partition stopped", "reason", err.Reason, "err", err.Detail)
	if w.halt == nil {
		w.halt = err
	}
	w.giveUp(Kafka) // nothing is fetched any more
	if w.phase != running {
		w.phase = stopped
		w.giveUp(MongoDB, DeadLetters)
	}
}

// drop forgets the catalog and all that was read with it. What was sent and not resolved stays in past.
func (w *Worker) drop() {
	w.countBuckets()
	w.counted = bucketer.Stats{}
	w.catalog, w.stored, w.flush, w.lookups, w.rejected = nil, nil, nil, nil, nil
	w.ledger, w.letters = ledger{}, letterbox{}
	w.catalogClaim, w.committed, w.pendingSince = claim.Token{}, -1, 0
	w.signs.ages, w.signs.newest, w.signs.last = ages{}, 0, 0
	w.giveUp(DeadLetters)
}

// abandon ends the tenure without a hand-over.
func (w *Worker) abandon(m Moment) {
	if w.flush != nil && w.flush.unresolved() {
		w.past.unknownUntil = m.Now + w.o.Grace
		w.o.Metrics.abandoned()
		w.drop()
	}
	if w.flush != nil || len(w.lookups) > 0 || w.tenure.restart != nil {
		w.drop() // cut or asked for, but never sent, or not to be trusted: the records are read again
	}
	w.letters.recall()
	w.question = askNothing
	w.phase, w.busy, w.tenure = idle, busy{}, tenure{}
}

// Want is the offset that should be committed now, with its metadata; false: none may be.
func (w *Worker) Want() (record.Commit, bool) {
	c := record.Commit{Place: record.Place{Partition: w.o.Partition}, Metadata: w.provenance().String()}
	switch {
	case w.phase == idle || w.tenure.restart != nil && w.committed < 0:
		return record.Commit{}, false
	case w.tenure.restart != nil: // nothing new; but only an answered commit renews the lease, which the flush needs
		c.Offset = w.committed
	case w.catalog != nil && w.tenure.claimed:
		c.Offset = w.committable()
	case w.tenure.resolved && w.halt == nil: // before D only the start itself (E6)
		c.Offset = w.tenure.start.Offset
		if w.assigned.Consumed && !w.tenure.claimed { // the document it was decided by may be an old one
			c.Metadata = claim.ConsumedMetadata
		}
	case w.phase == reading && w.assigned.Committed >= 0 && !w.assigned.Consumed: // as it was: only an answered commit renews the lease
		c.Offset = w.assigned.Committed
		if p, ok := claim.ParseProvenance(w.assigned.Metadata); ok && p.ClusterID == w.o.ClusterID {
			c.Metadata = w.assigned.Metadata // another topic id or collection must not become ours
		}
	default:
		return record.Commit{}, false
	}
	return c, true
}

// countBuckets brings the metrics up to what the catalog has done.
func (w *Worker) countBuckets() {
	if w.catalog != nil {
		stats := w.catalog.Stats()
		w.o.Metrics.countBuckets(&w.counted, &stats)
		w.counted = stats
	}
}

func (w *Worker) provenance() claim.Provenance {
	return claim.Provenance{ClusterID: w.o.ClusterID, TopicID: w.source.TopicID, Namespace: w.o.Namespace}
}

func (w *Worker) committable() int64 {
	oldest, pending := w.catalog.Oldest()
	offset := w.ledger.committable(oldest, pending)
	for _, r := range w.rejected {
		offset = min(offset, r.Position.Offset)
	}
	return offset
}
