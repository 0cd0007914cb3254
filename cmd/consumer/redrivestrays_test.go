package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"

	"waterwheel/internal/cli"
	"waterwheel/internal/record"
)

// TestForgedLettersStayInTheirTopic writes letters that any client with write access to the dead-letter topic could write. None
// of them may be redriven, whatever record it names, and they must not block genuine letters, even of the same records.
func TestForgedLettersStayInTheirTopic(t *testing.T) {
	const n, named = 40, 3 // this many foreign letters are listed one by one
	r := newRedriving(t)
	r.records(t, 2*n)
	forge := func(i int, change func(*record.DeadLetter)) record.DeadLetter {
		l := r.deadLetter(i)
		l.Value, l.Reason, l.Headers = fmt.Appendf(nil, "forged %d", i), "bad_meta", nil
		change(&l)
		return l
	}
	forged := []record.DeadLetter{
		forge(0, func(l *record.DeadLetter) { l.Number = 99 }),
		forge(1, func(l *record.DeadLetter) { l.Offset = 1 << 40 }),
		forge(2, func(l *record.DeadLetter) { l.TopicID[3]++ }),
		forge(4, func(l *record.DeadLetter) { l.Key = []byte("other") }),
		forge(6, func(l *record.DeadLetter) { l.Key = nil }),
		forge(7, func(l *record.DeadLetter) { l.Key = []byte{} }),
		forge(9, func(l *record.DeadLetter) { l.Part, l.Key = 3, []byte("key") }),
	}
	r.write(t, forged...)
	r.fill(t, n)
	r.write(t, forged...)
	staying := int64(2 * len(forged))

	dry, _ := r.refusing(t, "--dry-run")
	if dry.Driven != n || dry.Foreign != staying {
		t.Errorf("dry run: %+v", dry)
	}
	first, stderr := r.refusing(t, "--reason", "bad_meta")
	if first.Driven != 0 || first.Foreign != staying || strings.Count(stderr, "\n") != 1 ||
		!strings.Contains(stderr, r.topic+".dlq/0/0 (") || !strings.Contains(stderr, fmt.Sprintf("and %d more.", staying-named)) {
		t.Errorf("the forged ones alone: %+v\n%s", first, stderr)
	}
	t.Log(stderr)
	if all := r.redrive(t); all.Driven != n || all.Gone != 0 || all.Foreign != 0 || all.Doubles != n/10+staying {
		t.Errorf("all: %+v", all)
	}
	if again := r.redrive(t); again.Total != 0 {
		t.Errorf("again: %+v", again)
	}
	r.isOnce(t, n)
}

// TestLettersOfDeletedRecordsGoBack checks that letters whose records are deleted from the topic are redriven and counted
// separately. The beginning of a log is deleted after some time.
func TestLettersOfDeletedRecordsGoBack(t *testing.T) {
	const n = 40
	r := newRedriving(t)
	r.fill(t, n)
	transport := &kafka.Transport{MetadataTopics: []string{r.topic}}
	defer transport.CloseIdleConnections()
	for p := range int32(sourcePartitions) {
		if _, err := transport.RoundTrip(t.Context(), r.client.Addr, &deleteRecords{topic: r.topic, partition: p, before: 6}); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := try(t, r.env, "dlq", "redrive", "--yes")
	if code != exitDone || !strings.Contains(stdout, "40  redriven") || !strings.Contains(stdout, "24  of these could not be compared with their records") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	r.isOnce(t, n)
}

// TestStrayComesBackByItsPlace checks that an operator can redrive a letter by its place that no selection includes, and that the
// doubt about it is reported.
func TestStrayComesBackByItsPlace(t *testing.T) {
	r := newRedriving(t)
	l := r.deadLetter(5)
	l.TopicID[0]++ // as if the topic was created again
	r.records(t, 8)
	r.write(t, l)
	place := fmt.Sprintf("%s.dlq/%d/0", r.topic, l.Number%2)
	if view, stderr := r.refusing(t); view.Foreign != 1 || !strings.Contains(stderr, place+" (topic "+r.topic+" was deleted and created again after the dead letter was written)") {
		t.Errorf("%+v\n%s", view, stderr)
	}
	code, stdout, stderr := try(t, r.env, "dlq", "redrive", "--yes", "--letter", place, "--output", "json")
	var view cli.RedriveView
	if err := json.Unmarshal([]byte(stdout), &view); err != nil || code != exitDone || view.Driven != 1 || !strings.Contains(stderr, "redriven because of --letter") {
		t.Errorf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	r.isOnce(t, 1)
}
