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

// TestCommittedOffsetBehindAnOpenTransaction: Kafka's own tool resets a group to the high watermark. While a transaction
// before it is open nothing can be read there; that is no truncated log, and the partition goes on when it ends.
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
	inTransaction := func(doing string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", doing, err)
		}
	}
	inTransaction("beginning", producer.BeginTransaction())
	for i := range 10 {
		value := fmt.Appendf(nil, `{"time":%d,"meta":{"host":"t"},"load":%d.5}`, time.Now().UnixMilli(), i)
		inTransaction("producing", producer.ProduceSync(within(t, 20*time.Second), kgo.StringRecord(string(value))).FirstErr())
	}
	_, ends := s.described()
	s.commit([]int64{ends[0] + 10}) // what `--reset-offsets --to-latest` makes it

	c := s.start()
	s.awaitClaim(c)
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

// awaitClaim waits until a consumer has claimed the only partition.
func (s *stream) awaitClaim(c *harness.Consumer) {
	s.t.Helper()
	ctx := within(s.t, 40*time.Second)
	for {
		metrics, err := c.Metrics(ctx)
		if err == nil && metrics.Sum("waterwheel_claims_total", "outcome", "cold") > 0 {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("the partition is not claimed: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
