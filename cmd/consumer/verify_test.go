package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waterwheel/claim"
	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/dlq"
	"waterwheel/kafka"
	"waterwheel/record"
	"waterwheel/timeseries"
	"waterwheel/verify"
)

func TestWrongUseOfVerify(t *testing.T) {
	several := settings()
	several["KAFKA_TOPICS"] = "a,b"
	for name, c := range map[string]struct {
		env    map[string]string
		args   []string
		stderr string
	}{
		"no topic":      {several, nil, "--topic is missing: one of KAFKA_TOPICS, a, b"},
		"no such topic": {settings(), []string{"--topic", "x"}, "not one of KAFKA_TOPICS: events"},
		"partition":     {settings(), []string{"--partition", "-2"}, "--partition is -2"},
		"from":          {settings(), []string{"--from", "noon"}, `--from is "noon": an offset, or a time as`},
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

func TestCommittedOffsetBoundsWhatIsVerified(t *testing.T) {
	ours := claim.Provenance{ClusterID: "c", TopicID: [16]byte{1}, Namespace: "db.events"}
	deleted, elsewhere, mirrored := ours, ours, ours
	deleted.TopicID, elsewhere.Namespace, mirrored.ClusterID = [16]byte{2}, "db.other", "d"
	for name, c := range map[string]struct {
		committed kafka.Committed
		want      int64
		note, err string
	}{
		"ours":             {kafka.Committed{Place: record.Place{Offset: 5}, Metadata: ours.String()}, 5, "", ""},
		"none":             {kafka.Committed{Place: record.Place{Offset: -1}}, 0, "has committed nothing", ""},
		"a reset":          {kafka.Committed{Place: record.Place{Offset: 5}}, 5, "taken as it is", ""},
		"a mirror":         {kafka.Committed{Place: record.Place{Offset: 5}, Metadata: mirrored.String()}, 5, "taken as it is", ""},
		"a deleted topic":  {kafka.Committed{Place: record.Place{Offset: 5}, Metadata: deleted.String()}, 0, "that is deleted", ""},
		"other collection": {kafka.Committed{Place: record.Place{Offset: 5}, Metadata: elsewhere.String()}, 0, "", "writes /0 to db.other, the settings name db.events"},
	} {
		var r verifyRange
		got, err := r.committed("g", ours, &c.committed)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d, %v", name, got, err)
		}
		if notes := strings.Join(r.notes, " "); !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
			t.Errorf("%s: note %q", name, notes)
		}
	}
}

// TestARangeOfNothingSaysSo: a check of nothing must not look like one that found nothing.
func TestARangeOfNothingSaysSo(t *testing.T) {
	const first, committed = 10, 300
	for name, c := range map[string]struct {
		from, to int64
		begin    string
		nothing  bool
		want     verify.Range
		note     string // empty: there is none
	}{
		"all":                  {first, committed, logStart, false, verify.Range{From: 10, To: 300}, ""},
		"a part":               {20, 30, "--from", false, verify.Range{From: 20, To: 30}, ""},
		"beyond the commit":    {500, committed, "--from", false, verify.Range{From: 500, To: 300}, "nothing to verify: --from (offset 500) is not below the committed offset (300)"},
		"at the commit":        {300, committed, "--from", false, verify.Range{From: 300, To: 300}, "nothing to verify: --from (offset 300) is not below the committed offset (300)"},
		"to beyond the commit": {20, 400, "--from", false, verify.Range{From: 20, To: 300}, "only offsets below the committed one, 300, can be verified"},
		"after the end":        {310, committed, "KAFKA_START", false, verify.Range{From: 310, To: 300}, "nothing to verify: KAFKA_START (offset 310) is not below the committed offset (300)"},
		"before the log":       {first, 5, logStart, false, verify.Range{From: 10, To: 5}, "nothing to verify: the log's start (offset 10) is not below --to (5)"},
		"known to be nothing":  {first, 0, logStart, true, verify.Range{From: 10, To: 0}, ""},
		"retention":            {3, committed, "--from", false, verify.Range{From: 10, To: 300}, "retention has removed the records below offset 10: they cannot be verified"},
	} {
		r := verifyRange{Range: verify.Range{From: c.from, To: c.to}, nothing: c.nothing}
		r.clip(c.begin, first, committed)
		if notes := strings.Join(r.notes, ". "); r.Range != c.want || notes != c.note {
			t.Errorf("%s: %+v, notes %q", name, r.Range, notes)
		}
	}
	r := verifyRange{Range: verify.Range{From: 300, To: 300}}
	if r.clip(logStart, 300, 300); r.notes != nil {
		t.Errorf("an empty partition: %q", r.notes)
	}
}

func TestOffsetsAndTimesOfFlags(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if offset, _, err := parseOffset("--from", "17", now); err != nil || *offset != 17 {
		t.Errorf("%v, %v", offset, err)
	}
	if offset, at, err := parseOffset("--from", "-2h", now); err != nil || offset != nil || !at.Equal(now.Add(-2*time.Hour)) {
		t.Errorf("%v, %v, %v", offset, at, err)
	}
	if offset, at, err := parseOffset("--from", "", now); err != nil || offset != nil || !at.IsZero() {
		t.Errorf("%v, %v, %v", offset, at, err)
	}
}

// faulty is a report with one of each problem.
func faulty() verify.Report {
	tally := func(offsets ...verify.Place) verify.Tally {
		return verify.Tally{Count: int64(len(offsets)), First: offsets}
	}
	return verify.Report{
		Partition: 2, From: 100, To: 300, Next: 200, FirstStored: 150, Findings: verify.Findings{
			Records: 100, Valid: 90, StoredOnce: 80, DeadLettered: 3,
			Missing: verify.Tally{Count: 9, First: []verify.Place{{Offset: 101}, {Offset: 102, Part: 3}}},
			Doubled: tally(verify.Place{Offset: 160}), Unknown: tally(verify.Place{Offset: 170}), LetterMissing: tally(verify.Place{Offset: 180}),
			Damaged:   verify.Faults{Count: 2, First: []verify.Fault{{Bucket: "b1", Path: "control.count", Text: "is 9\x1b"}}},
			Different: verify.Faults{Count: 1, First: []verify.Fault{{Bucket: "b2", Path: "data.x.1", Position: &verify.Place{Offset: 190}, Text: "is 1"}}},
			Repair:    verify.Repairs{Planned: 1, Copies: 1, Updated: 1, First: []verify.Repair{{Bucket: "b3", Removed: 1, Kept: 7}}},
		},
	}
}

func TestVerifySaysWhatIsWrongAndWhatToDo(t *testing.T) {
	view := verifyView{Topic: "events", Group: "meters", Content: true, Rest: []Resume{{Partition: 3, From: 5}}}
	view.add(PartitionVerdict{Report: faulty(), Notes: []string{"the log is short"}})
	var out bytes.Buffer
	if view.print(&out, verifyOptions{content: true, to: "400"}); !view.Wrong {
		t.Error("nothing is wrong")
	}
	for _, line := range []string{
		"PARTITION  OFFSETS  RECORDS  MEASUREMENTS  STORED ONCE  DEAD-LETTERED  EXPIRED  MISSING  DOUBLED  UNKNOWN  LETTER MISSING  DAMAGED BUCKETS  DIFFERENT",
		"2          100–199  100      90            80           3              0        9        1        1        1               2                1",
		"events/2: note: the log is short.",
		"events/2: 9 missing: in the log, but neither stored nor a dead letter: offsets 101, 102[3], ….",
		"  Nothing is stored before the first of them. If the group began later (KAFKA_START), verify from there: --from.",
		"  kafka-consumer-groups.sh --bootstrap-server $KAFKA_BROKERS --group meters --topic events:2 --reset-offsets --to-offset 101 --execute\n",
		"events/2: 1 doubled: listed by more than one bucket: offsets 160.",
		"events/2: 1 unknown: ",
		"events/2: 1 without a letter: ",
		`events/2: damaged: bucket b1, control.count: is 9\x1b.`,
		"events/2: damaged: and 1 more.",
		"events/2: different: bucket b2, data.x.1 (offset 190): is 1.",
		"events/2: repair: 1 copies would be taken out, so that 1 measurements are stored once: 1 buckets changed and closed, 0 deleted.",
		"  bucket b3: 1 out, 7 stay.",
		"  consumer verify --topic events --partition 2 --from 200 --to 400 --content",
		"  consumer verify --topic events --partition 3 --from 5 --to 400 --content",
		"verified 90 measurements of events: 80 stored once, 3 dead-lettered, 0 expired, 9 missing, 1 doubled, 1 unknown, 1 letters missing, 2 damaged buckets, 1 different",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in:\n%s", line, out.String())
		}
	}
}

// TestVerifySaysWhichLettersCannotBeTold: a topic whose letters were deleted after a re-drive is not wrong.
func TestVerifySaysWhichLettersCannotBeTold(t *testing.T) {
	deleted := verify.Report{Partition: 2, From: 100, To: 200, Next: 200, Findings: verify.Findings{
		Records: 100, Valid: 97, StoredOnce: 97, Bad: 3, DeadLettered: 1,
		LetterDeleted: verify.Tally{Count: 2, First: []verify.Place{{Offset: 101}, {Offset: 102}}},
	}}
	view := verifyView{Topic: "events", DeletedLetters: []DeletedLetters{{"events.dlq/0", 12}}}
	view.add(PartitionVerdict{Report: deleted})
	var out bytes.Buffer
	if view.print(&out, verifyOptions{}); view.Wrong {
		t.Error("something is wrong")
	}
	for _, text := range []string{
		"events/2: note: 2 cannot be decoded, and their letters may have been deleted: offsets 101, 102.",
		"Letters before offset 12 of events.dlq/0 were deleted.",
		"0 letters missing, 0 damaged buckets, 2 letters perhaps deleted",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is missing in:\n%s", text, out.String())
		}
	}
	deleted.LetterDeleted = verify.Tally{}
	view.Partitions = nil
	view.add(PartitionVerdict{Report: deleted})
	out.Reset()
	if view.print(&out, verifyOptions{}); strings.Contains(out.String(), "deleted") {
		t.Errorf("where all letters that matter are there:\n%s", out.String())
	}
}

// letterShelf is a dead-letter topic of two partitions in memory, without any letters that are still there.
type letterShelf struct{ first, later []int64 }

func (l *letterShelf) Partitions(context.Context, string) ([]int32, error) { return []int32{0, 1}, nil }

func (l *letterShelf) TopicID(context.Context, string) (id [16]byte, _ error) { return id, nil }

// Bounds are those of the first look, then the later ones.
func (l *letterShelf) Bounds(_ context.Context, _ string, partition int32) (first, end int64, err error) {
	first = l.first[partition]
	l.first[partition] = l.later[partition]
	return first, 9, nil
}

func (l *letterShelf) Read(context.Context, string, int32, int64, int64, func(*dlq.Record) error) error {
	return nil
}

func TestDeletedLettersAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		shelf letterShelf
		want  []DeletedLetters
	}{
		"none":                 {letterShelf{[]int64{0, 0}, []int64{0, 0}}, nil},
		"before":               {letterShelf{[]int64{0, 4}, []int64{0, 4}}, []DeletedLetters{{"events.dlq/1", 4}}},
		"while they were read": {letterShelf{[]int64{0, 0}, []int64{9, 0}}, []DeletedLetters{{"events.dlq/0", 9}}},
	} {
		index := letterIndex{Letters: new(verify.Letters)}
		p := &program{stderr: io.Discard}
		err := index.read(t.Context(), &c.shelf, "events.dlq", timeseries.Source{Topic: "events"}, p.progress("letters"))
		if diff := cmp.Diff(c.want, index.deleted); err != nil || diff != "" {
			t.Errorf("%s: %v%s", name, err, diff)
		}
	}
}

func TestVerifyAsJSONSaysTheSame(t *testing.T) {
	view := verifyView{Topic: "events", Content: true}
	view.add(PartitionVerdict{Report: faulty()})
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
	for _, name := range []string{`"storedOnce": 80`, `"letterMissing": {`, `"wrong": true`, `"offset": 101`} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("%s is missing in:\n%s", name, out.String())
		}
	}
}
