package security

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// TestRightOnesWork checks on each kind of listener that records are stored, that letters are written and redriven, and that
// verification succeeds.
func TestRightOnesWork(t *testing.T) {
	needsBroker(t)
	for _, c := range []struct {
		name     string
		settings func(topic string) harness.Settings
	}{
		{"SASL PLAIN", func(topic string) harness.Settings { return as(at(login, topic), "PLAIN", "writer") }},
		{"SASL SCRAM-SHA-256", func(topic string) harness.Settings { return as(at(login, topic), "SCRAM-SHA-256", "writer") }},
		{"TLS and SCRAM-SHA-512", func(topic string) harness.Settings { return as(at(secret, topic), "SCRAM-SHA-512", "writer") }},
		{"TLS and PLAIN", func(topic string) harness.Settings { return as(at(secret, topic), "PLAIN", "writer") }},
		{"TLS, by another name", func(topic string) harness.Settings {
			return at(elsewhere, topic).With("KAFKA_TLS_SERVER_NAME", "kafka.example")
		}},
		{"TLS", func(topic string) harness.Settings { return at(encrypted, topic) }},
		{"TLS of any authority", func(topic string) harness.Settings {
			return at(encrypted, topic).Without("KAFKA_TLS_CA_FILE").With("KAFKA_TLS_INSECURE", "true")
		}},
		{"mutual TLS", func(topic string) harness.Settings { return showing(at(mutual, topic), "writer") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			topic := newTopic(t)
			flow{t, topic, c.settings(topic)}.test()
		})
	}
}

// newTopic makes a new topic and a name for its dead-letter topic, which does not exist yet.
func newTopic(t *testing.T) string {
	t.Helper()
	var topic string
	for ctx, err := within(t, 20*time.Second), error(nil); topic == "" || err != nil; { // after a restart connections are stale
		topic = fmt.Sprintf("security-%x", time.Now().UnixNano()&0xffffffffff)
		if err = world.servers.CreateTopic(ctx, topic, 2); err != nil && ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := world.servers.DropDatabase(context.Background(), topic); err != nil {
			t.Error(err)
		}
	})
	return topic
}

// flow is one topic with the settings of the program that processes it.
type flow struct {
	t        *testing.T
	topic    string
	settings harness.Settings
}

func (f flow) test() {
	const valid, bad = 60, 3
	f.produce(valid, bad)
	c := f.start()
	f.await(c, valid, bad)
	f.command(0, "check")
	f.stop(c)
	if out := f.command(0, "dlq", "stats"); !strings.Contains(out, "not_json") {
		f.t.Errorf("dlq stats: %s", out)
	}
	f.command(0, "dlq", "redrive", "--yes")
	f.command(0, "verify", "--topic", f.topic)
}

// produce sends records over the plain listener.
func (f flow) produce(valid, bad int) {
	f.t.Helper()
	producer := harness.NewProducer(world.cluster.Address(), f.topic)
	defer producer.Close()
	var made []events.Event
	for i := range valid {
		value := fmt.Sprintf(`{"time":%d,"meta":"m%d","v":%d}`, time.Now().UnixMilli()+int64(i), i%5, i)
		made = append(made, events.Event{Key: fmt.Appendf(nil, "%d", i%5), Value: []byte(value)})
	}
	for range bad {
		made = append(made, events.Event{Key: []byte("bad"), Value: []byte("{")})
	}
	if err := producer.Send(within(f.t, 20*time.Second), made...); err != nil {
		f.t.Fatal(err)
	}
}

// start starts a consumer, which ends with the test.
func (f flow) start() *harness.Consumer {
	f.t.Helper()
	c, err := harness.Start(world.binary, f.settings)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Kill)
	return c
}

// await waits until this many measurements are stored and this many letters are written.
func (f flow) await(c *harness.Consumer, stored, letters int) {
	f.t.Helper()
	ctx := within(f.t, 60*time.Second)
	for {
		m, err := c.Metrics(ctx)
		if err == nil && int(m.Sum("waterwheel_measurements_stored_total")) == stored && int(m.Sum("waterwheel_dead_letters_total")) == letters {
			return
		}
		select {
		case <-c.Ended():
			f.t.Fatalf("the consumer ended:\n%s", c.Log())
		case <-ctx.Done():
			f.t.Fatalf("%v stored, %v letters, %v:\n%s", m.Sum("waterwheel_measurements_stored_total"), m.Sum("waterwheel_dead_letters_total"), err, c.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop stops a consumer with a normal shutdown.
func (f flow) stop(c *harness.Consumer) {
	f.t.Helper()
	if code, err := c.Terminate(within(f.t, 30*time.Second)); err != nil || code != 0 {
		f.t.Fatalf("exit code %d, %v:\n%s", code, err, c.Log())
	}
}

// command runs a command and returns its output.
func (f flow) command(want int, args ...string) string {
	f.t.Helper()
	c, err := harness.Start(world.binary, f.settings, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Kill()
	code, err := c.Wait(within(f.t, 40*time.Second))
	if err != nil || code != want {
		f.t.Fatalf("waterwheel %s: exit code %d, %v:\n%s", strings.Join(args, " "), code, err, c.Log())
	}
	return c.Log()
}
