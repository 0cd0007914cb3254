package segments

// guard is a rule of the protocol that a run may do without.
type guard string

const (
	always guard = "" // is never missing

	readSegments  guard = "D without segments"
	fenceD        guard = "D is read without a fence"
	waitForFormer guard = "a takeover without its wait"
	underLease    guard = "writes without a lease"
	releaseClean  guard = "a partition is released while writes are unknown"
	claimKeeps    guard = "a claim takes the settling out of the partition document"

	awaitAnswer    guard = "offsets are committed before the write is acknowledged"
	readBack       guard = "an unknown flush is written again under another _id"
	waitConflict   guard = "a conflicted flush of unknown outcome is written elsewhere at once"
	settleResolved guard = "segments whose write is unknown are settled"

	announceFirst guard = "buckets are inserted before the settling is announced"
	announceAlone guard = "an announcement replaces another"
	insertsAcked  guard = "segments end though an insert is not acknowledged"
	insertsInTime guard = "segments end though the inserts took until T"
	editsAsRead   guard = "segments end whatever was edited since"
	commitAll     guard = "a settling is forgotten though not all segments ended"
	showLater     guard = "settled buckets are shown at once"

	recoverFound   guard = "a new owner does not look for a settling"
	waitForInserts guard = "an undo does not wait for inserts of unknown outcome"
	recoverFence   guard = "a settling is judged without a fence"
	undoSticks     guard = "an undo under way is judged anew"
	forgetSticks   guard = "a settling that was done is judged anew"
	unmarkFirst    guard = "an undo deletes buckets before segments are shown again"
	unmarkAcked    guard = "an undo deletes buckets before it is acknowledged that segments are shown again"
	unmarkOwn      guard = "an undo shows segments again whatever ended them"
	unmarkAll      guard = "an undo leaves alone segments that have not ended"
	countUndone    guard = "an undo does not count edits up"
	undoLinger     guard = "an undo after T does not wait for queries"
	deleteAcked    guard = "a settling is forgotten before its buckets are acknowledged as deleted"
	deleteOwn      guard = "an undo deletes buckets by _id alone"
	forgetOwn      guard = "forgetting takes out any settling"

	sweepIdle   guard = "segments are deleted beside an unfinished settling"
	sweepLinger guard = "segments are deleted as soon as they are not shown"

	segmentsFirst guard = "an operator edits buckets before segments"
	editEnded     guard = "an operator leaves alone segments that are not shown any more"
	countEdits    guard = "an operator does not count edits"
	editSame      guard = "an operator does not look at the positions"
	keepMarks     guard = "an operator writes the whole segment as it was read"

	commitUnended   guard = "segments end again"
	readFresh       guard = "segments to settle are read from a server that lags"
	dWithEnded      guard = "D without ended segments"
	dWithHidden     guard = "D without buckets not shown yet"
	announceClaimed guard = "announced whosever the claim is"
	recoverLate     guard = "the settling is read before the wait of a takeover, not after"
)

// guards are those that are missed alone.
var guards = []guard{
	readSegments, fenceD, waitForFormer, underLease, releaseClean, claimKeeps,
	awaitAnswer, readBack, waitConflict, settleResolved,
	announceFirst, announceAlone, insertsAcked, insertsInTime, editsAsRead, commitAll, showLater,
	recoverFound, waitForInserts, recoverFence, undoSticks, unmarkFirst, unmarkAcked, unmarkOwn, unmarkAll, countUndone, undoLinger,
	deleteAcked, deleteOwn, forgetOwn,
	sweepIdle, sweepLinger,
	segmentsFirst, editEnded, countEdits, editSame, keepMarks,
}

// rareFrom is the seed from which forgetSticks is looked for: it is missed in one run of nine thousand.
const rareFrom = 8800

// pairs are rules that stand in for each other: one of them may be missing, not both.
var pairs = [][2]guard{{commitUnended, readFresh}, {dWithEnded, dWithHidden}, {announceClaimed, recoverLate}}

// provoke makes a run have more of the schedule that a guard is for.
func (w *world) provoke(g guard) {
	switch g {
	case announceAlone, undoSticks, unmarkOwn, deleteOwn, forgetOwn: // late commands, and soon the next settling
		w.loss, w.breaks, w.slow, w.often, w.spread, w.catching, w.many, w.trouble = 0, 0.3, 0, 1, grace, 1, 1, 0.003
	case releaseClean: // hand-overs in the middle of settlings
		w.late, w.spread, w.often, w.habit, w.catching = 0.3, grace/4, 1, 4, 1
	case insertsInTime: // an owner that is slow
		w.loss, w.breaks, w.slow, w.ahead, w.often = 0, 0, 0.5, 40, 1
	case waitConflict: // positions deleted, and read again
		w.breaks, w.slow, w.habit, w.edits, w.expiring = 0.3, 0, 6, 2, 0.1
	case editSame: // the same, and a slow operator
		w.loss, w.breaks, w.slow, w.edits, w.expiring = 0, 0, 0.5, 2, 0.3
	}
}
