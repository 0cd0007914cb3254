package security

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"waterwheel/e2e/harness"
)

// These tests change logins and rights while the program runs. They change the broker, and do not run in parallel.

// TestLoginsAreRenewed checks that the consumer continues without an error when the broker ends each login after two seconds.
func TestLoginsAreRenewed(t *testing.T) {
	needsBroker(t)
	topic := newTopic(t)
	f := flow{t, topic, as(at(brief, topic), "SCRAM-SHA-256", "writer")}
	if log := f.trickle(6); strings.Contains(log, "EOF") || strings.Contains(log, "level=ERROR") {
		t.Errorf("connections were cut:\n%s", log)
	}
}

// trickle lets a consumer store a few records about every second, and returns its log.
func (f flow) trickle(times int) string {
	f.t.Helper()
	c := f.start()
	for i := 1; i <= times; i++ {
		f.produce(10, 1)
		f.await(c, 10*i, i)
		time.Sleep(900 * time.Millisecond)
	}
	f.stop(c)
	return c.Log()
}

// TestBrokersRestartIsOutlived checks, with a static member, that every failure during the start of a broker is temporary.
func TestBrokersRestartIsOutlived(t *testing.T) {
	needsBroker(t)
	topic := newTopic(t)
	f := flow{t, topic, as(at(secret, topic), "SCRAM-SHA-512", "writer").With("KAFKA_INSTANCE_ID", "one")}
	f.produce(10, 1)
	c := f.start()
	f.await(c, 10, 1)
	broker := world.cluster.Brokers()[0]
	broker.Kill()
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	if err := world.cluster.AwaitBrokers(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	f.produce(10, 1)
	f.await(c, 20, 2)
	f.stop(c)
}

// TestLettersWaitForTheirRight takes the right to write letters away and gives it back.
func TestLettersWaitForTheirRight(t *testing.T) {
	needsBroker(t)
	f := flow{t, guarded, as(at(login, guarded), "PLAIN", "least")}
	c := f.start()
	f.produce(1, 1)
	f.await(c, 1, 1)
	write := right{"least", kmsg.ACLResourceTypeTopic, guardedDeadLetters, kmsg.ACLOperationWrite}
	f.take(write)
	f.produce(1, 1)
	f.awaitLog(c, "grant this user WRITE")
	if err := grant(within(t, 10*time.Second), write); err != nil {
		t.Fatal(err)
	}
	f.await(c, 2, 2)
	f.stop(c)
	back := flow{t, guarded, as(at(login, guarded), "PLAIN", "unwriting")}
	if out := back.command(1, "dlq", "redrive", "--yes"); !strings.Contains(out, "WRITE") || !strings.Contains(out, guarded) {
		t.Errorf("a re-drive without the right to write says:\n%s", out)
	}
}

// take removes a right.
func (f flow) take(r right) {
	f.t.Helper()
	filter := kmsg.NewDeleteACLsRequestFilter()
	name, principal := r.name, "User:"+r.user
	filter.ResourceType, filter.ResourceName, filter.ResourcePatternType = r.kind, &name, kmsg.ACLResourcePatternTypeLiteral
	filter.Principal, filter.Operation, filter.PermissionType = &principal, r.operation, kmsg.ACLPermissionTypeAllow
	request := kmsg.NewPtrDeleteACLsRequest()
	request.Filters = append(request.Filters, filter)
	response, err := request.RequestWith(within(f.t, 10*time.Second), world.admin)
	if err == nil {
		err = kerr.ErrorForCode(response.Results[0].ErrorCode)
	}
	if err != nil || len(response.Results[0].MatchingACLs) != 1 {
		f.t.Fatalf("taking a right away: %+v, %v", response, err)
	}
}

// awaitLog waits until the log of a running consumer contains text.
func (f flow) awaitLog(c *harness.Consumer, text string) {
	f.t.Helper()
	ctx := within(f.t, 30*time.Second)
	for !strings.Contains(c.Log(), text) {
		select {
		case <-c.Ended():
			f.t.Fatalf("the consumer ended:\n%s", c.Log())
		case <-ctx.Done():
			f.t.Fatalf("nobody says %q:\n%s", text, c.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestLoginTakenAwayEndsTheConsumer checks that the consumer ends with a message that names the setting, and does not retry in a
// loop of its own.
func TestLoginTakenAwayEndsTheConsumer(t *testing.T) {
	needsBroker(t)
	topic := newTopic(t)
	f := flow{t, topic, as(at(brief, topic), "SCRAM-SHA-256", "fleeting")}
	f.produce(10, 0)
	c := f.start()
	f.await(c, 10, 0)
	request := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	request.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "fleeting", Mechanism: 1}}
	response, err := request.RequestWith(within(t, 10*time.Second), world.admin)
	if err == nil {
		err = kerr.ErrorForCode(response.Results[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	code, err := c.Wait(within(t, 30*time.Second))
	if log := c.Log(); err != nil || code != 1 || !strings.Contains(log, "KAFKA_SASL_PASSWORD") || !strings.Contains(log, "fleeting") {
		t.Errorf("exit code %d, %v:\n%s", code, err, log)
	}
}
