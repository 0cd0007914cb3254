package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
)

func TestWrongUseOfVerify(t *testing.T) {
	several := settings()
	several["KAFKA_TOPICS"] = "a,b"
	for name, c := range map[string]struct {
		env    map[string]string
		args   []string
		stderr string
	}{
		"no topic":      {several, nil, "--topic is missing: give one of KAFKA_TOPICS, a, b"},
		"no such topic": {settings(), []string{"--topic", "x"}, "not one of KAFKA_TOPICS: events"},
		"partition":     {settings(), []string{"--partition", "-2"}, "--partition is -2"},
		"from":          {settings(), []string{"--from", "noon"}, `--from is "noon": give an offset, a time such as 2026-01-31T12:00:00Z, "`},
		"to":            {settings(), []string{"--to=-5"}, "--to is -5: offsets begin at 0"},
		"empty":         {settings(), []string{"--from", "7", "--to", "7"}, "--to is 7: it must be above --from, 7"},
		"empty times":   {settings(), []string{"--from=-1h", "--to=-2h"}, "--to is -2h: it must be above --from, -1h"},
		"examples":      {settings(), []string{"--examples", "0"}, "--examples is 0"},
		"output":        {settings(), []string{"--output", "xml"}, "table or json"},
		"settings":      {map[string]string{}, nil, "KAFKA_BROKERS: is required"},
	} {
		if code, _, stderr := try(t, c.env, nil, append([]string{"verify"}, c.args...)...); code != exitUsage || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
	}
}

func TestOffsetsAndTimesOfFlags(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if l, err := parseLimit("--from", "17", now); err != nil || *l.Offset != 17 || l.Name != "--from" {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := parseLimit("--from", "-2h", now); err != nil || l.Offset != nil || !l.Time.Equal(now.Add(-2*time.Hour)) {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := parseLimit("--from", "", now); err != nil || l.Offset != nil || !l.Time.IsZero() {
		t.Errorf("%+v, %v", l, err)
	}
}

// faulty returns a report with one of each problem.
func faulty() verify.Report {
	tally := func(offsets ...timeseries.Position) verify.Tally {
		return verify.Tally{Count: int64(len(offsets)), First: offsets}
	}
	return verify.Report{
		Partition: 2, From: 100, To: 300, Next: 200, FirstStored: 150, Findings: verify.Findings{
			Records: 100, Valid: 90, StoredOnce: 80, DeadLettered: 3,
			Missing: verify.Tally{Count: 9, First: []timeseries.Position{{Offset: 101}, {Offset: 102, Part: 3}}},
			Doubled: tally(timeseries.Position{Offset: 160}), Unknown: tally(timeseries.Position{Offset: 170}), DeadLetterMissing: tally(timeseries.Position{Offset: 180}),
			Damaged:   verify.Faults{Count: 2, First: []verify.Fault{{Bucket: "b1", Path: "control.count", Text: "is 9\x1b"}}},
			Different: verify.Faults{Count: 1, First: []verify.Fault{{Bucket: "b2", Path: "data.x.1", Position: &timeseries.Position{Offset: 190}, Text: "is 1"}}},
			Repair:    verify.Repairs{Planned: 1, Copies: 1, Updated: 1, First: []verify.RepairedBucket{{Bucket: "b3", Removed: 1, Kept: 7}}},
		},
	}
}

func TestVerifySaysWhatIsWrongAndWhatToDo(t *testing.T) {
	view := verifyView{Topic: "events", Group: "meters", Content: true, Rest: []resume{{Partition: 3, From: 5}}}
	report := faulty()
	report.Notes = []string{"the log is short"}
	view.add(report)
	var out bytes.Buffer
	if view.print(&out, verifyOptions{content: true, to: "400"}); !view.Wrong {
		t.Error("nothing is wrong")
	}
	for _, line := range []string{
		"PARTITION  OFFSETS  RECORDS  MEASUREMENTS  STORED ONCE  DEAD-LETTERED  EXPIRED  MISSING  DOUBLED  UNKNOWN  DEAD LETTER MISSING  DAMAGED BUCKETS  DIFFERENT",
		"2          100–199  100      90            80           3              0        9        1        1        1                    2                1",
		"events/2: note: the log is short.",
		"events/2: 9 missing: in Kafka, but neither stored nor a dead letter: offsets 101, 102[3], ….",
		"  Nothing is stored before the first of them. If the group began later (KAFKA_START), verify from there: --from.",
		"  kafka-consumer-groups.sh --bootstrap-server $KAFKA_BROKERS --group meters --topic events:2 --reset-offsets --to-offset 101 --execute\n",
		"events/2: 1 doubled: listed by more than one bucket: offset 160.",
		"events/2: 1 unknown: ",
		"events/2: 1 without a dead letter: ",
		`events/2: damaged: bucket b1, control.count: is 9\x1b.`,
		"events/2: damaged: and 1 more.",
		"events/2: different: bucket b2, data.x.1 (offset 190): is 1.",
		"events/2: repair: 1 copy would be removed, so that 1 measurement is stored once: 1 bucket changed and closed, 0 deleted.",
		"  bucket b3: 1 removed, 7 stay.",
		"  waterwheel verify --topic events --partition 2 --from 200 --to 400 --content",
		"  waterwheel verify --topic events --partition 3 --from 5 --to 400 --content",
		"verified 90 measurements of events: 80 stored once, 3 dead-lettered, 0 expired, 9 missing, 1 doubled, 1 unknown, 1 dead letter missing, 2 damaged buckets, 1 different",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in:\n%s", line, out.String())
		}
	}
}

// TestVerifySaysWhichLettersCannotBeTold checks that a topic whose letters were deleted after a redrive is not wrong.
func TestVerifySaysWhichLettersCannotBeTold(t *testing.T) {
	deleted := verify.Report{Partition: 2, From: 100, To: 200, Next: 200, Findings: verify.Findings{
		Records: 100, Valid: 97, StoredOnce: 97, Bad: 3, DeadLettered: 1,
		DeadLetterDeleted: verify.Tally{Count: 2, First: []timeseries.Position{{Offset: 101}, {Offset: 102}}},
	}}
	view := verifyView{Topic: "events", DeletedDeadLetters: []deletedDeadLetters{{"events.dlq/0", 12}}}
	view.add(deleted)
	var out bytes.Buffer
	if view.print(&out, verifyOptions{}); view.Wrong {
		t.Error("something is wrong")
	}
	for _, text := range []string{
		"events/2: note: 2 cannot be decoded, and their dead letters may have been deleted: offsets 101, 102.",
		"Dead letters before offset 12 of events.dlq/0 were deleted.",
		"0 dead letters missing, 0 damaged buckets, 2 dead letters perhaps deleted",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is missing in:\n%s", text, out.String())
		}
	}
	deleted.DeadLetterDeleted = verify.Tally{}
	view.Partitions = nil
	view.add(deleted)
	out.Reset()
	if view.print(&out, verifyOptions{}); strings.Contains(out.String(), "deleted") {
		t.Errorf("where all letters that matter are there:\n%s", out.String())
	}
}

// TestVerifyCountsWhatIsNotWrong checks that each kind has its own count and no advice.
func TestVerifyCountsWhatIsNotWrong(t *testing.T) {
	tally := func(n int64) verify.Tally { return verify.Tally{Count: n, First: []timeseries.Position{{Offset: 7}}} }
	var view verifyView
	view.Topic = "events"
	view.add(verify.Report{From: 0, To: 100, Next: 100, Findings: verify.Findings{
		Records: 90, Valid: 90, StoredOnce: 79, Deleted: tally(11), Compacted: tally(10), MetaChanged: tally(5),
	}})
	view.add(verify.Report{Partition: 1, From: 0, To: 10, Next: 10, Findings: verify.Findings{Records: 10, Valid: 10, StoredOnce: 10}})
	var out bytes.Buffer
	if view.print(&out, verifyOptions{}); view.Wrong {
		t.Error("something is wrong")
	}
	for _, text := range []string{
		"DAMAGED BUCKETS  DELETED  COMPACTED  META CHANGED\n",
		"0          0–99     90       90            79           0              0        0        0        0        0                    0                11       10         5\n",
		"verified 100 measurements of events: 89 stored once, ",
		", 0 missing, 0 doubled, 0 unknown, 0 dead letters missing, 0 damaged buckets, 11 deleted, 10 compacted, 5 metas changed\n",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is missing in:\n%s", text, out.String())
		}
	}
	if strings.Contains(out.String(), "reset-offsets") {
		t.Errorf("a reset is advised:\n%s", out.String())
	}
}

// deadLetterShelf is a dead-letter topic of two partitions in memory, from which all letters are deleted.
type deadLetterShelf struct{ first, later []int64 }

func (l *deadLetterShelf) Topic(context.Context, string) (kafka.Topic, error) {
	return kafka.Topic{Partitions: []kafka.Partition{{ID: 0}, {ID: 1}}}, nil
}

// Bounds returns the first bounds at the first call, and then the later ones.
func (l *deadLetterShelf) Bounds(_ context.Context, of record.Partition) (first, end int64, err error) {
	first = l.first[of.Number]
	l.first[of.Number] = l.later[of.Number]
	return first, 9, nil
}

func (l *deadLetterShelf) Scan(context.Context, record.Partition, int64, int64, func(*record.Record) error) (int64, error) {
	return 0, nil
}

func TestDeletedLettersAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		shelf deadLetterShelf
		want  []deletedDeadLetters
	}{
		"none":                 {deadLetterShelf{[]int64{0, 0}, []int64{0, 0}}, nil},
		"before":               {deadLetterShelf{[]int64{0, 4}, []int64{0, 4}}, []deletedDeadLetters{{"events.dlq/1", 4}}},
		"while they were read": {deadLetterShelf{[]int64{0, 0}, []int64{9, 0}}, []deletedDeadLetters{{"events.dlq/0", 9}}},
	} {
		index := deadLetterIndex{DeadLetters: new(verify.DeadLetters)}
		p := &Program{Stderr: io.Discard}
		err := index.read(t.Context(), &c.shelf, "events.dlq", timeseries.Source{Topic: "events"}, p.progress("letters"))
		if diff := cmp.Diff(c.want, index.deleted); err != nil || diff != "" {
			t.Errorf("%s: %v%s", name, err, diff)
		}
	}
}

func TestVerifyAsJSONSaysTheSame(t *testing.T) {
	view := verifyView{Topic: "events", Content: true}
	view.add(faulty())
	var out bytes.Buffer
	if err := text.WriteJSON(&out, view); err != nil {
		t.Fatal(err)
	}
	var back verifyView
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(view, back); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{`"storedOnce": 80`, `"deadLetterMissing": {`, `"wrong": true`, `"offset": 101`} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("%s is missing in:\n%s", name, out.String())
		}
	}
}
