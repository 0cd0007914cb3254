package pipeline_test

import "testing"

// danger is a fault against which the protocol protects, with the rows of the table that count its occurrences.
type danger struct {
	name string
	rows []string
}

// dangers are the dangers that the protocol's design lists, in its words and order. Those added later follow.
var dangers = []danger{
	{"crashes at every step", []string{"crash", "crash in the middle of a call"}},
	{"lost answers (of claims and releases too)", []string{
		"(trait) lost requests and answers", "(met) writes without answer", "(met) claim without answer", "(met) release without answer",
		"(met) a claim whose answer was lost was executed",
	}},
	{"late and partial bulks", []string{"(met) late write", "(trait) partial bulks", "(met) partial bulk"}},
	{"a former owner's write executed at the end of its grace", []string{"(met) write at the end of its grace"}},
	{"late claims", []string{"member evicted while its claim is on its way"}},
	{"a new primary whose majority point lags", []string{
		"new primary whose majority point lags", "(trait) majority reads that lag",
	}},
	{"elections that roll back non-majority writes", []string{"election that rolls back", "(met) writes rolled back", "(met) claims rolled back"}},
	{"a coordinator cut off that still answers", []string{
		"coordinator cut off that still answers heartbeats", "(met) heartbeat answered by a coordinator cut off",
		"(met) lost commit answered by a deposed coordinator",
	}},
	{"lease lapse and resume in one generation", []string{"lease lapse and resume in one generation", "(met) a lapsed lease resumed"}},
	{"warm owners with another owner in between", []string{
		"another owner in between", "(met) warm start", "(met) warm catalog dropped: another owner in between",
	}},
	{"release during a rival's wait", []string{"release on its way while a rival waits", "(met) release while a rival waits"}},
	{"an abandoned flush followed by our own claim", []string{
		"MongoDB hangs, with a rebalance in the middle", "(met) abandoned with unknown writes", "(met) own claim after an abandoned flush",
	}},
	{"the partition document deleted", []string{"partition document deleted"}},
	{"takeover", []string{"takeover by another group"}},
	{"commit lag", []string{"(trait) commit lag"}},
	{"offset resets forward and back", []string{"offsets reset, forward or back", "(met) partitions reset", "group offsets expired"}},
	{"arrays", []string{"(trait) arrays"}},
	{"letters", []string{"(trait) bad records", "(trait) records that MongoDB refuses", "(met) letters", "(met) letters written in part"}},
	{"meta and time edits", []string{"meta edited by an operator", "time edited by an operator"}},
	{"deletes", []string{"bucket deleted by an operator"}},
	{"closes", []string{"bucket closed by an operator"}},
	{"a repair beside a live writer", []string{
		"repair beside a live writer", "(met) buckets doubled", "(met) doubles repaired", "(met) repair meets a live owner's write",
	}},
	{"topic re-creation", []string{"topic deleted and created again"}},
	{"partitions added", []string{"partition added"}},
	{"changed settings between owners", []string{"(trait) settings that differ between owners"}},
	{"log truncation", []string{"log truncated", "records expired"}},
	{"slow rebalances", []string{"slow rebalance", "(met) member too slow for a rebalance"}},

	{"rebalances that stop only what moves", []string{
		"(met) term that goes on in the next generation", "(met) partition handed over in the next generation",
		"(met) hand-over that the lease is too short for", "(met) commit taken while the group joins",
		"(met) commit refused while the group joins", "(met) a generation skipped", "(met) claim released that nothing was written under", "(met) member that lets go before it joins",
	}},
	{"calls that are not sent for want of time", []string{
		"(trait) a slow MongoDB", "(met) write without a turn", "(met) a part of a flush sent",
	}},
	{"another program in the group", []string{"another program was a member", "(met) another program's commit beyond ours"}},
	{"rebalances quicker than the wait", []string{"(met) a wait carried on by another member", "member evicted before it reads the claim"}},
	{"D in several windows", []string{"(met) a further window of D", "(met) a window of D ended early for its memory"}},
	{"no dead-letter topic", []string{
		"(trait) no dead-letter topic", "(met) partition stopped: bad_record", "(met) bad record skipped by an operator",
	}},
	{"an offset out of range that stops", []string{"(met) partition stopped: offset_out_of_range"}},
	{"options that the buckets do not allow", []string{
		"options of the collection changed and set back", "(met) partition stopped for its collection's options",
	}},
	{"options that change", []string{
		"(trait) options that change", "(met) options changed", "(met) a change of options cut off", "(met) a change waits for another's lock",
		"(met) a larger span followed", "(met) an expiry shortened", "(met) buckets of a larger span",
	}},
	{"schemas of a registry", []string{
		"(trait) records that name schemas", "(met) question that the registry does not answer",
		"(met) schema that the registry does not have yet", "(met) schema that the registry never has",
	}},
	{"segments", []string{
		"(trait) segments", "(met) segments of a former owner", "(met) compaction finished", "(met) ended segments deleted",
		"(trait) a series whose buckets MongoDB refuses", "(met) compacted bucket refused",
	}},
	{"a compaction that stops at every step", []string{
		"(met) a compaction found that is not finished", "(met) compacted bucket unknown", "(met) compacted bucket not_executed",
		"(met) change of segments of which it is not known whether it is executed", "(met) compaction found with ended segments", "(met) compaction rolled back",
		"(met) measurements shown twice while nobody finishes a compaction",
	}},
	{"clocks", []string{"process stopped and going on", "clocks of producers jump"}},
	{"a server without sessions", []string{
		"(trait) a server without sessions", "a server without sessions loses what is not in its journal",
	}},
}

// covered prints how often each danger occurred, and fails if one did not occur.
func (y *tally) covered(t *testing.T) {
	for _, d := range dangers {
		t.Log(d.name)
		for _, row := range d.rows {
			t.Logf("%7d runs %8d times  %s", y.runs[row], y.times[row], row)
			if y.runs[row] == 0 {
				t.Errorf("no run had %q", row)
			}
		}
	}
}
