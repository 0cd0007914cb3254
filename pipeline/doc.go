// Package pipeline carries measurements from a Kafka partition into buckets. It commits an offset when everything before that
// offset is durable. It holds the protocol: when to claim a partition, what may be written, what a write's outcome means, and
// which offset may be committed.
//
// A Worker owns one partition. It is a passive state machine: Handle takes an event and the moment at which it came, and
// returns the actions to carry out. A Worker has no goroutine, no clock and no I/O, so the same events always give the same
// actions. A runner feeds the events to a Worker and has its actions carried out. A Consumer holds the runners and commits for
// all of them together. A term goes on from generation to generation as long as each generation assigns the partition to this
// process. The simulation has its own runners. It shares the code that carries actions out, plans commits and decides which
// terms go on (perform.go, commitplan.go, assignment.go). The package knows Kafka, MongoDB and the dead-letter topic only
// through the small interfaces of ports.go.
//
// # Events and actions
//
// Handle gives an event to the function below. Then advance starts whatever can start by now, so an action need not come from
// the function that made it possible. The table follows the order of a term. A Ticked event starts the next attempt of whatever
// has failed:
//
//	event             function          file                 actions that follow
//	Assigned          assign            claiming.go          Open, ReadClaim
//	ClaimRead         claimRead         claiming.go          CommitNow, NoteWaited
//	ClaimWatched      claimWatched      claiming.go          ReadClaim, NoteWaited
//	WaitedNoted       waitedNoted       observed.go          WatchClaim, CommitNow, ReadClaim, HandedOver
//	Committed         commitAnswered    commit.go            SendClaim, SendRelease
//	LostNoted         lostNoted         lost.go              SendWrites, LoadStored
//	Claimed           claimAnswered     claiming.go          LoadStored, Fetch, SendRelease
//	StoredLoaded      storedLoaded      claiming.go          Fetch, ReadSegments, NoteLost
//	Fetched           fetched           stream.go            Fetch, LoadStored, FindBuckets, ProduceLetters, FetchSchema
//	BucketsFound      bucketsFound      lookups.go           FindBuckets
//	Ticked            advance           worker.go            SendWrites, ResolveWrites, AskPositions, AskBounds, AskTopic, NoteWaited, WatchClaim, FetchSchema
//	WritesSent        writesSent        flush.go             SendWrites, LoadStored, Fetch, ReadRecord
//	WritesResolved    writesResolved    flush.go             SendWrites
//	PositionsAsked    positionsAsked    flush.go             FindBuckets, SendWrites
//	SchemaFetched     schemaFetched     schemas.go           Fetch
//	RecordRead        recordRead        refused.go           ProduceLetters
//	LettersProduced   lettersProduced   letters.go           ProduceLetters, Fetch
//	BoundsAsked       boundsAsked       question.go          Open, NoteLost
//	TopicAsked        topicAsked        question.go          Open
//	CollectionChanged changeCollection  collection.go
//	SegmentsRead      segmentsRead      segments.go          SendWrites, ChangeSegments, DeleteCompacted
//	SegmentsChanged   segmentsChanged   compactionanswers.go ReadFrozen, ReadSegments, SendWrites
//	FrozenRead        frozenRead        compactionanswers.go InsertCompacted
//	CompactedInserted compactedInserted compactionanswers.go InsertCompacted, ChangeSegments, DeleteCompacted
//	CompactedDeleted  compactedDeleted  compactionanswers.go ChangeSegments
//	SegmentsSwept     segmentsSwept     compactionanswers.go SweepSegments, ChangeSegments
//	CompactionAsked   askCompaction     segments.go
//	Revoked           revoke            handover.go          SendWrites, SendRelease, HandedOver
//	Released          released          handover.go          HandedOver
//	Abandoned         abandon           term.go
//	Dropped           forget            held.go
//
// # Files
//
// The worker, and what it knows:
//
//	event.go             Event and Action, and the Moment of an event
//	options.go           Options
//	worker.go            Worker, Handle, advance
//	term.go              one assignment: its phases, whether it still reads, how it ends
//	held.go              what is in memory of the log, forgotten as a whole
//	memory.go            how many bytes that is, and what must be given back
//
// From an assignment to the first record:
//
//	claiming.go          read the claim, wait, prove the membership, claim, read D
//	observed.go          how long a former owner's claim has been waited for
//	lost.go              records that retention deleted before they were read, and other offsets that the log does not have
//	restart.go           the term begun anew, from another offset or under another topic id
//
// Reading and writing:
//
//	stream.go            records in, measurements into the catalog
//	lag.go               whether the reading is behind the log's end
//	schemas.go           schemas that records name, asked for before the records are taken
//	question.go          what a failed fetch must find out: the log's bounds, the topic's id
//	lookups.go           stored buckets looked up, to be gone on with
//	flush.go             writes, from the cut until each is applied or its measurements are back
//	inflight.go          which writes of a flush are where
//	segments.go          which segments there are, which of them are to be compacted
//	compaction.go        segments compacted into buckets, step by step
//	compactionanswers.go what follows from the answer to each step
//	setaside.go          segments with series whose buckets MongoDB refuses
//	pace.go              how much of a flush is sent at a time
//	letters.go           bad records on their way to the dead-letter topic
//	refused.go           letters of measurements that MongoDB refused
//	poison.go            records that make the program panic
//	collection.go        changed options of the collection
//	backoff.go           when to try again
//	commit.go            which offset may be committed, and what the answer means
//	handover.go          the end in order: flush, commit, release
//
// Status and metrics, which decide nothing:
//
//	status.go            Status of a partition
//	signs.go             what it tells of the log: its end, ages of records, why nothing is fetched
//	outage.go            what fails and is tried again
//	outages.go           the lines about that, one for all partitions
//	metrics.go           counters
//	partitionseries.go   for how long the counters of a partition are shown
//	bucketmetrics.go     counters of the catalogs
//
// Around the workers:
//
//	ports.go             what Kafka, MongoDB and the dead-letter topic must offer
//	runner.go            one worker's goroutine
//	termrun.go           one term, as the goroutines around it see it
//	assignment.go        which partitions this process has, and which of them stay in the next generation
//	perform.go           one action carried out, and the event that answers it
//	committer.go         the commits of the process
//	commitplan.go        which are due, and what the answers mean
//	consumer.go          all partitions of the process
//	budget.go            the memory of all of them together
package pipeline
