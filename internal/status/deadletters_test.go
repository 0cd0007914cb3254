package status

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"waterwheel/internal/record"
)

func TestRecentLettersAreTheLastOnes(t *testing.T) {
	r := &idle().deadLetters
	if got := r.list(); len(got) != 0 {
		t.Errorf("%d letters at first", len(got))
	}
	for i := range 25 {
		r.add(RecentDeadLetter{Place: record.Place{Offset: int64(i)}})
	}
	got := r.list()
	if len(got) != shownDeadLetters || got[0].Offset != 24 || got[shownDeadLetters-1].Offset != 15 {
		t.Errorf("letters %v, want offsets 24 to 15", got)
	}
}

// TestLettersAreToldByReason checks that there is one line per reason. It counts the letters since the last line and names a
// command.
func TestLettersAreToldByReason(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	r := &idle().deadLetters
	now := time.Now()
	for i := range 20 {
		r.add(RecentDeadLetter{Place: record.Place{Partition: record.Partition{Topic: "events", Number: 3}, Offset: int64(i)}, Reason: []string{"bad_time", "not_json"}[i%2]})
	}
	r.report(log, now)
	r.report(log, now)
	if lines := strings.Count(out.String(), "\n"); lines != 2 {
		t.Errorf("%d lines, want one a reason:\n%s", lines, out.String())
	}
	want := `msg="records became dead letters" reason=bad_time dead_letters=10 last=events/3/18 show="waterwheel dlq list --reason bad_time"`
	if !strings.Contains(out.String(), want) {
		t.Errorf("the log says:\n%s", out.String())
	}
	out.Reset()
	r.add(RecentDeadLetter{Reason: "bad_time"})
	r.report(log, now.Add(time.Second))
	r.report(log, now.Add(r.apart))
	if strings.Count(out.String(), "dead_letters=1 ") > 1 {
		t.Errorf("told twice:\n%s", out.String())
	}
}
