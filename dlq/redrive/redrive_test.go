package redrive

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"waterwheel/dlq"
	"waterwheel/internal/record"
)

func TestRedriveTwiceFindsNothingTheSecondTime(t *testing.T) {
	w := filled(1200)
	report, err := w.run(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.isOnce(t, 1200)
	want := Report{
		Total: 1320, Read: 1320, Driven: 1200, Doubles: 120, Reasons: map[string]int64{"bad_time": 400, "not_json": 800}, Again: map[string]int64{},
	}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if report, err = w.run(t, nil); err != nil || report.Driven != 0 || report.Total != 0 {
		t.Errorf("the second run: %+v, %v", report, err)
	}
	w.isOnce(t, 1200)
}

func TestLetterGoesBackAsTheRecordItWas(t *testing.T) {
	w := newWorld()
	w.append(record.Partition{Topic: "events", Number: 3})
	l := sample()
	w.letter(l, tried("2", record.Header{Key: "own", Value: []byte{}}, record.Header{Key: "own"})...)
	if _, err := w.run(t, nil); err != nil {
		t.Fatal(err)
	}
	want := []record.Record{{
		Timestamp: l.Timestamp, Key: l.Key, Value: l.Value,
		Headers: encoded([]record.Header{
			{Key: "own", Value: []byte{}},
			{Key: "own"},
			{Key: "waterwheel.attempt", Value: []byte("3")},
			{Key: "waterwheel.driven", Value: []byte("events.dlq/0/0")},
		}),
	}}
	want[0].Offset = l.Offset + 1
	if diff := cmp.Diff(want, w.logs[record.Partition{Topic: "events", Number: 3}][l.Offset+1:]); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

// TestLetterOfKafkaConnectGoesBack uses the letter of a Kafka Connect sink connector with
// errors.deadletterqueue.context.headers.enable, written by hand from its documentation.
func TestLetterOfKafkaConnectGoesBack(t *testing.T) {
	w := newWorld()
	headers := []record.Header{{Key: "trace", Value: []byte("7")}}
	for _, pair := range [][2]string{
		{"__connect.errors.topic", "events"},
		{"__connect.errors.partition", "2"},
		{"__connect.errors.offset", "41"},
		{"__connect.errors.connector.name", "mongo-sink"},
		{"__connect.errors.task.id", "0"},
		{"__connect.errors.stage", "VALUE_CONVERTER"},
		{"__connect.errors.class.name", "org.apache.kafka.connect.json.JsonConverter"},
		{"__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException"},
		{"__connect.errors.exception.message", "Converting byte[] to Kafka Connect data failed due to serialization error: "},
		{"__connect.errors.exception.stacktrace", "org.apache.kafka.connect.errors.DataException\n\tat …"},
	} {
		headers = append(headers, record.Header{Key: pair[0], Value: []byte(pair[1])})
	}
	w.original(&record.DeadLetter{Place: record.Place{Partition: record.Partition{Topic: "events", Number: 2}, Offset: 41}, Key: []byte("k")})
	for range 2 {
		w.append(dead, record.Record{Timestamp: 5, Key: []byte("k"), Value: []byte("{"), Headers: encoded(headers)})
	}
	report, err := w.run(t, func(o *Options) {
		o.Selection.Reasons = []string{"org.apache.kafka.connect.errors.DataException"}
	})
	if err != nil || report.Driven != 1 || report.Doubles != 1 {
		t.Fatalf("report %+v, %v", report, err)
	}
	want := []record.Record{{Offset: 42, Timestamp: 5, Key: []byte("k"), Value: []byte("{"), Headers: encoded([]record.Header{
		{Key: "trace", Value: []byte("7")}, {Key: "waterwheel.attempt", Value: []byte("2")}, {Key: "waterwheel.driven", Value: []byte("events.dlq/0/0")},
	})}}
	if diff := cmp.Diff(want, w.logs[record.Partition{Topic: "events", Number: 2}][42:]); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func TestWhatStays(t *testing.T) {
	w := newWorld()
	for i, attempt := range []string{"3", "7", "1", "2"} {
		l := sample()
		l.Offset = int64(i)
		if attempt == "1" {
			l.Cut = "value of 9 bytes"
		}
		w.letter(l, tried(attempt)...)
	}
	w.append(dead, record.Record{Value: []byte("somebody's own")})
	report, err := w.run(t, nil)
	if err != nil || report.Driven != 1 || report.Exhausted != 2 || report.Cut != 1 || report.Others != 1 {
		t.Errorf("report %+v, %v", report, err)
	}
	report, err = w.run(t, func(o *Options) { o.Selection.MaxAttempts = 8 })
	if err != nil || report.Driven != 2 || report.Doubles != 1 || report.Cut != 1 {
		t.Errorf("with more attempts: report %+v, %v", report, err)
	}
}

func TestLimitAndRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := filled(100)
		begin := time.Now()
		report, err := w.run(t, func(o *Options) { o.Limit, o.Rate = 30, 10 })
		if took := time.Since(begin); err != nil || report.Driven != 30 || took != 3*time.Second {
			t.Errorf("%d letters in %v, %v; want 30 in 3s", report.Driven, took, err)
		}
		if report, err = w.run(t, nil); err != nil || report.Driven != 70 {
			t.Errorf("the rest: %d, %v", report.Driven, err)
		}
		w.isOnce(t, 100)
	})
}

func TestDryRunChangesNothing(t *testing.T) {
	w := filled(700)
	w.failAt, w.lasts = 1, true // every effect fails
	report, err := w.run(t, func(o *Options) { o.DryRun = true })
	if err != nil || report.Driven != 700 || report.Doubles != 70 || w.effects != 0 {
		t.Errorf("report %+v, %v, %d effects", report, err, w.effects)
	}
}

func TestDryRunCountsWhatWouldComeBack(t *testing.T) {
	w := filled(700)
	report, err := w.run(t, func(o *Options) {
		o.DryRun, o.Limit = true, 300
		o.Again = func(f *dlq.Found) string {
			l := &f.Letter
			if l.Offset%3 == 0 {
				return "bad_time"
			}
			return ""
		}
	})
	if err != nil || report.Driven != 300 || report.Again["bad_time"] < 90 || report.Again["bad_time"] > 110 {
		t.Errorf("report %+v, %v", report, err)
	}
}

func TestForeignTopicStopsRatherThanBeingPassed(t *testing.T) {
	w := newWorld()
	l := sample()
	l.Topic = "orders"
	w.letter(l)
	if _, err := w.run(t, nil); err == nil || !strings.Contains(err.Error(), `"orders"`) {
		t.Errorf("error %v, want one that names the topic", err)
	}
	if c := w.commits[""][dead]; c.Offset != 0 {
		t.Errorf("committed %+v past it", c)
	}
}

func TestMarkerFitsIntoACommit(t *testing.T) {
	const most = 4096 // offset.metadata.max.bytes
	w := newWorld()
	topic := strings.Repeat("t", longestTopic-3)
	var sources []string
	for i := range 200 {
		l := sample()
		l.Topic, l.Number = fmt.Sprintf("%s%03d", topic, i%60), int32(2_000_000_000+i)
		l.Offset = int64(i)
		sources = append(sources, l.Topic)
		w.append(l.Partition)
		w.letter(l)
	}
	longest := 0
	progress := progressFunc(func(metadata string) { longest = max(longest, len(metadata)) })
	report, err := w.runUntil(t.Context(), t, progress, func(o *Options) { o.Member.Topics = sources })
	if err != nil || report.Driven != 200 || longest > most || longest < most/2 {
		t.Errorf("%d driven, longest metadata of %d bytes, %v", report.Driven, longest, err)
	}
}

type progressFunc func(metadata string)

func (f progressFunc) Commit(_ context.Context, c record.Commit) error {
	f(c.Metadata)
	return nil
}

func TestMarkerAndSelectionComeBackAsTheyWere(t *testing.T) {
	m := &marker{until: 1 << 60, ends: map[record.Partition]int64{{Topic: "a", Number: 0}: 7, {Topic: "b.c_d-e", Number: 12}: 0}}
	got, err := parseMarker(m.String())
	if err != nil || got.until != m.until || !maps.Equal(got.ends, m.ends) {
		t.Errorf("%q came back as %+v, %v", m, got, err)
	}
	if got, err := parseMarker(""); got != nil || err != nil {
		t.Errorf("no metadata is %+v, %v", got, err)
	}
	for _, text := range []string{"redrive", "redrive until=x", "redrive until=1 a=2", "redrive until=1 a/x=2", "redrive until=1 a/1"} {
		if _, err := parseMarker(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	s := Selection{MaxAttempts: 5, Filter: dlq.Filter{
		Reasons: []string{"org.x.E$1", "bad_time", "bad_time"}, Topics: []string{"a&b"},
		From: time.Unix(1_700_000_000, 5).UTC(), To: time.Unix(1_800_000_000, 0).UTC(),
	}}
	back, err := parseSelection(s.String())
	if err != nil || back.String() != s.String() || len(back.Reasons) != 2 || !back.From.Equal(s.From) {
		t.Errorf("%q came back as %+v, %v", s, back, err)
	}
	for _, text := range []string{"reasons=x", "from=yesterday", "max-attempts=x", "%zz"} {
		if _, err := parseSelection(text); err == nil {
			t.Errorf("the selection %q was taken", text)
		}
	}
}
