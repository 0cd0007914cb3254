package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"waterwheel/sink"
	"waterwheel/source"
)

func (p *program) takeoverCommand() *cobra.Command {
	var o collectionOptions
	var to string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "takeover",
		Short: "Let another consumer group write a collection",
		Long: "Only one consumer group may write a collection: the claim of each partition names it. This gives all partitions of a\n" +
			"collection to another group. Stop the consumers of the former group first: while Kafka knows a member of it, nothing\n" +
			"is changed. The first consumer of the new group then waits until nothing that the former one sent can still arrive.\n\n" +
			"Where the new group has committed no offset it begins where the last owner of each partition did; what is stored is\n" +
			"recognised and skipped.",
		Example: "  consumer collection takeover --to waterwheel-2 --dry-run\n  KAFKA_GROUP_ID=waterwheel-2 consumer collection takeover",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.onCollections(cmd.Context(), o, func(with collections) error {
				return p.takeover(cmd.Context(), with, o, to, dryRun)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the group that is to write from now on; default: KAFKA_GROUP_ID")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be done, and do nothing")
	o.flags(cmd)
	return cmd
}

func (p *program) takeover(ctx context.Context, with collections, o collectionOptions, to string, dryRun bool) error {
	if to == "" {
		to = with.config.Kafka.GroupID
	}
	client, err := source.Open(ctx, sourceOptions(with.config, with.log), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	defer client.Close()
	t := takeover{claims: with.database, groups: client, clusterID: client.ClusterID(), to: to, dryRun: dryRun}
	view, err := t.run(ctx, with.series)
	if printErr := view.print(p.stdout, o.output); printErr != nil {
		return errors.Join(err, printErr)
	}
	return err
}

// claimStore is where claims are read and given to another group; *sink.Database is one.
type claimStore interface {
	// Partitions returns the partition documents of a time series.
	Partitions(ctx context.Context, series string) ([]sink.PartitionDocument, error)
	// TakeOver gives one partition to a group; false: its document is not as seen any more.
	TakeOver(ctx context.Context, series string, seen sink.PartitionDocument, group string) (bool, error)
}

// groupStates tells of the consumer groups of a cluster; *source.Client is one.
type groupStates interface {
	// Members counts the members of a group; none: Kafka calls it Empty or Dead.
	Members(ctx context.Context, group string) (int, error)
}

// takeover gives partitions to another group.
type takeover struct {
	claims    claimStore
	groups    groupStates
	clusterID string
	to        string
	dryRun    bool
}

// run looks at all claims before it changes the first: one group that lives keeps all of them as they are.
func (t takeover) run(ctx context.Context, series []string) (takeoverView, error) {
	view := takeoverView{To: t.to, DryRun: t.dryRun, Partitions: []TakenPartition{}}
	members := map[string]int{}
	for _, name := range series {
		seen, err := t.claims.Partitions(ctx, name)
		if err != nil {
			return view, err
		}
		for _, d := range seen {
			one := TakenPartition{Series: name, Topic: d.Topic, Partition: d.Partition, From: d.Group, Owner: d.Owner, Released: d.Released, seen: d}
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

// judge decides about a claim, and notes how many members its group has.
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
		err := patiently(ctx, func() (err error) {
			n, err = t.groups.Members(ctx, d.Group)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("asking Kafka for the members of group %q: %w", d.Group, err)
		}
		members[d.Group] = n
	}
	if n > 0 {
		return takeoverLiving, nil
	}
	return takeoverDue, nil
}

// change gives one partition after the other away, and notes what became of each. The same command goes on after an error.
func (t takeover) change(ctx context.Context, partitions []TakenPartition) error {
	changed := 0
	for i := range partitions {
		one := &partitions[i]
		if one.State != takeoverDue {
			continue
		}
		done, err := t.claims.TakeOver(ctx, one.Series, one.seen, t.to)
		if err != nil {
			return fmt.Errorf("%w; the same command goes on where this stopped", err)
		}
		if one.State = takeoverDone; !done {
			one.State = takeoverMissed
			changed++
		}
	}
	if changed > 0 {
		return fmt.Errorf("%d claims were changed by somebody else meanwhile: is a consumer of the former group running? Stop it, and run this again", changed)
	}
	return nil
}

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
	Series    string        `json:"collection"`
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	From      string        `json:"from"`
	Owner     string        `json:"owner"` // the host that claimed last
	Released  bool          `json:"released"`
	State     takeoverState `json:"state"`

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
			groups = append(groups, fmt.Sprintf("%q (%d members)", group, n))
		}
	}
	if groups == nil {
		return nil
	}
	slices.Sort(groups)
	return fmt.Errorf("nothing was changed: Kafka knows members of %s; stop those consumers (one that crashed counts for KAFKA_SESSION_TIMEOUT), then run this again",
		strings.Join(groups, ", "))
}

func (v takeoverView) print(w io.Writer, output string) error {
	if output == "json" {
		return writeJSON(w, v)
	}
	if len(v.Partitions) == 0 {
		_, err := fmt.Fprintln(w, "No partition has been claimed yet: any group may begin.")
		return err
	}
	table := newTable(w)
	fmt.Fprintln(table, "COLLECTION\tPARTITION\tGROUP\tLAST OWNER\t")
	for _, one := range v.Partitions {
		name := one.seen.ID
		if one.Partition >= 0 {
			name = fmt.Sprintf("%s/%d", one.Topic, one.Partition)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", one.Series, printable(name), printable(one.From), printable(one.Owner), one.State)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return v.printNext(w)
}

// printNext says what to do now.
func (v takeoverView) printNext(w io.Writer) error {
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
		_, err := fmt.Fprintf(w, "\n%d partitions would be given to the group %q. Nothing was changed.\n", due, printable(v.To))
		return err
	case done > 0:
		_, err := fmt.Fprintf(w, "\n%d partitions belong to the group %q now. Start its consumers with KAFKA_GROUP_ID=%s; those that wait for a partition\n"+
			"already look again at the next rebalance, or when they are restarted.\n", done, printable(v.To), printable(v.To))
		return err
	}
	return nil
}
