package security

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/link"
)

// A claim asks MongoDB first and then Kafka. These tests hold MongoDB's answer back, so that what happens to Kafka meanwhile
// meets the claim, and nothing else. They change the broker, and are not run side by side.

// claiming is a consumer that has lost its partition and reads the claim anew, of which MongoDB's answer is held back.
type claiming struct {
	flow
	*harness.Consumer
	mongo *link.Link
	said  int // so long was its log when the answer came
}

// newClaiming stores ten measurements and lets the member be evicted.
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

// answer lets MongoDB's answer through.
func (c *claiming) answer() {
	c.t.Helper()
	c.said = len(c.Log())
	if err := c.mongo.Restore(); err != nil {
		c.t.Fatal(err)
	}
}

// blames reports whether the log says since the answer that something fails.
func (c *claiming) blames(whom string) bool { return strings.Contains(c.Log()[c.said:], whom+" fails") }

// awaitPhase waits until every partition stands there.
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

// evict takes the members out of the group, as a coordinator does that has not heard of them.
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

// TestKafkasOutageDuringAClaimIsKafkas: it is counted and told as Kafka's, and the claim goes on after it.
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

// TestRightMissingDuringAClaimStopsThePartition: at once, with the name of the right.
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
