package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// at returns a time on the records' clock.
func at(seconds int64) time.Time {
	return time.UnixMilli(1_767_000_000_000).Add(time.Duration(seconds) * time.Second)
}

// madeAt returns a good record of that time.
func madeAt(offset, seconds int64) record.Record {
	r := recordOf(offset, good)
	r.Timestamp = at(seconds).UnixMilli()
	return r
}

func wantSigns(t *testing.T, w *Worker, m Moment, now time.Time, lag int64, freshness time.Duration) {
	t.Helper()
	s := w.Status(m.Now)
	if got, known := s.Lag(); !known || got != lag {
		t.Errorf("lag %d, known %v, want %d", got, known, lag)
	}
	if got, known := s.Freshness(now); !known || got != freshness {
		t.Errorf("freshness %v, known %v, want %v", got, known, freshness)
	}
}

// TestLagAndFreshnessOfAnOutage checks that unstored records count as lag, and that the oldest of them gives the age of the
// collection's data.
func TestLagAndFreshnessOfAnOutage(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{madeAt(0, 0), madeAt(1, 10)}, Next: 2, End: 2}})
	wantSigns(t, w, m, at(12), 2, 12*time.Second)
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, w.Handle(m, Ticked{}))
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Unknown, Err: errDown}, {Result: bucketer.Unknown, Err: errDown}}}) // a bucket each
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{madeAt(2, 60)}, Next: 3, End: 3}})
	wantSigns(t, w, m, at(61), 3, 61*time.Second)

	m.Now += longestDelay
	expect[ResolveWrites](t, w.Handle(m, Ticked{}))
	w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.Applied, bucketer.Applied}})
	wantSigns(t, w, m, at(63), 3, 3*time.Second) // the third is not written yet
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, w.Handle(m, Ticked{}))
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})
	wantSigns(t, w, m, at(64), 3, 0) // stored but not committed
	w.Handle(m, Committed{Offset: 3, SentAt: m.Now})
	wantSigns(t, w, m, at(1000), 0, 0) // an idle topic stays fresh
}

// TestFreshnessForgetsEarlierTerms checks that measurements of an earlier term do not count when the partition returns ten
// minutes later.
func TestFreshnessForgetsEarlierTerms(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{madeAt(0, 0)}, Next: 1, End: 1}})
	w.Handle(m, Abandoned{})
	w.Handle(m, Dropped{})
	m.Now += 10 * time.Minute
	expect[Open](t, w.Handle(m, Assigned{TopicID: thisTopic}))
	if lag, known := w.Status(m.Now).Lag(); known {
		t.Errorf("lag %d, though nothing is known of the log's end", lag)
	}
	if age, known := w.Status(m.Now).Freshness(at(600)); known {
		t.Errorf("freshness %v of a log that was not looked at", age)
	}
	w.Handle(m, ClaimRead{Seen: claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{1}, Released: true}, Committed: claim.Committed{Offset: 500}, Bounds: record.Bounds{End: 500}})
	wantSigns(t, w, m, at(600), 0, 0)
}

// TestStoppedPartitionStillLags checks that records that are not read any more count as lag.
func TestStoppedPartitionStillLags(t *testing.T) {
	w, m := newTestWorker(t, stopOnBad)
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, "{"), recordOf(1, good)}, Next: 2, End: 40}})
	s := w.Status(m.Now)
	if s.Stopped == nil {
		t.Fatal("the partition goes on")
	}
	wantSigns(t, w, m, at(7), 40, 7*time.Second)
}

// TestSignsOfAWaitingPartition checks that the committed offset is the position of the partition before the claim.
func TestSignsOfAWaitingPartition(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Abandoned{})
	expect[Open](t, w.Handle(m, Assigned{TopicID: thisTopic}))
	w.Handle(m, ClaimRead{Seen: claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{1}}, Committed: claim.Committed{Offset: 5}, Bounds: record.Bounds{End: 9}})
	s := w.Status(m.Now)
	if s.ClaimWait != w.o.Wait || s.Running || s.Position != 5 || s.Undurable != 5 {
		t.Fatalf("the status is %+v", s)
	}
	if lag, known := s.Lag(); !known || lag != 4 {
		t.Errorf("lag %d, %v", lag, known)
	}
}

func TestAgesAreKeptInLittleMemory(t *testing.T) {
	var a recordAges
	for i := range int64(10 * maxMarks) {
		a.read(i, i*2000)
		if len(a.marks) > maxMarks {
			t.Fatalf("%d marks", len(a.marks))
		}
	}
	for _, offset := range []int64{0, 4 * maxMarks, 10*maxMarks - 1} {
		if got, want := a.of(offset), offset*2000; got > want || want-got > 200_000 {
			t.Errorf("the record at %d is of %d, want about %d", offset, got, want)
		}
	}
	a.durable(9 * maxMarks)
	if got := a.of(9*maxMarks + 1); got == 0 || len(a.marks) > maxMarks/4 {
		t.Errorf("after most is durable: %d, %d marks", got, len(a.marks))
	}
}

// TestOutageIsOneLine checks that one line reports the failure and one the recovery, for any number of partitions.
func TestOutageIsOneLine(t *testing.T) {
	now := time.Hour
	var log bytes.Buffer
	o := NewOutages(slog.New(slog.NewTextHandler(&log, nil)), func() Instant { return now })
	failure := Failure{Since: now, Operation: "writing buckets", Cause: "connection refused"}
	for _, by := range []string{"a/0", "a/1", Prober} {
		o.Failed(MongoDB, by, failure)
	}
	if says := log.String(); !strings.Contains(says, "MongoDB is failing; retrying") || !strings.Contains(says, "partitions=2") {
		t.Errorf("the log says:\n%s", says)
	}
	log.Reset()
	now += 61 * time.Second
	o.Answered(MongoDB, "a/0")
	o.GaveUp(MongoDB, "a/1")
	if log.Len() > 0 {
		t.Errorf("one still tries: %s", log.String())
	}
	o.Answered(MongoDB, Prober)
	if says := log.String(); !strings.Contains(says, `msg="MongoDB answers again" after=1m1s partitions=2`) {
		t.Errorf("the log says:\n%s", says)
	}
	log.Reset()
	o.Failed(MongoDB, "a/0", Failure{Since: now})
	o.Answered(MongoDB, "a/0")
	if strings.Contains(log.String(), "answers again") {
		t.Errorf("two ends within a moment:\n%s", log.String())
	}
}

// TestLastingOutageIsAnError covers all servers. The next outage begins as a warning again.
func TestLastingOutageIsAnError(t *testing.T) {
	for of := range Dependencies {
		now := time.Hour
		var log bytes.Buffer
		o := NewOutages(slog.New(slog.NewTextHandler(&log, nil)), func() Instant { return now })
		level := func() string {
			log.Reset()
			o.Failed(of, "a/0", Failure{Since: now, Cause: "refused"})
			return strings.Fields(log.String())[1]
		}
		first := level()
		now += ErrorAfter - time.Millisecond
		nearly := level()
		now += time.Millisecond
		lasting := level()
		o.Answered(of, "a/0")
		if again := level(); first != "level=WARN" || nearly != "level=WARN" || lasting != "level=ERROR" || again != "level=WARN" {
			t.Errorf("%v: %s, just before the time %s, then %s, the next outage %s", of.Name(), first, nearly, lasting, again)
		}
	}
}

// TestTroubleNamesOnceWhatWasDone checks this for all places that report it.
func TestTroubleNamesOnceWhatWasDone(t *testing.T) {
	w, m := newReopeningWorker(t)
	expect[FindBuckets](t, w.Handle(m, Fetched{Batch: backwards(2)}))
	w.Handle(m, BucketsFound{Err: errors.New("looking up buckets: connection refused")})
	if got := w.Status(m.Now).Failures[MongoDB].String(); got != "looking up buckets: connection refused" {
		t.Errorf("the trouble reads %q", got)
	}
}

// TestStoppedPartitionBlamesNoServer checks that a request that is not retried any more is no outage.
func TestStoppedPartitionBlamesNoServer(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Fetched{Err: errDown})
	if w.Status(m.Now).Failures[Kafka] == nil {
		t.Fatal("a failed fetch is no trouble")
	}
	w.Handle(m, Fetched{Err: &record.StopError{Reason: "corrupt"}})
	if w.Status(m.Now).Failures[Kafka] != nil {
		t.Error("Kafka is blamed for ever")
	}
}

// TestPartitionsAreShownWhileTheGroupJoins checks that their series do not vanish at each rebalance, and do not stay if the next
// generation does not come.
func TestPartitionsAreShownWhileTheGroupJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database := newFakeDatabase()
		l := &fakeLog{begin: time.Now(), rate: 50, total: 1 << 40, most: 100, series: 1}
		database.logs[0] = l
		consumer := newFakeConsumer(t, fakePorts{database: database, logs: []*fakeLog{l}}, NewBudget(1<<30), definedBy(timeseries.Seconds))
		consumer.o.Between = time.Minute
		consumer.Assigned(&fakeGeneration{committed: map[int32]int64{}}, []Assignment{{events(0), Assigned{TopicID: thisTopic}}}, false)
		_ = wait(t.Context(), 10*time.Second)
		consumer.Revoke(context.Background(), false)
		statuses := consumer.Statuses()
		if len(statuses) != 1 || !statuses[0].Between {
			t.Fatalf("between two generations: %d partitions", len(statuses))
		}
		if lag, known := statuses[0].Lag(); !known {
			t.Errorf("lag %d is not known", lag)
		}
		_ = wait(t.Context(), 2*time.Minute)
		if n := len(consumer.Statuses()); n != 0 {
			t.Errorf("%d partitions long after the generation", n)
		}
	})
}

// TestCommitsThatFailAreAnOutage checks that refused commits are reported until one is accepted, whatever fetches say. The end of a
// generation is no outage.
func TestCommitsThatFailAreAnOutage(t *testing.T) {
	w, m := newTestWorker(t, roomy)
	w.Handle(m, Committed{Offset: 1, SentAt: m.Now, Err: fmt.Errorf("%w: rebalancing", claim.ErrLapsed)})
	if f := w.Status(m.Now).Failures[Coordinator]; f != nil {
		t.Errorf("the end of a generation is a failure: %v", f)
	}
	w.Handle(m, Committed{Offset: 1, SentAt: m.Now, Err: errDown})
	began := m.Now
	m.Now += time.Second
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{hourly(0, 0)}, Next: 1, End: 1}})
	w.Handle(m, Committed{Offset: 1, SentAt: m.Now, Err: errDown})
	f := w.Status(m.Now).Failures[Coordinator]
	if f == nil || f.Since != began || !strings.HasPrefix(f.String(), "committing offsets: ") {
		t.Fatalf("the failure is %v", f)
	}
	w.Handle(m, Committed{Offset: 1, SentAt: m.Now})
	if f := w.Status(m.Now).Failures[Coordinator]; f != nil {
		t.Errorf("still failing after an accepted commit: %v", f)
	}
}
