package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/record"
)

// TestKafkaThatIsWhollyDownIsNamed checks the error when no broker answers. The last state of the cluster, such as a partition
// without a leader, is not the reason.
func TestKafkaThatIsWhollyDownIsNamed(t *testing.T) {
	fake := startFake(t, &fakeBroker{topics: []string{"events"}, leader: -1})
	client, err := fake.open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := client.Log(record.Partition{Topic: "events"}, fakeID)
	await := func() error {
		_, err := log.Await(t.Context(), 0, 1<<20)
		return err
	}
	if err := await(); !errors.Is(err, protocol.ErrNoLeader) {
		t.Fatalf("while the broker is there: %v", err)
	}
	fake.end()
	for range 100 { // until the broken connections are noticed
		if _, err = client.Topics(t.Context(), "events"); errors.Is(err, errNoBroker) {
			break
		}
	}
	writer := client.Writer("events")
	defer writer.Close()
	_, writing := writer.Partitions(t.Context(), "events")
	want := "no broker of KAFKA_BROKERS can be reached (" + fake.address() + ": connect: connection refused)"
	for what, err := range map[string]error{"the metadata": err, "a fetch": await(), "a writer": writing} {
		if err == nil || err.Error() != want || Classify(err) != Retry {
			t.Errorf("%s: %v, of class %d, want %s", what, err, Classify(err), want)
		}
	}
}

// TestOneBrokerThatIsReachedIsEnough also checks that a cancelled connection says nothing.
func TestOneBrokerThatIsReachedIsEnough(t *testing.T) {
	closed, alive := listen(t), startFake(t, &fakeBroker{topics: []string{"events"}})
	closed.Close()
	c := quickConnector(t)
	c.bootstrap = []string{closed.Addr().String(), alive.address()}
	noLeader := protocol.NewErrNoLeader("events", 0)
	for _, test := range []struct {
		dialed string
		given  bool // up
		says   error
	}{
		{closed.Addr().String(), false, protocol.ErrNoLeader}, // nothing is known of the other one
		{alive.address(), true, protocol.ErrNoLeader},
		{alive.address(), false, protocol.ErrNoLeader},
	} {
		ctx, giveUp := context.WithCancel(t.Context())
		if test.given {
			giveUp()
		}
		if conn, err := c.dial(ctx, "tcp", test.dialed); err == nil {
			conn.Close()
		}
		giveUp()
		if err := c.unanswered(noLeader); !errors.Is(err, test.says) {
			t.Errorf("after a connection to %s (given up: %v): %v", test.dialed, test.given, err)
		}
	}
	alive.end()
	if conn, err := c.dial(t.Context(), "tcp", alive.address()); err == nil {
		conn.Close()
	}
	err := c.unanswered(noLeader)
	if !errors.Is(err, errNoBroker) || !strings.Contains(err.Error(), c.bootstrap[0]+": connect: connection refused; "+c.bootstrap[1]+": ") {
		t.Errorf("when both are away: %v", err)
	}
	if mistake := Mistake(errors.New("a setting")); !errors.Is(c.unanswered(mistake), mistake) {
		t.Error("a mistake in the settings is taken for an outage")
	}
}
