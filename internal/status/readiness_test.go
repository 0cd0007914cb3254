package status

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

// TestServerThatFailsIsNamedOnce checks that a failing server is named once, with the partitions that wait for it, whichever part
// noticed the failure.
func TestServerThatFailsIsNamedOnce(t *testing.T) {
	since := kafka.Now() - time.Minute
	statuses := make([]*pipeline.Status, 12)
	for i := range statuses {
		statuses[i] = &pipeline.Status{Partition: record.Partition{Topic: "events", Number: int32(i)}, Running: true}
		statuses[i].Failures[pipeline.MongoDB] = &pipeline.Failure{Since: since + time.Duration(i), Operation: "writing buckets", Cause: "refused"}
	}
	r := readiness{at: time.Now()}
	r.servers(statuses, nil)
	if len(r.bad) != 1 || !strings.HasPrefix(r.bad[0].Text, "MongoDB has been failing since ") ||
		!strings.HasSuffix(r.bad[0].Text, ": writing buckets: refused [12 partitions: events/0, events/1, events/2, events/3, events/4, events/5, events/6, events/7 and 4 more]") {
		t.Errorf("the sentences are %q", r.bad)
	}
	r = readiness{at: time.Now()}
	r.servers(statuses[:1], &outage{since: time.Now(), err: errors.New("no primary")})
	if len(r.bad) != 1 || !strings.HasPrefix(r.bad[0].Text, "MongoDB has not answered since ") || !strings.HasSuffix(r.bad[0].Text, "[1 partition: events/0]") {
		t.Errorf("with a ping: %q", r.bad)
	}
}

// TestOneSentenceForAllPartitionsThatHaveIt checks that partitions with the same notice share one sentence, even where each has
// its own name in it.
func TestOneSentenceForAllPartitionsThatHaveIt(t *testing.T) {
	status := func(number int32, change func(*pipeline.Status)) *pipeline.Status {
		s := &pipeline.Status{Partition: record.Partition{Topic: "events", Number: number}}
		change(s)
		return s
	}
	forbidden := func(of string) func(*pipeline.Status) {
		return func(s *pipeline.Status) {
			s.Stopped = &record.StopError{Reason: "kafka", Detail: "Fetch of " + of + ": [29] Topic Authorization Failed; grant READ"}
		}
	}
	beyond := func(s *pipeline.Status) {
		s.Stopped = &record.StopError{Reason: "offset_out_of_range", Detail: "Fetch of events/2: the offset 9 is beyond"}
	}
	other := func(s *pipeline.Status) { s.Refused = &record.StopError{Reason: "other_group", Detail: "written by g"} }
	r := readiness{}
	r.partitions([]*pipeline.Status{
		status(0, forbidden("events/0")), status(1, forbidden("events/1")), status(2, beyond),
		status(3, other), status(4, other), status(5, func(s *pipeline.Status) { s.PoisonRecords = 2 }), status(6, func(s *pipeline.Status) { s.PoisonRecords = 1 }),
	})
	want := []string{
		"reading has stopped (kafka): Fetch of …: [29] Topic Authorization Failed; grant READ [2 partitions: events/0, events/1]",
		"reading has stopped (offset_out_of_range): Fetch of events/2: the offset 9 is beyond [1 partition: events/2]",
		"the partitions cannot be claimed yet (other_group): written by g [2 partitions: events/3, events/4]",
	}
	if diff := cmp.Diff(want, texts(r.bad)); diff != "" {
		t.Errorf("not ready (-want +got):\n%s", diff)
	}
	doubtful := []string{"a bug in this program made dead letters of 3 records (internal_error): please report the stack trace in the log [2 partitions: events/5, events/6]"}
	if diff := cmp.Diff(doubtful, texts(r.doubtful)); diff != "" {
		t.Errorf("with warnings (-want +got):\n%s", diff)
	}
}

// TestOpenTransactionIsDoubtful checks that there is one sentence for all partitions that wait for the transaction.
func TestOpenTransactionIsDoubtful(t *testing.T) {
	since := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	of := func(n int32, transaction *record.Transaction) *pipeline.Status {
		return &pipeline.Status{Partition: record.Partition{Topic: "events", Number: n}, Transaction: transaction}
	}
	r := readiness{}
	r.transactions([]*pipeline.Status{
		of(0, &record.Transaction{Producer: 4000, ID: "job-7", Since: since, First: 5}), of(1, nil),
		of(2, &record.Transaction{Producer: 4000, ID: "job-7", Since: since, First: 70}), of(3, &record.Transaction{Producer: -1, Since: since}),
	})
	want := []string{
		"waits for a transaction open since 2026-11-25T12:00:00.000Z: records after the transaction's first record become readable when the transaction ends [1 partition: events/3]",
		`waits for a transaction open since 2026-11-25T12:00:00.000Z, of producer 4000 (transactional id "job-7"): records after the transaction's first record become readable when the transaction ends [2 partitions: events/0, events/2]`,
	}
	if diff := cmp.Diff(want, texts(r.doubtful)); diff != "" || len(r.bad) != 0 {
		t.Errorf("not ready %q, with warnings (-want +got):\n%s", r.bad, diff)
	}
}

// TestLossesAreDoubtful checks that the consumer continues after a loss and reports it.
func TestLossesAreDoubtful(t *testing.T) {
	of := func(n int32) record.Partition { return record.Partition{Topic: "events", Number: n} }
	r := readiness{}
	r.losses([]pipeline.Loss{
		{Partition: of(0), From: 100, To: 500}, {Partition: of(1), From: 7, To: 8}, {Partition: of(2), From: 2000, To: 0, Policy: "earliest"},
	})
	want := []string{
		"retention deleted records before they were read, within the last hour: events/0 from 100 to 499, events/1 from 7 to 7",
		"within the last hour a log ended before the next offset to read, and reading continued at another offset because of KAFKA_OUT_OF_RANGE=earliest: events/2 at 0 instead of 2000",
	}
	if diff := cmp.Diff(want, texts(r.doubtful)); diff != "" || len(r.bad) != 0 {
		t.Errorf("not ready %q, with warnings (-want +got):\n%s", r.bad, diff)
	}
}

// TestWaitingPartitionsAreDoubtful checks that one line reports all partitions that wait for a former owner.
func TestWaitingPartitionsAreDoubtful(t *testing.T) {
	r := readiness{}
	r.claims([]*pipeline.Status{
		{Partition: record.Partition{Topic: "events"}, Phase: "waiting", ClaimWait: 25 * time.Second, FormerOwner: "consumer-2", Since: kafka.Now()},
		{Partition: record.Partition{Topic: "events", Number: 1}, Phase: "waiting", ClaimWait: 25 * time.Second, FormerOwner: "consumer-2", Since: kafka.Now()},
		{Partition: record.Partition{Topic: "events", Number: 2}, Phase: "claiming", Since: kafka.Now()}, // takes no time
		{Partition: record.Partition{Topic: "events", Number: 3}, Phase: "idle", Between: true},
	})
	want := "not read yet: the previous owner (consumer-2, perhaps killed) has not released the partitions: its writes may still arrive for 25s [2 partitions: events/0, events/1]"
	if len(r.bad) != 0 || len(r.doubtful) != 1 || r.doubtful[0].Text != want {
		t.Errorf("the sentences are %q and %q, want %q", r.bad, r.doubtful, want)
	}
}

// texts returns the sentences of notices.
func texts(all []Notice) (texts []string) {
	for _, n := range all {
		texts = append(texts, n.Text)
	}
	return texts
}

// TestTopicsOfPatterns checks what /readyz says of the topics that match the patterns of KAFKA_TOPICS.
func TestTopicsOfPatterns(t *testing.T) {
	long := kafka.Now() - 2*patience
	for name, c := range map[string]struct {
		topics        Topics
		bad, doubtful string
	}{
		"all is well":   {},
		"none":          {topics: Topics{None: true}, doubtful: "no topic matches KAFKA_TOPICS"},
		"none, a look":  {topics: Topics{None: true, Failed: errors.New("EOF"), Since: kafka.Now()}, doubtful: "no topic matches KAFKA_TOPICS"},
		"none, outage":  {topics: Topics{None: true, Failed: errors.New("EOF"), Since: long}, bad: "Kafka has been failing since "},
		"some, outage":  {topics: Topics{Failed: errors.New("EOF"), Since: long}},
		"one is unread": {topics: Topics{Unread: []string{"s.deny (grant READ)"}}, doubtful: "not read, although it matches KAFKA_TOPICS: s.deny (grant READ)"},
	} {
		r := readiness{at: time.Now()}
		r.topics(&c.topics)
		for what, got := range map[string]struct {
			have []Notice
			want string
		}{"bad": {r.bad, c.bad}, "doubtful": {r.doubtful, c.doubtful}} {
			if text := join(got.have, "; "); !strings.HasPrefix(text, got.want) || (text == "") != (got.want == "") {
				t.Errorf("%s: %s: %q, want %q", name, what, text, got.want)
			}
		}
	}
}
