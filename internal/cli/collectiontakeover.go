package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

func (p *Program) takeoverCommand() *cobra.Command {
	var to string
	var dryRun bool
	cmd := p.onCollections(&cobra.Command{
		Use:   "takeover",
		Short: "Let another consumer group write a collection",
		Long: "Only one consumer group may write a collection: the claim of each partition names the group. This command gives all\n" +
			"partitions of a collection to another group. Stop the consumers of the former group first: while the former group has\n" +
			"members, the command changes nothing. The first consumer of the new group then waits until no more writes of the former\n" +
			"group can arrive.\n\n" +
			"If the new group has no committed offset for a partition, it begins at the offset at which the last owner began. Stored\n" +
			"records are recognised and skipped.",
		Example: "  waterwheel collection takeover --to waterwheel-2 --dry-run\n  KAFKA_GROUP_ID=waterwheel-2 waterwheel collection takeover",
		Args:    noArguments,
	}, func(ctx context.Context, with collections, _ []string) error {
		client, err := kafka.Open(ctx, connect.KafkaOptions(with.config, with.log), prometheus.NewRegistry())
		if err != nil {
			return err
		}
		defer client.Close()
		t := takeover{claims: func(series string) claimStore { return with.of(series) }, groups: client, clusterID: client.ClusterID(), to: cmp.Or(to, with.config.Kafka.GroupID), dryRun: dryRun}
		view, err := t.run(ctx, with.series)
		return errors.Join(err, p.show(view, view.print))
	})
	cmd.Flags().StringVar(&to, "to", "", "the group that is to write from now on; default: KAFKA_GROUP_ID")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be done, and do nothing")
	return cmd
}

// claimStore reads the claims on a time series, and gives them to another group. A sink.Contents implements it.
type claimStore interface {
	claimSource
	// TakeOver gives one partition to a group. False means that its document has changed since it was read.
	TakeOver(ctx context.Context, seen sink.PartitionDocument, group string) (bool, error)
}

// groupStates describes the consumer groups of a cluster. *kafka.Client implements it.
type groupStates interface {
	// Members returns the members of a group. It returns none if Kafka calls the group Empty or Dead.
	Members(ctx context.Context, group string) ([]kafka.Member, error)
}

// takeover gives partitions to another group.
type takeover struct {
	claims    func(series string) claimStore
	groups    groupStates
	clusterID string
	to        string
	dryRun    bool
}

// run examines all claims before it changes the first. If one group has members, it changes nothing.
func (t takeover) run(ctx context.Context, series []string) (takeoverView, error) {
	view := takeoverView{To: t.to, DryRun: t.dryRun, Partitions: []takenPartition{}}
	members := map[string]int{}
	for _, name := range series {
		seen, err := t.claims(name).Partitions(ctx)
		if err != nil {
			return view, err
		}
		for _, d := range seen {
			one := takenPartition{
				Series: name, Partition: record.Partition{Topic: d.Topic, Number: d.Partition}, From: d.Group, Owner: d.Owner, Released: d.Released, seen: d,
			}
			if one.State, err = t.judge(ctx, d, members); err != nil {
				return view, err
			}
			view.Partitions = append(view.Partitions, one)
		}
	}
	if err := view.living(members); err != nil || t.dryRun {
		return view, err
	}
	return view, t.change(ctx, view.Partitions)
}

// judge decides about a claim, and records how many members its group has.
func (t takeover) judge(ctx context.Context, d sink.PartitionDocument, members map[string]int) (takeoverState, error) {
	switch {
	case d.ClusterID != t.clusterID:
		return takeoverForeign, nil
	case d.Group == t.to:
		return takeoverNotNeeded, nil
	case d.Group == "" || d.Claim == [16]byte{}:
		return takeoverDamaged, nil
	}
	n, known := members[d.Group]
	if !known {
		list, err := kafka.Answer(ctx, func() ([]kafka.Member, error) { return t.groups.Members(ctx, d.Group) })
		if err != nil {
			return "", fmt.Errorf("asking Kafka for the members of group %q: %w", d.Group, err)
		}
		n = len(list)
		members[d.Group] = n
	}
	if n > 0 {
		return takeoverLiving, nil
	}
	return takeoverDue, nil
}

// change gives away one partition after the other, and records each outcome. After an error the same command continues.
func (t takeover) change(ctx context.Context, partitions []takenPartition) error {
	changed := 0
	for i := range partitions {
		one := &partitions[i]
		if one.State != takeoverDue {
			continue
		}
		done, err := t.claims(one.Series).TakeOver(ctx, one.seen, t.to)
		if err != nil {
			return fmt.Errorf("%w; run the same command again to continue", err)
		}
		if one.State = takeoverDone; !done {
			one.State = takeoverMissed
			changed++
		}
	}
	if changed > 0 {
		return fmt.Errorf("%s %s changed by another process in the meantime: if a consumer of the former group is running, stop this consumer and run this command again", words.Count(changed, "claim"), words.Form(changed, "was", "were"))
	}
	return nil
}

// takeoverState is the outcome for a claim, as a word for scripts.
type takeoverState string

const (
	takeoverDue       takeoverState = "to_take_over"
	takeoverDone      takeoverState = "taken_over"
	takeoverNotNeeded takeoverState = "unchanged"
	takeoverLiving    takeoverState = "has_members"
	takeoverForeign   takeoverState = "other_cluster"
	takeoverDamaged   takeoverState = "damaged"
	takeoverMissed    takeoverState = "changed"
)

// takeoverTexts are the outcomes for people.
var takeoverTexts = map[takeoverState]string{
	takeoverDue:       "to be taken over",
	takeoverDone:      "taken over",
	takeoverNotNeeded: "belongs to the group already",
	takeoverLiving:    "its group has members",
	takeoverForeign:   "of another Kafka cluster, skipped",
	takeoverDamaged:   "names no group or no claim, skipped: delete this document",
	takeoverMissed:    "changed in the meantime, skipped",
}

// String returns the outcome for people.
func (s takeoverState) String() string { return takeoverTexts[s] }

// takenPartition is one claim in the output of takeover.
type takenPartition struct {
	Series string `json:"collection"`
	record.Partition
	From     string        `json:"from"`
	Owner    string        `json:"owner"` // the host that claimed last
	Released bool          `json:"released"`
	State    takeoverState `json:"state"`

	seen sink.PartitionDocument
}

// takeoverView is the output of takeover.
type takeoverView struct {
	To         string           `json:"to"`
	DryRun     bool             `json:"dryRun"`
	Partitions []takenPartition `json:"partitions"`
}

// living returns an error that names the groups with members.
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
	return fmt.Errorf("nothing was changed: Kafka knows members of %s; stop those consumers, then run this command again (a crashed consumer stays a member for KAFKA_SESSION_TIMEOUT)",
		strings.Join(groups, ", "))
}

func (v takeoverView) print(w io.Writer) {
	if len(v.Partitions) == 0 {
		fmt.Fprintln(w, "No partition has been claimed yet: any group may begin.")
		return
	}
	table := text.NewTable(w, "COLLECTION", "PARTITION", "GROUP", "LAST OWNER", "STATE")
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

// printNext prints what to do next.
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
		fmt.Fprintf(w, "\nThe group %q has taken over %s. Start its consumers with KAFKA_GROUP_ID=%s. Consumers that already\n"+
			"wait for a partition try again at the next rebalance, or after a restart.\n", v.To, words.Count(done, "partition"), text.Printable(v.To))
	}
}
