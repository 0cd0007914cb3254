package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"
)

// realMember is a running member of a group on a real Kafka.
type realMember struct {
	*recorder
	group *Group
	stop  context.CancelFunc
	done  chan error
}

func realOptions(brokers []string, topic, group string) Options {
	return Options{
		Brokers: brokers, Topics: []string{topic}, GroupID: group,
		SessionTimeout: 6 * time.Second, HeartbeatInterval: 100 * time.Millisecond, RebalanceTimeout: 10 * time.Second,
	}
}

func startMember(t *testing.T, options Options) *realMember {
	t.Helper()
	client, err := Open(t.Context(), options, prometheus.NewRegistry())
	if err != nil {
		t.Fatalf("opening a client: %v", err)
	}
	m := &realMember{recorder: newRecorder(), done: make(chan error, 1)}
	m.group = NewGroup(client, 5*time.Second, m.recorder, prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	go func() { m.done <- m.group.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		client.Close()
	})
	return m
}

// leave stops the member and waits for it.
func (m *realMember) leave(t *testing.T) {
	t.Helper()
	m.stop()
	select {
	case err := <-m.done:
		if err != nil {
			t.Fatalf("leaving: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the member does not leave")
	}
}

// holding waits until the member's current generation has n partitions.
func (m *realMember) holding(t *testing.T, n int) *Generation {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for time.Now().Before(deadline) {
		if status := m.group.Status(); status.State == Stable && len(status.Generation.Partitions) == n {
			return status.Generation
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s never holds %d partitions: %+v", m.group.Status().MemberID, n, m.group.Status())
	return nil
}

func realGroupTopic(t *testing.T, brokers []string, partitions int) string {
	t.Helper()
	name := "kafka-test-" + rand.Text()
	response, err := admin(t, brokers).CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{
		Topic: name, NumPartitions: partitions, ReplicationFactor: 1,
	}}})
	if err = errors.Join(err, response.Errors[name]); err != nil {
		t.Fatalf("creating topic %s: %v", name, err)
	}
	t.Cleanup(func() { deleteTopic(t, brokers, name) })
	return name
}

func TestRealMembersShareFairlyAndStick(t *testing.T) {
	brokers := realBrokers(t)
	options := realOptions(brokers, realGroupTopic(t, brokers, 6), "kafka-group-"+rand.Text())
	a := startMember(t, options)
	before := partitionsOf(a.holding(t, 6))
	b := startMember(t, options)
	b.holding(t, 3)
	if kept := partitionsOf(a.holding(t, 3)); !isSubset(kept, before) {
		t.Errorf("a moved from %v to %v", before, kept)
	}
	c := startMember(t, options)
	c.holding(t, 2)
	pa, pb := partitionsOf(a.holding(t, 2)), partitionsOf(b.holding(t, 2))
	b.leave(t)
	kept := partitionsOf(a.holding(t, 3))
	if !isSubset(pa, kept) {
		t.Errorf("a held %v and then %v", pa, kept)
	}
	all := slices.Concat(kept, partitionsOf(c.holding(t, 3)))
	slices.SortFunc(all, comparePartitions)
	if all = slices.Compact(all); len(all) != 6 {
		t.Errorf("a and c hold %v together (b held %v)", all, pb)
	}
	for _, m := range []*realMember{a, b, c} {
		if lost := m.count("lost"); lost != 0 {
			t.Errorf("%d generations were lost", lost)
		}
	}
	a.leave(t)
	c.leave(t)
}

// TestRealToolsCommitNothingBesideMembers: what a member finds committed since it is in the group, a member committed.
func TestRealToolsCommitNothingBesideMembers(t *testing.T) {
	brokers := realBrokers(t)
	options := realOptions(brokers, realGroupTopic(t, brokers, 1), "kafka-group-"+rand.Text())
	m := startMember(t, options)
	m.holding(t, 1)
	commit := func() error {
		response, err := admin(t, brokers).OffsetCommit(t.Context(), &kafkago.OffsetCommitRequest{
			GroupID: options.GroupID, GenerationID: -1, Topics: map[string][]kafkago.OffsetCommit{options.Topics[0]: {{Offset: 1}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return response.Topics[options.Topics[0]][0].Error
	}
	if err := commit(); !errors.Is(err, kafkago.UnknownMemberId) {
		t.Errorf("beside a member: %v", err)
	}
	m.leave(t)
	if err := commit(); err != nil {
		t.Errorf("without members: %v", err)
	}
}

func TestRealCommitsAreFoundByTheNextOwner(t *testing.T) {
	brokers := realBrokers(t)
	options := realOptions(brokers, realGroupTopic(t, brokers, 2), "kafka-group-"+rand.Text())
	first := startMember(t, options)
	g := first.holding(t, 2)
	for _, p := range g.Partitions {
		if p.Committed != -1 || p.Err != nil || p.TopicID == [16]byte{} {
			t.Errorf("a fresh group has %+v", p)
		}
	}
	topic := options.Topics[0]
	until := g.Lease.Until()
	results, err := g.Commit(t.Context(), []Commit{{topic, 1, 42, "ww1;x"}, {topic, 9, 1, ""}})
	if err != nil || results[0] != nil || Classify(results[1]) != LookAtMetadata {
		t.Fatalf("commit: %v, %v", results, err)
	}
	if g.Lease.Until() <= until {
		t.Error("the commit did not renew the lease")
	}
	first.leave(t)
	if _, err := g.Commit(t.Context(), []Commit{{topic, 1, 43, ""}}); !errors.Is(err, ErrGenerationOver) || g.Lease.Held() {
		t.Errorf("after leaving: %v, lease held %v", err, g.Lease.Held())
	}
	second := startMember(t, options)
	if p := second.holding(t, 2).Partitions[1]; p.Committed != 42 || p.Metadata != "ww1;x" {
		t.Errorf("the next owner finds %+v", p)
	}
	second.leave(t)
}

func TestRealOldGenerationMayCommitUntilTheNextBegins(t *testing.T) {
	brokers := realBrokers(t)
	options := realOptions(brokers, realGroupTopic(t, brokers, 2), "kafka-group-"+rand.Text())
	a := startMember(t, options)
	old := a.holding(t, 2)
	commits := []Commit{{options.Topics[0], 0, 7, ""}}
	inRebalance := make(chan error, 1)
	a.onRevoke(func(ctx context.Context, g *Generation) {
		results, err := g.Commit(ctx, commits)
		inRebalance <- errors.Join(append(results, err)...)
	})
	b := startMember(t, options)
	b.holding(t, 1)
	if err := <-inRebalance; err != nil {
		t.Errorf("committing during the rebalance: %v", err)
	}
	results, err := a.group.coordinator.Commit(t.Context(), membership{old.ID, old.MemberID}, commits)
	if err != nil || !errors.Is(results[0], kafkago.IllegalGeneration) {
		t.Errorf("committing afterwards: %v, %v", results, err)
	}
	results, err = a.group.coordinator.Commit(t.Context(), membership{old.ID, "somebody"}, commits)
	if err != nil || !errors.Is(results[0], kafkago.UnknownMemberId) {
		t.Errorf("committing as a stranger: %v, %v", results, err)
	}
	if err := a.group.coordinator.Leave(t.Context(), "somebody"); !errors.Is(err, kafkago.UnknownMemberId) {
		t.Errorf("leaving as a stranger: %v", err)
	}
	a.leave(t)
	b.leave(t)
}

func TestRealStaticRestartKeepsTheGeneration(t *testing.T) {
	brokers := realBrokers(t)
	options := realOptions(brokers, realGroupTopic(t, brokers, 4), "kafka-group-"+rand.Text())
	other := startMember(t, options)
	options.InstanceID = "static-1"
	first := startMember(t, options)
	before := first.holding(t, 2)
	other.holding(t, 2)
	first.leave(t)
	second := startMember(t, options)
	after := second.holding(t, 2)
	if after.ID != before.ID || !slices.Equal(partitionsOf(after), partitionsOf(before)) {
		t.Errorf("generation %d with %v became %d with %v", before.ID, partitionsOf(before), after.ID, partitionsOf(after))
	}
	third := startMember(t, options)
	third.holding(t, 2)
	select {
	case err := <-second.done:
		if !errors.Is(err, kafkago.FencedInstanceID) || !strings.Contains(err.Error(), "KAFKA_INSTANCE_ID") {
			t.Errorf("the older incarnation ends with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the older incarnation goes on")
	}
	if second.count("lost") != 1 || after.Lease.Held() {
		t.Errorf("the fenced incarnation lost %d generations, holds its lease: %v", second.count("lost"), after.Lease.Held())
	}
	other.leave(t)
	third.leave(t)
}

func TestRealSessionTimeoutBelowTheBrokersIsSaid(t *testing.T) {
	brokers := realBrokers(t)
	options := realOptions(brokers, realGroupTopic(t, brokers, 1), "kafka-group-"+rand.Text())
	options.SessionTimeout = time.Millisecond
	m := startMember(t, options)
	select {
	case err := <-m.done:
		if !errors.Is(err, kafkago.InvalidSessionTimeout) || !strings.Contains(err.Error(), "KAFKA_SESSION_TIMEOUT") {
			t.Errorf("the member ends with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the member goes on")
	}
}
