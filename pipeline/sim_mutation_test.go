package pipeline_test

import (
	"slices"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
)

// mutation is one guard of the protocol that is removed without a change of the product's code. The ports or the process around a
// worker behave as if the guard were missing.
type mutation string

// These are the mutations.
const (
	noStored                  mutation = "no D"
	storedFromSecondary       mutation = "D from a stale secondary"
	claimsWithoutCompare      mutation = "claim without compare-and-set"
	noWait                    mutation = "no wait"
	unknownForgotten          mutation = "own unknown writes forgotten"
	noLease                   mutation = "no lease"
	leaseByHeartbeats         mutation = "lease renewed by heartbeats"
	answersTrusted            mutation = "lease renewed by one answer"
	warmAnyway                mutation = "warm without the token"
	conditionsIgnored         mutation = "ignored write conditions"
	unknownAsApplied          mutation = "unknown taken as applied"
	unknownAsNotApplied       mutation = "unknown taken as not applied"
	fencesLie                 mutation = "read-back without fence"
	deadLettersUnacknowledged mutation = "offset committed before its letter is acknowledged"
	noTopicID                 mutation = "no topic id"
	firstWindowOnly           mutation = "D of the first window only"
	repairUnconditional       mutation = "repair without its conditions"
	waitOfAnotherClaim        mutation = "a wait carried for another claim"
	sightsUnproven            mutation = "a wait carried on from an unproven sight"
	strangersTrusted          mutation = "commits of another program taken as ours"
	upkeepUnwaited            mutation = "options written before expiry and view are wide"
	sentAsUnsent              mutation = "calls without an answer taken as not sent"
	optionsUnlocked           mutation = "changes of options without a lock"
	frozenForgotten           mutation = "frozen segments that are found taken as none"
	insertsUnawaited          mutation = "a compaction rolled back while inserts of it are on their way"
	insertsUnknown            mutation = "unknown buckets of a compaction taken as applied"
	endsUnknown               mutation = "unknown changes of segments taken as done"
	endsForgotten             mutation = "a compaction rolled back though a segment has ended"
	keyForgotten              mutation = "segments changed without the shard key"
	generationSkipped         mutation = "a term that goes on although a generation was skipped"
	leaseOfOthers             mutation = "a partition handed over under the lease of those that stay"
	startReadBefore           mutation = "a start read before the release"
	releasedFirst             mutation = "a partition released before it is flushed"
	fenceOnOneShard           mutation = "a fence on one shard"
	shardsReadApart           mutation = "shards read one after the other"
	rollBackUnread            mutation = "a compaction rolled back without reading whether its buckets are gone"
	outageAsUnknown           mutation = "an outage of the registry taken as a schema that it does not have"
	unknownAtOnce             mutation = "a schema that is not there yet taken as one that never comes"
)

// provoking names, for some mutations, a schedule against which the guard protects, and how often a run has it in addition to its
// own schedules. Without them the consequences of the missing guard are rare. A schedule may have a pace (as in traits).
var provoking = map[mutation]struct {
	schedule string
	times    int
	pace     float64
}{
	storedFromSecondary: {"rebalance", 3, 0},
	fenceOnOneShard:     {"rebalance", 3, 0},
	shardsReadApart:     {"rebalance", 3, 0},
	noWait:              {"MongoDB hangs", 3, 0},
	warmAnyway:          {"another owner in between", 3, 0},
	conditionsIgnored:   {"bucket closed by an operator", 3, 0},
	unknownAsApplied:    {"MongoDB hangs", 3, 0},
	repairUnconditional: {repairs.name, 10, 0},
	sightsUnproven:      {staleSights.name, 2, 25},
	answersTrusted:      {"coordinator cut off that still answers heartbeats", 3, 0},
	leaseOfOthers:       {"MongoDB hangs, with a rebalance in the middle", 3, 0},
}

// mutated returns an event as the mutation changes it for the worker.
func (r *runner) mutated(e pipeline.Event) pipeline.Event {
	switch r.p.w.broken {
	case strangersTrusted:
		if e, ok := e.(pipeline.ClaimRead); ok && (e.Committed.Consumed || e.Committed.Metadata == strangersMetadata) {
			e.Committed.Consumed, e.Committed.Metadata = false, ""
			return e
		}
	case noStored:
		if e, ok := e.(pipeline.StoredPositionsLoaded); ok && e.Err == nil {
			e.Stored = timeseries.NewPositionSet(e.Stored.Window())
			return e
		}
	case firstWindowOnly:
		if e, ok := e.(pipeline.StoredPositionsLoaded); ok && e.Err == nil && r.phase == "running" {
			e.Stored = timeseries.NewPositionSet(e.Stored.Window())
			return e
		}
	case waitOfAnotherClaim:
		if e, ok := e.(pipeline.ClaimRead); ok && e.Err == nil && e.Seen.Found {
			ms, _ := valueAt(r.p.w.mongo.parts.now(documentID(r.partition)), "waited.ms").AsInt64OK()
			e.Seen.Waited = time.Duration(ms) * time.Millisecond
			return e
		}
	case noWait:
		if e, ok := e.(pipeline.ClaimRead); ok {
			e.Seen.Wait = 0
			return e
		}
	case warmAnyway:
		if e, ok := e.(pipeline.ClaimRead); ok {
			r.hidden = e.Seen.Claim
		}
		if e, ok := e.(pipeline.ClaimRead); ok && e.Err == nil && e.Seen.Found && r.won != (claim.Token{}) {
			e.Seen.Claim = r.won
			return e
		}
	case frozenForgotten:
		if e, ok := e.(pipeline.SegmentsRead); ok {
			e.Segments.All = slices.Clone(e.Segments.All)
			for i := range e.Segments.All {
				if e.Segments.All[i].Frozen() {
					e.Segments.All[i].Compaction = claim.Token{}
				}
			}
			return e
		}
	case endsForgotten:
		if e, ok := e.(pipeline.SegmentsRead); ok {
			e.Segments.All = slices.DeleteFunc(slices.Clone(e.Segments.All), func(s claim.Segment) bool { return s.VisibleUntil != 0 })
			return e
		}
	case insertsUnawaited, insertsUnknown:
		if e, ok := e.(pipeline.CompactedInserted); ok {
			for i := range e.Sent {
				switch {
				case e.Sent[i].Result != bucketer.Unknown:
				case r.p.w.broken == insertsUnknown:
					e.Sent[i].Result = bucketer.Applied
				default:
					e.Sent[i] = bucketer.Sent{Result: bucketer.Refused, Message: "no answer came"}
				}
			}
		}
	case endsUnknown:
		if _, ok := e.(pipeline.SegmentsChanged); ok {
			return pipeline.SegmentsChanged{}
		}
	case outageAsUnknown, unknownAtOnce:
		if e, ok := e.(pipeline.SchemaFetched); ok {
			return r.p.w.mutatedSchema(e)
		}
	case unknownAsApplied:
		return unknownAs(e, bucketer.Applied)
	case unknownAsNotApplied:
		return unknownAs(e, bucketer.NotExecuted)
	}
	return e
}

func unknownAs(e pipeline.Event, result bucketer.Result) pipeline.Event {
	if e, ok := e.(pipeline.WritesSent); ok {
		for i := range e.Sent {
			if e.Sent[i].Result == bucketer.Unknown {
				e.Sent[i].Result = result
			}
		}
	}
	return e
}

var mutations = []mutation{
	noStored, storedFromSecondary, claimsWithoutCompare, noWait, unknownForgotten, noLease, leaseByHeartbeats, answersTrusted, warmAnyway,
	conditionsIgnored, unknownAsApplied, unknownAsNotApplied, fencesLie, deadLettersUnacknowledged, noTopicID,
	firstWindowOnly, repairUnconditional, strangersTrusted, waitOfAnotherClaim, sightsUnproven,
	upkeepUnwaited, optionsUnlocked, sentAsUnsent, generationSkipped, leaseOfOthers, startReadBefore,
	releasedFirst, fenceOnOneShard, shardsReadApart,
}

// TestSimulationNoticesEachMutation removes one guard after the other, and prints the number of runs until the simulation notices
// it.
func TestSimulationNoticesEachMutation(t *testing.T) {
	if underRace {
		t.Skip("the mutations take minutes with the race detector: they are tried without it")
	}
	for _, m := range slices.Concat(mutations, compactionMutations, schemaMutations) {
		t.Run(string(m), func(t *testing.T) {
			runs, w := 0, &world{}
			for w.violation == "" && runs < *simMutationRuns {
				w = simulate(*simSeed+uint64(runs), m)
				runs++
			}
			if w.violation == "" {
				t.Fatalf("it was not noticed in %d runs", runs)
			}
			t.Logf("%5d runs  %s", runs, w.violation)
		})
	}
}
