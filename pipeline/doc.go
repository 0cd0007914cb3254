// Package pipeline carries measurements from a Kafka partition into buckets. It commits an offset when everything before that
// offset is durable. It holds the protocol: when to claim a partition, what may be written, what a write's outcome means, and
// which offset may be committed.
//
// A Worker owns one partition. It is a passive state machine: Handle takes an event and the moment at which it came, and
// returns the actions to carry out. A Worker has no goroutine, no clock and no I/O, so the same events always give the same
// actions. A runner feeds the events to a Worker and has its actions carried out. A Consumer holds the runners and commits for
// all of them together. A term goes on from generation to generation as long as each generation assigns the partition to this
// process. The simulation has its own runners. It shares the code that carries actions out, plans commits and decides which
// terms go on (action.go, commit.go, consumer.go). The package knows Kafka, MongoDB and the dead-letter topic only
// through the small interfaces of ports.go.
//
// # Events and actions
//
// An event has a method handle, in the file of its subject. Then advance starts whatever can start by now, so an action need not
// come from the event that made it possible. An action has a method perform, which returns the event that answers it. The table
// follows the order of a term. A Ticked event starts the next attempt of whatever has failed:
//
//	event                 file of handle       actions that follow
//	Assigned              claiming.go          Open, ReadClaim
//	ClaimRead             claiming.go          CommitNow, NoteWaited
//	ClaimWatched          claiming.go          ReadClaim, NoteWaited
//	WaitedNoted           claiming.go          WatchClaim, CommitNow, ReadClaim, HandedOver
//	Committed             commit.go            SendClaim, SendRelease
//	LostNoted             lost.go              SendWrites, LoadStoredPositions
//	Claimed               claiming.go          LoadStoredPositions, Fetch, SendRelease
//	StoredPositionsLoaded claiming.go          Fetch, ReadSegments, NoteLost
//	Fetched               stream.go            Fetch, LoadStoredPositions, FindBuckets, ProduceDeadLetters, FetchSchema
//	BucketsFound          stream.go            FindBuckets
//	Ticked                worker.go            SendWrites, ResolveWrites, AskPositions, AskBounds, AskTopic, NoteWaited, WatchClaim, FetchSchema
//	WritesSent            flush.go             SendWrites, LoadStoredPositions, Fetch, ReadRecord
//	WritesResolved        flush.go             SendWrites
//	PositionsAsked        flush.go             FindBuckets, SendWrites
//	SchemaFetched         stream.go            Fetch
//	RecordRead            deadletters.go       ProduceDeadLetters
//	DeadLettersProduced   deadletters.go       ProduceDeadLetters, Fetch
//	BoundsAsked           lost.go              Open, NoteLost
//	TopicAsked            lost.go              Open
//	CollectionChanged     options.go
//	SegmentsRead          segments.go          SendWrites, ChangeSegments, DeleteCompacted
//	SegmentsChanged       compactionanswers.go ReadFrozen, ReadSegments, SendWrites
//	FrozenRead            compactionanswers.go InsertCompacted
//	CompactedInserted     compactionanswers.go InsertCompacted, ChangeSegments, DeleteCompacted
//	CompactedDeleted      compactionanswers.go ChangeSegments
//	SegmentsSwept         compactionanswers.go SweepSegments, ChangeSegments
//	CompactionAsked       segments.go
//	Revoked               term.go              SendWrites, SendRelease, HandedOver
//	Released              term.go              HandedOver
//	Abandoned             term.go
//	Dropped               worker.go
//
// # Files
//
// The worker and its state:
//
//	event.go             the events, and the Moment of an event
//	options.go           Options, and changed options of the collection
//	worker.go            Worker, Handle, advance; the state in memory about the log, forgotten as a whole
//	term.go              one assignment: its phases, whether it still reads; its orderly end (flush, commit, release); the term
//	                     begun anew, from another offset or under another topic id
//
// From an assignment to the first record:
//
//	claiming.go          read the claim, wait, prove the membership, claim, read the stored positions; how long a former owner's
//	                     claim has been waited for
//
// Reading and writing:
//
//	stream.go            records in, measurements into the catalog; whether the reading is behind the log's end; schemas that
//	                     records name; looking up stored buckets that may take more measurements
//	lost.go              questions after a failed fetch: the log's bounds, the topic's id; records that retention deleted before
//	                     they were read, and other offsets that the log lacks
//	flush.go             writes, from the cut until each is applied or its measurements are back; how much is sent at a time
//	segments.go          the segments of the partition, and which of them to compact
//	compaction.go        segments compacted into buckets, step by step
//	compactionanswers.go what follows from the answer to each step; segments with series whose buckets MongoDB refuses
//	deadletters.go       bad records on their way to the dead-letter topic: also of measurements that MongoDB refused, and
//	                     records that make the program panic
//	outage.go            failures that are retried, when to try again, and log lines about them, one for all partitions
//	commit.go            which offset may be committed; which commits of the process are due, and what the answers mean
//
// Status and metrics, which decide nothing:
//
//	status.go            Status of a partition; the state of the log for it: its end, ages of records, why nothing is fetched
//	metrics.go           counters, also of the catalogs, and how long those of a partition are shown
//
// Around the workers:
//
//	ports.go             the interfaces to Kafka, MongoDB, the dead-letter topic and the registry
//	runner.go            one worker's goroutine; one term, for the goroutines around it
//	action.go            the actions, each with its execution; the executor
//	consumer.go          all partitions of the process, and whose terms go on in the next generation
//	budget.go            the memory of a worker, and of all partitions together
package pipeline
