package hostile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// trial contains the topic of one test, its dead-letter topic, its group and its database.
type trial struct {
	t        *testing.T
	topic    string
	binary   string // the program, or a script that starts it
	settings harness.Settings
	kafka    *check.Kafka
}

// newTrial creates a topic for a test, and removes it with its dead-letter topic and the database at the end of the test.
// settings are those of the topic, as pairs of name and value.
func newTrial(t *testing.T, partitions int, settings ...string) *trial {
	t.Helper()
	ctx := within(t, 30*time.Second)
	test := strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-")
	name := fmt.Sprintf("%s-%x", test, time.Now().UnixNano()&0xffffff)
	if err := world.servers.CreateTopic(ctx, name, partitions, settings...); err != nil {
		t.Fatal(err)
	}
	kafka, err := check.DialKafka(world.servers.Brokers)
	if err != nil {
		t.Fatal(err)
	}
	database := name[max(0, len(name)-60):] // MongoDB limits the length of names
	r := &trial{t: t, topic: name, binary: world.binary, kafka: kafka, settings: world.servers.Short(name, database)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		kafka.Close()
		if err := world.servers.DeleteTopics(ctx, name, name+".dlq"); err != nil {
			t.Error(err)
		}
		if err := world.servers.DropDatabase(ctx, database); err != nil {
			t.Error(err)
		}
	})
	return r
}

// within returns the context of the test with a deadline.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// start starts a consumer with additional settings, as pairs of name and value. The consumer ends with the test at the latest.
// start returns when the process answers or has ended, because a signal before the process can catch it would kill it.
func (r *trial) start(pairs ...string) *harness.Consumer {
	r.t.Helper()
	c, err := harness.Start(r.binary, r.settings.With(pairs...))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if r.t.Failed() {
			log := c.Log()
			r.t.Logf("log of process %d:\n%s", c.PID(), log[max(0, len(log)-8<<10):])
		}
		c.Kill()
	})
	for ctx := within(r.t, 20*time.Second); c.Running(); time.Sleep(20 * time.Millisecond) {
		if _, _, err := c.Get(ctx, "/healthz"); err == nil {
			break
		}
		if ctx.Err() != nil {
			r.t.Fatal("the consumer does not answer")
		}
	}
	return c
}

// terminate sends SIGTERM to a consumer, which must end with code 0.
func (r *trial) terminate(c *harness.Consumer) {
	r.t.Helper()
	code, err := c.Terminate(within(r.t, 20*time.Second))
	if err != nil || code != 0 {
		r.t.Fatalf("after SIGTERM the consumer ended with code %d: %v", code, err)
	}
}

// awaitCommitted waits until everything produced so far is committed. The consumer must not end before that.
func (r *trial) awaitCommitted(c *harness.Consumer, d time.Duration) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(within(r.t, d))
	defer cancel()
	go func() {
		select {
		case <-c.Ended():
			cancel()
		case <-ctx.Done():
		}
	}()
	topic, _, err := r.kafka.Topic(ctx, r.topic)
	if err == nil {
		err = r.kafka.AwaitCommitted(ctx, r.settings["KAFKA_GROUP_ID"], topic)
	}
	if err != nil {
		r.t.Fatalf("waiting for the commit (the consumer runs: %v): %v", c.Running(), err)
	}
}

// peak returns the largest resident memory of a running consumer so far, in bytes. It returns 0 where the system does not report
// it.
func (r *trial) peak(c *harness.Consumer) int64 {
	r.t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.PID()), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				r.t.Fatalf("reading %q: %v", line, err)
			}
			return kib << 10
		}
	}
	return 0
}

// staysWithin fails the test if the resident memory of a running consumer was larger than its limit and some room for memory that
// Go does not count.
func (r *trial) staysWithin(c *harness.Consumer, limit int64) {
	r.t.Helper()
	const room = 64 << 20
	peak := r.peak(c)
	r.t.Logf("peak of %d MiB resident", peak>>20)
	if peak > limit+room {
		r.t.Errorf("%d MiB were resident, more than the limit of %d MiB and %d MiB", peak>>20, limit>>20, room>>20)
	}
}

// awaitMetric waits until the sum of a metric is at least want. The consumer must not end before that.
func (r *trial) awaitMetric(c *harness.Consumer, want float64, name string, labels ...string) {
	r.t.Helper()
	for ctx := within(r.t, time.Minute); ; time.Sleep(50 * time.Millisecond) {
		metrics, err := c.Metrics(ctx)
		if err == nil && metrics.Sum(name, labels...) >= want {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			r.t.Fatalf("%s is %v, want %v (the consumer runs: %v, %v)", name, metrics.Sum(name, labels...), want, c.Running(), err)
		}
	}
}
