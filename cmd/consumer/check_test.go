package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/kafka"
)

// sampled runs events through a sampler, made at the time that they are recorded at.
func sampled(t *testing.T, env map[string]string, events ...string) (SampleView, findings) {
	t.Helper()
	all := settings()
	for name, value := range env {
		all[name] = value
	}
	c, err := config.Load(func(name string) (string, bool) { v, ok := all[name]; return v, ok }, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSampler(c, "events")
	if err != nil {
		t.Fatal(err)
	}
	for i, event := range events {
		r := &dlq.Record{Offset: int64(i), Timestamp: 1_700_000_000_000, Value: []byte(event)}
		if event == "" {
			r.Value = nil
		}
		s.take(0, r)
	}
	view := s.finish()
	var found findings
	s.judge(&found)
	return view, found
}

func repeat(n int, format string, args func(int) []any) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(format, args(i)...))
	}
	return list
}

// has tells whether a finding of this state holds the text.
func (f *findings) has(state FindingState, text string) bool {
	return slices.ContainsFunc(f.list, func(one Finding) bool { return one.State == state && strings.Contains(one.Text, text) })
}

func TestSampleShowsWhatEventsBecome(t *testing.T) {
	events := repeat(60, `{"time":%d,"meta":{"host":"h%d"},"v":1}`, func(i int) []any { return []any{1_700_000_000 + i, i % 3} })
	events = append(events, "", `{"time":1700000000,"meta":1`, `[{"time":1700000000,"meta":"x"},7]`)
	view, found := sampled(t, nil, events...)
	if view.Records != 63 || view.Tombstones != 1 || view.Measurements != 61 || view.Series != 4 || len(view.Examples) != 3 {
		t.Errorf("%+v", view)
	}
	if got := string(view.Examples[0]); got != `{"time":{"$date":"2023-11-14T22:13:20Z"},"meta":{"host":"h0"},"v":1}` {
		t.Errorf("the first measurement is %s", got)
	}
	reasons := map[string]int{}
	for _, b := range view.Bad {
		reasons[b.Reason] = b.Count
	}
	if len(reasons) != 2 || reasons["not_json"] != 1 || reasons["not_object"] != 1 {
		t.Errorf("bad: %v", reasons)
	}
	// The minute begins at 22:13: every series has a bucket for it and one for the next.
	if view.Buckets < 4 || view.Largest[0].Measurements < view.Largest[len(view.Largest)-1].Measurements || view.Largest[0].Bytes == 0 {
		t.Errorf("%d buckets: %+v", view.Buckets, view.Largest)
	}
	if !found.has(findingWarning, "2 of 63 events would become letters") || found.count(findingWrong) != 0 {
		t.Errorf("%+v", found.list)
	}
	var out bytes.Buffer
	if printSample(&out, &view); !strings.Contains(out.String(), "61 measurements, 1 tombstones") {
		t.Error(out.String())
	}
	if _, err := json.Marshal(view); err != nil {
		t.Error(err)
	}
}

func TestSampleSeesAWrongUnitOfTime(t *testing.T) {
	events := repeat(60, `{"time":%d,"meta":"a"}`, func(i int) []any { return []any{1_700_000_000 + i} })
	_, found := sampled(t, map[string]string{"EVENT_TIME_FORMAT": "unix_ms"}, events...)
	if !found.has(findingWrong, "looks like seconds and was read as milliseconds") {
		t.Errorf("%+v", found.list)
	}
	events = repeat(60, `{"time":%d,"meta":"a"}`, func(i int) []any { return []any{1_700_000_000 + i + 20*3600} })
	if _, found = sampled(t, nil, events...); !found.has(findingWarning, "20h0m30s or more later than their records") {
		t.Errorf("times of tomorrow: %+v", found.list)
	}
	events = repeat(60, `{"time":%d,"meta":"a"}`, func(i int) []any { return []any{1_600_000_000 + i} })
	if _, found = sampled(t, nil, events...); !found.has(findingWarning, "older than their records") {
		t.Errorf("times of years ago: %+v", found.list)
	}
}

func TestSampleSeesTooManySeries(t *testing.T) {
	events := repeat(100, `{"time":1700000000,"meta":{"host":"h%d","trace":{"id":%d}}}`, func(i int) []any { return []any{i % 4, i} })
	view, found := sampled(t, nil, events...)
	if !found.has(findingWarning, "100 measurements are 100 series") || !found.has(findingWarning, "meta.trace.id (100 values in 100), meta.host (4 values in 100)") {
		t.Errorf("%+v", found.list)
	}
	if view.Buckets != 100 {
		t.Errorf("%d buckets", view.Buckets)
	}
	events = repeat(100, `{"time":1700000000,"meta":{"host":"h%d"}}`, func(i int) []any { return []any{i % 40} })
	if _, found = sampled(t, nil, events...); found.count(findingOK) != len(found.list) {
		t.Errorf("few series: %+v", found.list)
	}
}

func TestVarietyOfAnyMeta(t *testing.T) {
	v := newVariety()
	for _, meta := range []any{"a", "b", bson.Null{}, bson.D{}, bson.A{1, bson.D{{Key: "x", Value: 1}}}, "a"} {
		kind, value, err := bson.MarshalValue(meta)
		if err != nil {
			t.Fatal(err)
		}
		v.add(bson.RawValue{Type: kind, Value: value})
	}
	v.add(bson.RawValue{})
	got := fmt.Sprint(v.fields(9))
	if want := "[{ 4 5} {0 1 1} {1.x 1 1}]"; got != want || v.series() != 6 {
		t.Errorf("%d series, fields %s, want %s", v.series(), got, want)
	}
}

func TestSharesOfASample(t *testing.T) {
	span := func(first, end int64) dlq.Span { return dlq.Span{First: first, End: end} }
	cases := []struct {
		spans []dlq.Span
		n     int64
		want  []int64
	}{
		{[]dlq.Span{span(0, 100), span(50, 150)}, 10, []int64{5, 5}},
		{[]dlq.Span{span(0, 100), span(0, 2), span(7, 7)}, 10, []int64{8, 2, 0}},
		{[]dlq.Span{span(0, 3), span(0, 2)}, 10, []int64{3, 2}},
		{nil, 10, []int64{}},
	}
	for _, c := range cases {
		if got := shares(c.spans, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.spans, got, c.want)
		}
	}
}

func TestDurabilityOfTopics(t *testing.T) {
	for _, c := range []struct {
		replicas, inSync int
		least, text      string
	}{
		{1, 1, "1", "one replica"},
		{3, 2, "2", "2 of 3 replicas are in sync"},
		{3, 3, "3", "nothing can be written when one broker is down"},
		{3, 3, "1", "is lost with it"},
		{3, 3, "2", ""},
	} {
		var found findings
		durability("topic", kafka.Configuration{Replicas: c.replicas, InSync: c.inSync, Values: map[string]string{"min.insync.replicas": c.least}}, &found)
		if c.text == "" && len(found.list) == 0 {
			continue
		}
		if len(found.list) != 1 || c.text == "" || !found.has(findingWarning, c.text) {
			t.Errorf("%+v: %+v", c, found.list)
		}
	}
}

func TestFindingsPrintTheirWaysOut(t *testing.T) {
	var found findings
	found.ok("Kafka", "connected")
	found.wrong("topic events", "create it", "does not exist\x1b[1m")
	var out bytes.Buffer
	found.print(&out)
	const want = "ok       Kafka         connected\nwrong    topic events  does not exist\\x1b[1m\n                       → create it\n\n1 wrong, 0 warnings.\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestCheckOfServersThatAreNotThere(t *testing.T) {
	env := settings()
	env["KAFKA_BROKERS"], env["MONGODB_URI"] = "127.0.0.1:1", "mongodb://127.0.0.1:1/db?serverSelectionTimeoutMS=100"
	code, stdout, _ := try(t, env, nil, "check")
	if code != exitFound || !strings.Contains(stdout, "wrong    Kafka ") || !strings.Contains(stdout, "wrong    MongoDB ") || !strings.Contains(stdout, "2 wrong") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	if code, _, stderr := try(t, env, nil, "check", "--sample", "-1"); code != exitUsage {
		t.Errorf("a negative sample: exit code %d, %s", code, stderr)
	}
}

// TestInterruptedCheckFindsNothing: Ctrl-C is no fault of the servers.
func TestInterruptedCheckFindsNothing(t *testing.T) {
	env := settings()
	env["KAFKA_BROKERS"], env["MONGODB_URI"] = "127.0.0.1:1", "mongodb://127.0.0.1:1/db?serverSelectionTimeoutMS=100"
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, stderr bytes.Buffer
	p := &program{stdout: &out, stderr: &stderr, lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	if code := p.execute(ctx, []string{"check"}); code != exitFailed || out.Len() > 0 || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit code %d, %q, %q", code, out.String(), stderr.String())
	}
}

func TestCheckOnServers(t *testing.T) {
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		t.Skip("E2E_MONGODB_URI is not set: no MongoDB to test with")
	}
	r := newRedriving(t)
	r.write(t, r.letters(100)...)
	r.env["MONGODB_URI"], r.env["MONGODB_DATABASE"] = uri, r.topic
	code, stdout, stderr := try(t, r.env, nil, "check", "--sample", "50", "--output", "json")
	var view CheckView
	if err := json.Unmarshal([]byte(stdout), &view); err != nil || code != exitDone {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	found := findings{view.Findings}
	for _, text := range []string{"4 partitions, no records", "2 partitions, 110 offsets", "is not set up", "a document could be inserted, updated, read and deleted", "nothing committed for " + r.topic} {
		if !found.has(findingOK, text) && !found.has(findingNote, text) {
			t.Errorf("%q is not found in %+v", text, found.list)
		}
	}
	r.records(t, 100)
	r.redrive(t) // letters are no events
	r.env["KAFKA_TOPICS"] += ",no-such-" + r.topic
	code, stdout, _ = try(t, r.env, nil, "check", "--sample", "50")
	for _, text := range []string{"would become letters", "create the topic or correct KAFKA_TOPICS", "50       not_json"} {
		if code != exitFound || !strings.Contains(stdout, text) {
			t.Errorf("exit code %d, %q is missing in\n%s", code, text, stdout)
		}
	}
}
