package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"waterwheel/kafka"
	"waterwheel/pipeline"
)

// TestServerThatFailsIsNamedOnce: with the partitions that wait for it, whoever found out.
func TestServerThatFailsIsNamedOnce(t *testing.T) {
	since := kafka.Now() - time.Minute
	statuses := make([]*pipeline.Status, 12)
	for i := range statuses {
		statuses[i] = &pipeline.Status{Topic: "events", Partition: int32(i), Running: true}
		statuses[i].Troubles[pipeline.MongoDB] = &pipeline.Trouble{Since: since + time.Duration(i), Doing: "writing buckets", Cause: "refused"}
	}
	r := readiness{at: time.Now()}
	r.servers(statuses, nil)
	if len(r.bad) != 1 || !strings.HasPrefix(r.bad[0], "MongoDB fails since ") ||
		!strings.HasSuffix(r.bad[0], ": writing buckets: refused [12 partitions: events/0, events/1, events/2, events/3, events/4, events/5, events/6, events/7 and 4 more]") {
		t.Errorf("the sentences are %q", r.bad)
	}
	r = readiness{at: time.Now()}
	r.servers(statuses[:1], &outage{since: time.Now(), err: errors.New("no primary")})
	if len(r.bad) != 1 || !strings.HasPrefix(r.bad[0], "MongoDB does not answer since ") || !strings.HasSuffix(r.bad[0], "[1 partition: events/0]") {
		t.Errorf("with a ping: %q", r.bad)
	}
}

// TestWaitingPartitionsAreDoubtful: nobody reads them, so all is not well; one line says so for all.
func TestWaitingPartitionsAreDoubtful(t *testing.T) {
	r := readiness{}
	r.claims([]*pipeline.Status{
		{Topic: "events", Partition: 0, Phase: "waiting", ClaimWait: 25 * time.Second, Since: kafka.Now()},
		{Topic: "events", Partition: 1, Phase: "waiting", ClaimWait: 25 * time.Second, Since: kafka.Now()},
		{Topic: "events", Partition: 2, Phase: "claiming", Since: kafka.Now()}, // takes no time
		{Topic: "events", Partition: 3, Phase: "idle", Between: true},
	})
	want := "not read yet: a former owner's writes may still come for 25s [2 partitions: events/0, events/1]"
	if len(r.bad) != 0 || len(r.doubtful) != 1 || r.doubtful[0] != want {
		t.Errorf("the sentences are %q and %q, want %q", r.bad, r.doubtful, want)
	}
}

// TestEverySignShowsTheSameLag: the sum of the log's line is that of the partitions of the page and of the metrics.
func TestEverySignShowsTheSameLag(t *testing.T) {
	now := time.Now()
	old := now.Add(-9 * time.Second).UnixMilli()
	statuses := []*pipeline.Status{
		{Topic: "a", Position: 90, Undurable: 40, Committed: 40, End: 100, UndurableTime: old}, // read, and not written
		{Topic: "b", Position: 7, Undurable: 7, Committed: 7, End: 9, UndurableTime: old},      // stopped
		{Topic: "c", Position: 3, Undurable: 3, Committed: -1, End: 3},                         // nothing was committed
		{Topic: "d", Position: -1, Undurable: -1, Committed: -1, End: -1},
	}
	sum := summed(statuses, now)
	if sum.lag != 62 || sum.unknown != 1 || sum.freshness.Round(time.Second) != 9*time.Second {
		t.Errorf("the log says lag %d, unknown %d, freshness %v", sum.lag, sum.unknown, sum.freshness)
	}
	page := int64(0)
	for _, s := range statuses {
		if view := partitionView(s, now); view.Lag != nil {
			page += *view.Lag
		}
	}
	if page != sum.lag {
		t.Errorf("the page says %d", page)
	}
}

func TestUnwrittenRecordsAreNamed(t *testing.T) {
	got := unwritten([]*pipeline.Status{
		{Topic: "a", Partition: 1, Committed: 10, ReadTo: 25},
		{Topic: "a", Partition: 2, Committed: 30, ReadTo: 30},
		{Topic: "a", Partition: 3, Committed: -1, ReadTo: 2},
	})
	if want := "a/1 from 10 to 24, a/3 from 0 to 1"; got != want {
		t.Errorf("read again: %q, want %q", got, want)
	}
}

// TestLettersAreToldByReason: one line a reason, that counts those since the last and names a command.
func TestLettersAreToldByReason(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&out, "info", "text", false)
	var r recentLetters
	now := time.Now()
	for i := range 20 {
		r.add(LetterView{Topic: "events", Partition: 3, Offset: int64(i), Reason: []string{"bad_time", "not_json"}[i%2]})
	}
	r.report(log, now)
	r.report(log, now)
	if lines := strings.Count(out.String(), "\n"); lines != 2 {
		t.Errorf("%d lines, want one a reason:\n%s", lines, out.String())
	}
	want := `msg="records became letters" reason=bad_time letters=10 last=events/3/18 show="consumer dlq list --reason bad_time"`
	if !strings.Contains(out.String(), want) {
		t.Errorf("the log says:\n%s", out.String())
	}
	out.Reset()
	r.add(LetterView{Reason: "bad_time"})
	r.report(log, now.Add(time.Second))
	r.report(log, now.Add(lettersApart))
	if strings.Count(out.String(), "letters=1 ") > 1 {
		t.Errorf("told twice:\n%s", out.String())
	}
}
