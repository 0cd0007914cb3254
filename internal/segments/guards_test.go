package segments

// guard is a rule of the protocol. A run can be made without it.
type guard string

const (
	always guard = "" // used for rules that are never missing

	readSegments  guard = "D without segments"
	fenceD        guard = "D is read without a fence"
	waitForFormer guard = "a takeover without its wait"
	underLease    guard = "writes without a lease"
	releaseClean  guard = "a partition is released while writes are unknown"

	awaitAnswer     guard = "offsets are committed before the write is acknowledged"
	readBack        guard = "an unknown flush is written again under another _id"
	compactResolved guard = "segments whose write is unknown are compacted"

	freezeFirst   guard = "segments are read before they are frozen"
	freezeAcked   guard = "segments are read before their freeze is acknowledged"
	readFence     guard = "frozen segments are read without a fence"
	insertsAcked  guard = "segments end though an insert is not acknowledged"
	insertsInTime guard = "segments end though the inserts took until T"
	endsAcked     guard = "a compaction counts as finished before all ends are acknowledged"
	showLater     guard = "buckets of a compaction are shown at once"

	recoverFound    guard = "a new owner does not look for frozen segments"
	waitForCommands guard = "a compaction is judged while its commands are unknown"
	recoverFence    guard = "a compaction is judged without a fence"
	endRest         guard = "a compaction is rolled back though a segment has ended"
	deleteFirst     guard = "a roll-back unfreezes segments before buckets are deleted"
	deleteAcked     guard = "a roll-back unfreezes segments before the deletion is acknowledged"

	sweepLinger guard = "segments are deleted as soon as they are not shown"

	editLater    guard = "an operator does not wait for the end of segments"
	repairOpen   guard = "a repair edits frozen segments"
	repairSame   guard = "a repair does not look at the measurements"
	repairStable guard = "a repair keeps a measurement in a bucket that may be rolled back"

	dWithEnded  guard = "D without ended segments"
	dWithHidden guard = "D without buckets not shown yet"
)

// guards are the rules that are tested by leaving out each of them alone.
var guards = []guard{
	readSegments, fenceD, waitForFormer, underLease, releaseClean,
	awaitAnswer, readBack, compactResolved,
	freezeFirst, freezeAcked, readFence, insertsAcked, insertsInTime, endsAcked, showLater,
	recoverFound, waitForCommands, recoverFence, endRest, deleteFirst, deleteAcked,
	sweepLinger,
	editLater, repairOpen, repairSame, repairStable,
}

// pairs are rules that replace each other. One of them may be missing, but not both.
var pairs = [][2]guard{{dWithEnded, dWithHidden}}

// provoke makes those events more frequent in a run that a guard is for.
func (w *world) provoke(g guard) {
	switch g {
	case releaseClean: // releases during compactions
		w.late, w.spread, w.often, w.habit, w.catching = 0.3, writeGrace/4, 1, 4, 1
	case insertsInTime: // a slow owner
		w.loss, w.breaks, w.slow, w.catching, w.ahead, w.often, w.failure = 0, 0, 0.3, 1, 40, 1, 0.003
	case compactResolved: // a flush that takes longer to judge than its segment exists
		w.loss, w.breaks, w.slow, w.lazy, w.ahead, w.often, w.many, w.failure = 0, 0.1, 0, 0.5, 40, 1, 6, 0.003
	case repairOpen, repairStable: // a slow operator
		w.loss, w.breaks, w.slow, w.lazy, w.edits, w.expiring = 0, 0, 0.5, 0.5, 2, 0.3
	case repairSame: // a slow repair, and an operator who does not have to wait long
		w.loss, w.late, w.breaks, w.slow, w.lazy, w.edits, w.ahead, w.often, w.many, w.failure = 0, 0.05, 0, 0, 0.5, 2, 40, 1, 6, 0.003
	}
}
