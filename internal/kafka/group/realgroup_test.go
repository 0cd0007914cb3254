package group

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// realMember is a running member of a group on a real Kafka server.
type realMember struct {
	*recorder
	group *Group
	stop  context.CancelFunc
	done  chan error
}

// realBrokers returns the brokers in E2E_KAFKA_BROKERS. It skips tests if there are none.
func realBrokers(t *testing.T) []string {
	t.Helper()
	brokers := os.Getenv("E2E_KAFKA_BROKERS")
	if brokers == "" {
		t.Skip("E2E_KAFKA_BROKERS is not set: no real Kafka to test with")
	}
	return strings.Split(brokers, ",")
}

func admin(t *testing.T, brokers []string) *kafkago.Client {
	transport := &kafkago.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafkago.Client{Addr: kafkago.TCP(brokers...), Transport: transport, Timeout: 10 * time.Second}
}

func realClient(t *testing.T, brokers []string, topics ...string) *kafka.Client {
	t.Helper()
	client, err := kafka.Open(t.Context(), kafka.Options{Brokers: brokers, Topics: topics, FetchBytes: 1, FetchWait: time.Millisecond}, prometheus.NewRegistry())
	if err != nil {
		t.Fatalf("opening a client: %v", err)
	}
	t.Cleanup(client.Close)
	return client
}

func realOptions(topic, group string) Options {
	return Options{
		Topics: []string{topic}, GroupID: group, Shutdown: 5 * time.Second, Lease: 10 * time.Second,
		SessionTimeout: 6 * time.Second, HeartbeatInterval: 100 * time.Millisecond, RebalanceTimeout: 10 * time.Second,
	}
}

func startMember(t *testing.T, options Options) *realMember {
	t.Helper()
	client := realClient(t, realBrokers(t), options.Topics...)
	m := &realMember{recorder: newRecorder(), done: make(chan error, 1)}
	m.group = New(client, options, m.recorder, prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	go func() { m.done <- m.group.Run(ctx) }()
	t.Cleanup(cancel)
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

// holding waits until the current generation of the member has n partitions.
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
	t.Cleanup(func() {
		response, err := admin(t, brokers).DeleteTopics(context.Background(), &kafkago.DeleteTopicsRequest{Topics: []string{name}})
		if err != nil || response.Errors[name] != nil {
			t.Errorf("deleting topic %s: %v, %v", name, err, response)
		}
	})
	return name
}

func TestRealMembersShareFairlyAndStick(t *testing.T) {
	brokers := realBrokers(t)
	options := realOptions(realGroupTopic(t, brokers, 6), "kafka-group-"+rand.Text())
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
	slices.SortFunc(all, record.Partition.Compare)
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

// TestRealToolsCommitNothingBesideMembers checks that every commit found by a member since it joined the group was made by a
// member.
func TestRealToolsCommitNothingBesideMembers(t *testing.T) {
	brokers := realBrokers(t)
	options := realOptions(realGroupTopic(t, brokers, 1), "kafka-group-"+rand.Text())
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
	options := realOptions(realGroupTopic(t, brokers, 2), "kafka-group-"+rand.Text())
	first := startMember(t, options)
	g := first.holding(t, 2)
	for _, p := range g.Partitions {
		if p.TopicID == [16]byte{} {
			t.Errorf("a fresh group has %+v", p)
		}
	}
	topic := options.Topics[0]
	until := g.lease.until()
	results, err := g.Commit(t.Context(), []record.Commit{commit(topic, 1, 42, "ww1;x"), commit(topic, 9, 1, "")})
	if err != nil || results[0] != nil || kafka.Classify(results[1]) != kafka.LookAtMetadata {
		t.Fatalf("commit: %v, %v", results, err)
	}
	if g.lease.until() <= until {
		t.Error("the commit did not renew the lease")
	}
	first.leave(t)
	if _, err := g.Commit(t.Context(), []record.Commit{commit(topic, 1, 43, "")}); !errors.Is(err, kafka.ErrGenerationOver) || g.Held() {
		t.Errorf("after leaving: %v, lease held %v", err, g.Held())
	}
	found, err := first.group.cluster.(*kafka.Client).Committed(t.Context(), options.GroupID, partitionsOf(g))
	if err != nil || found[0].Offset != -1 || found[1].Offset != 42 || found[1].Metadata != "ww1;x" {
		t.Errorf("the next owner finds %+v, %v", found, err)
	}
}

func TestRealOldGenerationMayCommitUntilTheNextBegins(t *testing.T) {
	brokers := realBrokers(t)
	options := realOptions(realGroupTopic(t, brokers, 2), "kafka-group-"+rand.Text())
	options.Eager = true
	a := startMember(t, options)
	old := a.holding(t, 2)
	commits := []record.Commit{commit(options.Topics[0], 0, 7, "")}
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
	options := realOptions(realGroupTopic(t, brokers, 4), "kafka-group-"+rand.Text())
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
	if second.count("lost") != 1 || after.Held() {
		t.Errorf("the fenced incarnation lost %d generations, holds its lease: %v", second.count("lost"), after.Held())
	}
	other.leave(t)
	third.leave(t)
}

func TestRealSessionTimeoutBelowTheBrokersIsSaid(t *testing.T) {
	brokers := realBrokers(t)
	options := realOptions(realGroupTopic(t, brokers, 1), "kafka-group-"+rand.Text())
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
