package e2e_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

var resetRecords = flag.Int("reset.records", 0, "how many records TestResetOfALongLog resets a group by; 0: few")

// TestResetOfALongLog deletes some buckets and resets the group to the beginning. Exactly the measurements of these buckets are
// stored again.
func TestResetOfALongLog(t *testing.T) {
	t.Parallel()
	records, series := *resetRecords, 1000
	switch {
	case records == 0 && world.servers.Slow():
		records, series = 2_000, 20
	case records == 0:
		records = 50_000
	}
	s := newStream(t, 4)
	s.sendPlain(records, series)
	patience := time.Minute + time.Duration(records)*100*time.Microsecond
	settings := []string{"FLUSH_INTERVAL", "2s"}

	start := time.Now()
	c := s.start(settings...)
	s.awaitCommitted(c, patience)
	t.Logf("%d records stored in %.1fs", records, time.Since(start).Seconds())
	s.terminate(c)
	lost, buckets := s.loseBuckets(t)
	t.Logf("%d measurements lost with %d buckets", lost, buckets)

	s.resetTo(false)
	start = time.Now()
	c = s.start(settings...)
	s.awaitReplayed(c, records-lost, patience)
	s.awaitCommitted(c, patience)
	t.Logf("%d records read again in %.1fs", records, time.Since(start).Seconds())
	metrics, err := c.Metrics(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if stored := int(metrics.Sum("waterwheel_measurements_stored_total")); stored != lost {
		t.Errorf(check.Verdict+"%d measurements were stored, %d were missing", stored, lost)
	}
	s.terminate(c)
	s.verify(t, records)
}

// sendPlain produces records of one measurement each, of all series in turn.
func (s *stream) sendPlain(n, series int) {
	s.t.Helper()
	first := time.Now().Add(-time.Hour).UnixMilli()
	const batch = 5000
	for sent := 0; sent < n; sent += batch {
		made := make([]events.Event, min(batch, n-sent))
		for i := range made {
			at := sent + i
			key := fmt.Sprint(at % series)
			made[i] = events.Event{
				Key:   []byte(key),
				Value: fmt.Appendf(nil, `{"time":%d,"meta":{"host":%s},"load":%d.5}`, first+int64(at/series), key, at%100),
			}
		}
		if err := s.producer.Send(within(s.t, 30*time.Second), made...); err != nil {
			s.t.Fatal(err)
		}
	}
}

// loseBuckets deletes every seventh bucket, and returns the number of measurements in them.
func (s *stream) loseBuckets(t *testing.T) (measurements, buckets int) {
	t.Helper()
	topic, _ := s.described()
	var gone bson.A
	for p := range topic.Partitions {
		for i, b := range s.allBuckets(p) {
			if i%7 == 0 {
				gone = append(gone, b.Lookup("_id"))
				measurements += int(b.Lookup("control", "count").AsInt64())
			}
		}
	}
	result, err := s.collection(".buckets").DeleteMany(within(t, time.Minute), bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: gone}}}})
	if err != nil || int(result.DeletedCount) != len(gone) {
		t.Fatalf("%+v of %d, %v", result, len(gone), err)
	}
	return measurements, len(gone)
}

// awaitReplayed waits until a consumer has recognised the given number of measurements as stored.
func (s *stream) awaitReplayed(c *harness.Consumer, want int, d time.Duration) {
	s.t.Helper()
	ctx := within(s.t, d)
	got := 0.0
	for {
		metrics, err := c.Metrics(ctx)
		if err == nil {
			got = metrics.Sum("waterwheel_measurements_skipped_total", "reason", "replayed")
		}
		if got >= float64(want) {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("%v measurements were recognised, %d are stored; last scrape: %v", got, want, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// verify lets the program prove that the given number of measurements are stored once, and nothing else.
func (s *stream) verify(t *testing.T, measurements int) {
	t.Helper()
	code, out := s.run("verify")
	if want := fmt.Sprintf("%d stored once", measurements); code != 0 || !strings.Contains(out, want) {
		t.Errorf(check.Verdict+"verify ended with code %d, without %q:\n%s", code, want, out)
	}
}
