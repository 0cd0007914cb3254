package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// TestCommittedOffsetBehindAnOpenTransaction resets a group to the high watermark with Kafka's own tool. While a transaction
// before it is open, nothing can be read there. This is no truncated log, and the partition continues when the transaction ends.
func TestCommittedOffsetBehindAnOpenTransaction(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(world.servers.Brokers, ",")...), kgo.MaxVersions(kversion.V3_6_0()),
		kgo.TransactionalID(s.topic), kgo.DefaultProduceTopic(s.topic),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	s.storing(t, 50)
	stored := s.measurements()
	inTransaction := func(operation string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", operation, err)
		}
	}
	inTransaction("beginning", producer.BeginTransaction())
	for i := range 10 {
		value := fmt.Appendf(nil, `{"time":%d,"meta":{"host":"t"},"load":%d.5}`, time.Now().UnixMilli(), i)
		inTransaction("producing", producer.ProduceSync(within(t, 20*time.Second), kgo.StringRecord(string(value))).FirstErr())
	}
	_, ends := s.described()
	s.commit([]int64{ends[0] + 10}) // the offset that `--reset-offsets --to-latest` commits

	c := s.start()
	s.awaitClaims(c, 1)
	inTransaction("ending", producer.EndTransaction(within(t, 20*time.Second), kgo.TryCommit))
	if err := s.send(within(t, 20*time.Second), s.generator(badCaseSeries), 50); err != nil {
		t.Fatal(err)
	}
	s.awaitCommitted(c, 60*time.Second)
	s.terminate(c)
	if now := s.measurements(); now <= stored {
		t.Errorf(check.Verdict+"%d measurements are stored, as before", now)
	}
}

// TestOpenTransactionIsSeen checks that a record in an open transaction and a thousand records behind it count as lag, as in
// Kafka's own tool. The consumer says for which transaction it waits. Markers of transactions are committed like records, and
// aborted records are not stored.
func TestOpenTransactionIsSeen(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(world.servers.Brokers, ",")...), kgo.MaxVersions(kversion.V3_6_0()),
		kgo.TransactionalID(s.topic), kgo.DefaultProduceTopic(s.topic),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	c := s.start("LOG_PROGRESS", "1s", "LOG_FORMAT", "json")
	s.sendReadings(20)
	s.awaitCommitted(c, time.Minute)
	s.awaitSigns(c, 0, 0, 0)

	begin := func() {
		t.Helper()
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		value := fmt.Sprintf(`{"time":%d,"meta":"t","x":1}`, time.Now().UnixMilli())
		if err := producer.ProduceSync(within(t, 20*time.Second), kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	if err := producer.EndTransaction(within(t, 20*time.Second), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	s.awaitCommitted(c, time.Minute) // behind the marker
	s.awaitSigns(c, 0, 0, 0)
	begin()
	opened := time.Now()
	s.sendReadings(1000)
	s.awaitSigns(c, 1001, 5, 60)
	s.awaitBody(c, "ready\nwaits for a transaction open since ", fmt.Sprintf("(transactional id %q)", s.topic), "[1 partition: "+s.topic+"/0]")
	const says = "an open transaction blocks reading"
	s.awaitLine(c, says)
	if line := lastLine(c, says); !strings.Contains(line, s.topic) {
		t.Errorf("the log says %q", line)
	}
	t.Logf("all of it was told %.1fs after the transaction was opened", time.Since(opened).Seconds())

	if err := producer.EndTransaction(within(t, 20*time.Second), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	s.awaitSigns(c, 0, 0, 0)
	if _, body, err := c.Get(within(t, 5*time.Second), "/readyz"); err != nil || body != "ready\n" {
		t.Errorf("/readyz: %v\n%s", err, body)
	}
	s.awaitCommitted(c, time.Minute)
	s.terminate(c)
	s.verify(t, 20+1+1000)
}

// awaitBody waits until the answer of /readyz contains all of these words.
func (s *stream) awaitBody(c *harness.Consumer, words ...string) {
	s.t.Helper()
	for ctx := within(s.t, 30*time.Second); ; time.Sleep(100 * time.Millisecond) {
		_, body, err := c.Get(ctx, "/readyz")
		said := err == nil
		for _, word := range words {
			said = said && strings.Contains(body, word)
		}
		if said {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("/readyz does not say %q: %v\n%s", words, err, body)
		}
	}
}

// awaitClaims waits until a consumer has claimed the given number of partitions.
func (s *stream) awaitClaims(c *harness.Consumer, partitions float64) {
	s.t.Helper()
	ctx := within(s.t, 40*time.Second)
	for {
		metrics, err := c.Metrics(ctx)
		if err == nil && metrics.Sum("waterwheel_claims_total", "outcome", "cold") >= partitions {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("not %v partitions are claimed: %v", partitions, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
