package security

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
)

// A claim asks MongoDB first and then Kafka. These tests hold back the answer of MongoDB, so that a fault of Kafka in the
// meantime affects only the claim. They change the broker, and do not run in parallel.

// claiming is a consumer that has lost its partition and makes the claim again. The answer of MongoDB is held back.
type claiming struct {
	flow
	*harness.Consumer
	mongo *proxy.Link
	said  int // the length of its log when the answer came
}

// newClaiming stores ten measurements and evicts the member.
func newClaiming(t *testing.T, topic string, settings harness.Settings) *claiming {
	mongo, uri := world.servers.LinkMongo(t)
	name := "claim-" + topic
	f := flow{t, topic, settings.With("MONGODB_URI", uri, "MONGODB_DATABASE", name, "KAFKA_GROUP_ID", name)}
	t.Cleanup(func() { _ = world.servers.DropDatabase(context.Background(), name) })
	f.produce(10, 0)
	c := &claiming{flow: f, Consumer: f.start(), mongo: mongo}
	f.await(c.Consumer, 10, 0) // a write whose answer is held back would be found again and counted nowhere
	mongo.Hold()
	f.evict()
	c.awaitPhase("reading claim")
	return c
}

// answer lets the answer of MongoDB through.
func (c *claiming) answer() {
	c.t.Helper()
	c.said = len(c.Log())
	if err := c.mongo.Restore(); err != nil {
		c.t.Fatal(err)
	}
}

// blames reports whether the log says, after the answer, that a server fails.
func (c *claiming) blames(whom string) bool { return strings.Contains(c.Log()[c.said:], whom+" fails") }

// awaitPhase waits until every partition is in this phase.
func (c *claiming) awaitPhase(phase string) {
	c.t.Helper()
	ctx := within(c.t, 30*time.Second)
	for {
		_, body, err := c.Get(ctx, "/api/status")
		if err == nil && strings.Contains(body, phase) && !strings.Contains(body, `"running"`) {
			return
		}
		if ctx.Err() != nil {
			c.t.Fatalf("no partition is %s: %v, %s", phase, err, body)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// evict removes the members from the group, as a new coordinator does that does not know them.
func (f flow) evict() {
	f.t.Helper()
	ctx, group := within(f.t, 10*time.Second), f.settings["KAFKA_GROUP_ID"]
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{group}
	described, err := describe.RequestWith(ctx, world.admin)
	for err != nil && ctx.Err() == nil { // after a restart connections are stale
		described, err = describe.RequestWith(ctx, world.admin)
	}
	if err != nil || len(described.Groups) != 1 || len(described.Groups[0].Members) == 0 {
		f.t.Fatalf("describing the group: %+v, %v", described, err)
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = group
	for _, m := range described.Groups[0].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		leave.Members = append(leave.Members, member)
	}
	left, err := leave.RequestWith(ctx, world.admin)
	if err == nil {
		err = kerr.ErrorForCode(left.ErrorCode)
	}
	if err != nil {
		f.t.Fatalf("evicting the members: %v", err)
	}
}

// TestKafkasOutageDuringAClaimIsKafkas checks that the outage is counted and reported as Kafka's, and that the claim continues
// after it.
func TestKafkasOutageDuringAClaimIsKafkas(t *testing.T) {
	needsBroker(t)
	topic := newTopic(t)
	c := newClaiming(t, topic, as(at(login, topic), "SCRAM-SHA-256", "writer"))
	broker := world.cluster.Brokers()[0]
	broker.Kill()
	c.answer()
	c.awaitLog(c.Consumer, "Kafka is failing")
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	if err := world.cluster.AwaitBrokers(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	c.produce(10, 0)
	c.await(c.Consumer, 20, 0)
	metrics, err := c.Metrics(within(t, 10*time.Second))
	if kafka := metrics.Sum("waterwheel_outage_seconds_total", "dependency", "kafka"); err != nil || kafka == 0 || c.blames("MongoDB") {
		t.Errorf("%v seconds of Kafka, %v:\n%s", kafka, err, c.Log()[c.said:])
	}
	c.stop(c.Consumer)
}

// TestRightMissingDuringAClaimStopsThePartition checks that the partition stops at once, with a message that names the missing
// right.
func TestRightMissingDuringAClaimStopsThePartition(t *testing.T) {
	needsBroker(t)
	topic := newTopic(t)
	if err := world.servers.CreateTopic(within(t, 10*time.Second), topic+".dlq", 1); err != nil {
		t.Fatal(err)
	}
	read := right{"least", kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationRead}
	write := right{"least", kmsg.ACLResourceTypeTopic, topic + ".dlq", kmsg.ACLOperationWrite}
	if err := grant(within(t, 10*time.Second), read, write); err != nil {
		t.Fatal(err)
	}
	c := newClaiming(t, topic, as(at(login, topic), "PLAIN", "least"))
	c.take(read)
	c.answer()
	c.awaitLog(c.Consumer, "partition stopped")
	c.awaitPhase("stopped")
	if says := c.Log()[c.said:]; !strings.Contains(says, topic) || !strings.Contains(says, "READ") || c.blames("MongoDB") {
		t.Errorf("the consumer says:\n%s", says)
	}
}
