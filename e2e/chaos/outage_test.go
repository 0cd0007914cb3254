package chaos

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
)

// outage describes a server that is down for some time, and the effects that the test expects.
type outage struct {
	begin, end func(t *testing.T, r *run)
	// reason is the name of the server in /readyz.
	reason string
	// recovery is the longest time from the end of the outage until each consumer stores again.
	recovery time.Duration
	// steady means that the outage must not cause a rebalance.
	steady bool
	// partial means that some partitions continue.
	partial bool
	// stalled is the metric that does not change during the outage. Empty means the number of stored measurements.
	stalled string
	// answer, if set, is the answer of MongoDB to every write of a bucket during the outage. begin and end are made from it.
	answer *proxy.Refusal
}

// sign returns the metric that shows the recovery.
func (o outage) sign() string {
	if o.stalled != "" {
		return o.stalled
	}
	return "waterwheel_measurements_stored_total"
}

// writeTimeout is the MONGODB_WRITE_TIMEOUT of the tests.
const writeTimeout = 2 * time.Second

// trialMemory is the MEMORY_LIMIT of the tests, in bytes.
const trialMemory = 256 << 20

// soon is the time in which a consumer must store again. The other value is the additional time that a loaded machine may need
// for the next flush.
const (
	soon  = 2 * time.Second
	slack = time.Second
)

func TestDatabaseRefusesConnections(t *testing.T) {
	testOutage(t, outage{
		begin:  onLinks(databaseLinks, (*proxy.Link).Refuse),
		end:    restored(databaseLinks),
		reason: "MongoDB", recovery: soon, steady: true,
	})
}

func TestDatabaseIsABlackHole(t *testing.T) {
	testOutage(t, outage{
		begin: onLinks(databaseLinks, (*proxy.Link).Hold),
		// Data that the proxy holds must not be delivered after the grace. A network would have dropped it by then.
		end:    onLinks(databaseLinks, (*proxy.Link).Cut),
		reason: "MongoDB", recovery: writeTimeout + soon, steady: true,
	})
}

func TestDatabaseLosesItsAnswers(t *testing.T) {
	testOutage(t, outage{
		begin:  onLinks(databaseLinks, (*proxy.Link).LoseAnswers),
		end:    onLinks(databaseLinks, (*proxy.Link).Cut),
		reason: "MongoDB", recovery: writeTimeout + soon, steady: true,
	})
}

func TestKafkaRefusesConnections(t *testing.T) {
	testOutage(t, outage{
		begin:  onLinks(kafkaLinks, (*proxy.Link).Refuse),
		end:    restored(kafkaLinks),
		reason: "Kafka", recovery: soon,
	})
}

func TestKafkaIsABlackHole(t *testing.T) {
	testOutage(t, outage{
		begin:  onLinks(kafkaLinks, (*proxy.Link).Hold),
		end:    onLinks(kafkaLinks, (*proxy.Link).Cut),
		reason: "Kafka", recovery: soon,
	})
}

func TestAllBrokersAreKilled(t *testing.T) {
	testOutage(t, outage{
		begin: func(_ *testing.T, r *run) {
			for _, b := range r.cluster.Brokers() {
				b.Kill()
			}
		},
		end: func(t *testing.T, r *run) {
			for _, b := range r.cluster.Brokers() {
				if err := b.Start(); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.cluster.AwaitBrokers(within(t, time.Minute)); err != nil {
				t.Fatal(err)
			}
		},
		reason: "Kafka", recovery: soon,
	})
}

// TestLettersCannotBeWritten stops one broker while the dead-letter topic requires all three replicas.
func TestLettersCannotBeWritten(t *testing.T) {
	testOutage(t, outage{
		begin: func(_ *testing.T, r *run) { r.cluster.Brokers()[2].Kill() },
		end: func(t *testing.T, r *run) {
			if err := r.cluster.Brokers()[2].Start(); err != nil {
				t.Fatal(err)
			}
			if err := r.cluster.AwaitBrokers(within(t, time.Minute)); err != nil {
				t.Fatal(err)
			}
		},
		reason: "the dead-letter topic", recovery: soon, partial: true, stalled: "waterwheel_dead_letters_total",
	})
}

// TestLetterTopicIsDeleted deletes the dead-letter topic and creates it again with its letters.
func TestLetterTopicIsDeleted(t *testing.T) {
	var had []check.Record
	testOutage(t, outage{
		begin: func(t *testing.T, r *run) { had = r.deleteDeadLetters(t) },
		end: func(t *testing.T, r *run) {
			ctx := within(t, time.Minute)
			createDeadLetterTopic(ctx, t, r.topic+".dlq")
			if err := r.writeDeadLetters(ctx, had); err != nil {
				t.Fatal(err)
			}
		},
		reason: "the dead-letter topic", recovery: soon, steady: true, stalled: "waterwheel_dead_letters_total",
	})
}

func databaseLinks(m *member) []*proxy.Link { return m.database }
func kafkaLinks(m *member) []*proxy.Link    { return m.kafka }

func onLinks(of func(*member) []*proxy.Link, do func(*proxy.Link)) func(*testing.T, *run) {
	return func(_ *testing.T, r *run) {
		for _, m := range r.members {
			each(of(m), do)
		}
	}
}

func restored(of func(*member) []*proxy.Link) func(*testing.T, *run) {
	return func(t *testing.T, r *run) {
		for _, m := range r.members {
			for _, l := range of(m) {
				if err := l.Restore(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// testOutage begins and ends an outage while two consumers run under load.
func testOutage(t *testing.T, o outage) {
	if world.cluster == nil {
		t.Skip("no outage is tried: make outages does, with E2E_KAFKA_LIBS, the folder of Kafka's jars")
	}
	uri := world.mongoURI
	if o.answer != nil {
		uri = o.answering(t)
	}
	r := startTrial(t, uri)
	consumers := []*harness.Consumer{r.members[0].consumer, r.members[1].consumer}
	before := storedBy(t, consumers, o.sign())
	rebalances := sumOf(t, consumers, "waterwheel_rebalances_total")

	early := time.Now()
	o.begin(t, r)
	start := time.Now()
	for i, c := range consumers {
		if !o.partial || i == 0 {
			awaitReason(t, c, o.reason, *outageTime+20*time.Second)
		}
	}
	t.Logf("/readyz names it after %.1fs", time.Since(start).Seconds())
	time.Sleep(*outageTime - time.Since(start))
	during := storedBy(t, consumers, o.sign())
	for i, c := range consumers {
		if !o.partial || i == 0 {
			o.wantNamed(t, c, early, start)
		}
		wantWithinMemory(t, c)
	}

	select {
	case <-r.load.done:
		t.Error("the load ended before the outage")
	default:
	}

	o.end(t, r)
	end := time.Now()
	awaitMore(t, consumers, o.sign(), during, o.recovery+20*time.Second)
	took := time.Since(end)
	t.Logf("each consumer writes again after %.2fs; %s before, during and after the outage: %v, %v, %v",
		took.Seconds(), o.sign(), before, during, storedBy(t, consumers, o.sign()))
	if took > o.recovery+slack {
		t.Errorf("writing again took %v, want at most %v", took, o.recovery)
	}
	for _, c := range consumers {
		wantFewLines(t, c, early, end)
	}
	for _, c := range consumers {
		if err := c.AwaitReady(within(t, 30*time.Second)); err != nil {
			t.Error(err)
		}
	}
	t.Logf("ready again after %.2fs", time.Since(end).Seconds())
	if now := sumOf(t, consumers, "waterwheel_rebalances_total"); o.steady && now != rebalances {
		t.Errorf("%v rebalances during the outage, want none", now-rebalances)
	}
	r.conclude(t)
}

// startTrial starts two consumers, and waits until each processes two of the four partitions.
func startTrial(t *testing.T, mongoURI string) *run {
	t.Helper()
	o := Options{
		Binary: world.binary, Dir: t.TempDir(), MongoURI: mongoURI, Members: 2, Rate: world.rate, Series: world.series,
		Partitions: 4, Seed: uint64(time.Now().UnixNano()), Log: testLog{t},
		WriteTimeout: writeTimeout,
		Settings:     []string{"MEMORY_LIMIT", fmt.Sprint(trialMemory), "KAFKA_SESSION_TIMEOUT", "30s", "KAFKA_REBALANCE_TIMEOUT", "15s"},
	}
	r := newRun(o, strings.ToLower(t.Name()))
	r.cluster = world.cluster
	t.Cleanup(func() {
		r.cluster = nil // the tests share it
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	ctx := within(t, time.Minute)
	createDeadLetterTopic(ctx, t, r.topic+".dlq")
	if err := r.startMembers(t.Context()); err != nil { // the load ends with its context
		t.Fatal(err)
	}
	for assigned := false; !assigned; time.Sleep(200 * time.Millisecond) {
		assigned = true
		for _, m := range r.members[:2] {
			metrics, err := m.consumer.Metrics(ctx)
			assigned = assigned && err == nil && metrics.Sum("waterwheel_assigned_partitions") == 2 && metrics.Sum("waterwheel_measurements_stored_total") > 0
		}
		if ctx.Err() != nil {
			t.Fatalf("the consumers do not share the work:\n%s\n%s", r.members[0].consumer.Log(), r.members[1].consumer.Log())
		}
	}
	sleep(ctx, 8*time.Second) // by then the claims of the rebalance are made
	return r
}

// createDeadLetterTopic creates a topic that accepts letters only while all brokers are available.
func createDeadLetterTopic(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	servers, err := harness.GivenServers(ctx, world.cluster.Address(), world.mongoURI)
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	if err := servers.CreateTopic(ctx, name, 1, "min.insync.replicas", "3"); err != nil {
		t.Fatal(err)
	}
}

// conclude stops the load and judges the stored data.
func (r *run) conclude(t *testing.T) {
	t.Helper()
	if err := r.load.stop(); err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 2*time.Minute)
	topic, _, err := r.kafka.Topic(ctx, r.topic)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.kafka.AwaitCommitted(ctx, r.group(), topic); err != nil {
		t.Error(err)
	}
	logs := r.members[0].consumer.Log() + "\n\n" + r.members[1].consumer.Log()
	r.stopAll(ctx)
	report, err := check.Run(ctx, check.Source{
		Kafka: r.kafka, MongoURI: r.options.MongoURI, Database: r.databaseName(), Topic: r.topic, Group: r.group(), Fate: r.load.book.Fate,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	for _, fault := range r.result.Faults {
		t.Error(fault)
	}
	if t.Failed() {
		t.Log(logs)
	}
}

func awaitReason(t *testing.T, c *harness.Consumer, reason string, d time.Duration) {
	t.Helper()
	ctx := within(t, d)
	var body string
	for ctx.Err() == nil {
		status, got, err := c.Get(ctx, "/readyz")
		if err == nil {
			if body = got; status == http.StatusServiceUnavailable && strings.Contains(body, reason) {
				return
			}
		}
		sleep(ctx, 50*time.Millisecond)
	}
	t.Errorf("/readyz does not name %s, but says %q\n%s", reason, body, c.Log())
}

// storedBy returns the value of a metric for each consumer.
func storedBy(t *testing.T, consumers []*harness.Consumer, metric string) []float64 {
	t.Helper()
	stored := make([]float64, len(consumers))
	for i, c := range consumers {
		stored[i] = sumOf(t, []*harness.Consumer{c}, metric)
	}
	return stored
}

func sumOf(t *testing.T, consumers []*harness.Consumer, metric string) float64 {
	t.Helper()
	sum := 0.0
	for _, c := range consumers {
		metrics, err := c.Metrics(within(t, 5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		sum += metrics.Sum(metric)
	}
	return sum
}

// awaitMore waits until a metric of each consumer is larger than before.
func awaitMore(t *testing.T, consumers []*harness.Consumer, metric string, than []float64, d time.Duration) {
	t.Helper()
	ctx := within(t, d)
	for {
		now, more := storedBy(t, consumers, metric), true
		for i := range now {
			more = more && now[i] > than[i]
		}
		if more {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("%s of the consumers are %v, as before", metric, now)
			return
		}
		sleep(ctx, 20*time.Millisecond)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// testLog writes lines to the log of the test.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
