package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

// takeoverState is what becomes of a claim.
type takeoverState string

const (
	takeoverDue       takeoverState = "to be taken over"
	takeoverDone      takeoverState = "taken over"
	takeoverNotNeeded takeoverState = "is the group's already"
	takeoverLiving    takeoverState = "its group has members"
	takeoverForeign   takeoverState = "of another Kafka cluster, left alone"
	takeoverDamaged   takeoverState = "names no group or no claim, left alone: delete this document"
	takeoverMissed    takeoverState = "changed meanwhile, left alone"
)

// TakenPartition is one claim in the output of takeover.
type TakenPartition struct {
	Series string `json:"collection"`
	record.Partition
	From     string        `json:"from"`
	Owner    string        `json:"owner"` // the host that claimed last
	Released bool          `json:"released"`
	State    takeoverState `json:"state"`

	seen sink.PartitionDocument
}

// takeoverView is what takeover prints.
type takeoverView struct {
	To         string           `json:"to"`
	DryRun     bool             `json:"dryRun"`
	Partitions []TakenPartition `json:"partitions"`
}

// living names the groups that Kafka knows members of.
func (v takeoverView) living(members map[string]int) error {
	var groups []string
	for group, n := range members {
		if n > 0 {
			groups = append(groups, fmt.Sprintf("%q (%s)", group, words.Count(n, "member")))
		}
	}
	if groups == nil {
		return nil
	}
	slices.Sort(groups)
	return fmt.Errorf("nothing was changed: Kafka knows members of %s; stop those consumers (one that crashed counts for KAFKA_SESSION_TIMEOUT), then run this again",
		strings.Join(groups, ", "))
}

func (v takeoverView) print(w io.Writer) {
	if len(v.Partitions) == 0 {
		fmt.Fprintln(w, "No partition has been claimed yet: any group may begin.")
		return
	}
	table := text.NewTable(w, "COLLECTION", "PARTITION", "GROUP", "LAST OWNER", "")
	for _, one := range v.Partitions {
		name := one.seen.ID
		if one.Number >= 0 {
			name = one.Partition.String()
		}
		table.Row(one.Series, name, one.From, one.Owner, one.State)
	}
	table.Flush()
	v.printNext(w)
}

// printNext says what to do now.
func (v takeoverView) printNext(w io.Writer) {
	count := func(state takeoverState) (n int) {
		for _, one := range v.Partitions {
			if one.State == state {
				n++
			}
		}
		return n
	}
	switch due, done := count(takeoverDue), count(takeoverDone); {
	case v.DryRun && due > 0:
		fmt.Fprintf(w, "\nThe group %q would take over %s. Nothing was changed.\n", v.To, words.Count(due, "partition"))
	case done > 0:
		fmt.Fprintf(w, "\nThe group %q has taken over %s. Start its consumers with KAFKA_GROUP_ID=%s; those already waiting\n"+
			"for a partition look again at the next rebalance, or when they are restarted.\n", v.To, words.Count(done, "partition"), text.Printable(v.To))
	}
}
