package check

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFeedsAreCutIntoRecords(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string
	}{
		{"{\"a\":1}\n\n  {\"a\":2}\r\n", []string{`{"a":1}`, `{"a":2}`}},
		{"{\"a\":1}\nno JSON\n{\"a\":2}", []string{`{"a":1}`, `no JSON`, `{"a":2}`}},
		{"{bad\n{\"a\":2}", []string{`{bad`, `{"a":2}`}},
		{"plain text\n{\"a\":2}", []string{`plain text`, `{"a":2}`}},
		{"{\n \"a\": 1\n}\n{\n \"a\": 2\n}", []string{"{\n \"a\": 1\n}", "{\n \"a\": 2\n}"}},
		{"[{\"a\":1},\n {\"a\":2}, 3]", []string{`{"a":1}`, `{"a":2}`, `3`}},
		{"[{\"a\":1}]\n[{\"a\":2}]\n", []string{`{"a":1}`, `{"a":2}`}},
		{"{\n \"a\": 1\n}\n{\n \"a\": 2", []string{"{\n \"a\": 1\n}", "{\n \"a\": 2"}},
		{"\x00\x00\x00\x00\x07{\"a\":1}\n", []string{"\x00\x00\x00\x00\x07{\"a\":1}"}},
		{" \n", nil},
	} {
		values, whole, err := readFeed(strings.NewReader(test.text))
		var got []string
		for _, v := range values {
			got = append(got, string(v))
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", test.want) || !whole || err != nil {
			t.Errorf("%q: %q, %v, %v, want %q", test.text, got, whole, err, test.want)
		}
	}
}

func TestFeedsAreReadWithinBounds(t *testing.T) {
	line := `{"x":"` + strings.Repeat("x", 1<<10) + "\"}\n"
	endless := io.MultiReader(strings.NewReader(strings.Repeat(line, 17<<10)), iotest.ErrReader(errors.New("read too far")))
	values, whole, err := readFeed(endless)
	if err != nil || whole || len(values) < 15<<10 || len(values) > 17<<10 {
		t.Errorf("%d values, %v, %v", len(values), whole, err)
	}
	if last := string(values[len(values)-1]); last+"\n" != line {
		t.Errorf("the last value is cut: %d bytes", len(last))
	}
	if values, whole, _ = readFeed(strings.NewReader(strings.Repeat("1\n", feedRecords+5))); len(values) != feedRecords || whole {
		t.Errorf("%d values, %v", len(values), whole)
	}
}

func TestFeedSaysWhatItIsOf(t *testing.T) {
	view, found := sampledAndKept(t, `{"time":1700000000,"meta":"a"}`, `{"time":1700000000}`, `{"time":1700000000,"meta":"a"}`)
	if view.Topic != FeedName || view.Records != 3 || view.Measurements != 2 || view.Bad[0].From != "event 2" {
		t.Errorf("%+v", view)
	}
	if !found.has(Warning, "1 of 3 events would become a dead letter") {
		t.Errorf("%+v", found)
	}
	decoding, bucketing := eventOptions(t, nil)
	if _, err := Feed(strings.NewReader("\n"), 0, decoding, bucketing, &found); !errors.Is(err, ErrNoEvents) {
		t.Error(err)
	}
	if _, err := Feed(iotest.ErrReader(errors.New("broken pipe")), 0, decoding, bucketing, &found); err == nil || !strings.Contains(err.Error(), "reading standard input: broken pipe") {
		t.Error(err)
	}
}

// TestFeedOfRecordsHasTheirKeys reads lines that kcat -J prints.
func TestFeedOfRecordsHasTheirKeys(t *testing.T) {
	lines := repeat(40, `{"topic":"t","partition":%d,"offset":%d,"tstype":"create","ts":%d,"broker":1,"headers":["a","b"],"key":"room-%d","payload":"{\"time\":%d,\"v\":1}"}`,
		func(i int) []any { return []any{i % 4, i, 1_700_000_000_000 + i, i % 4, 1_700_000_000 + i} })
	lines = append(lines, `{"topic":"t","partition":0,"offset":41,"ts":1700000000000,"key":"room-0","payload":null}`)
	view, _ := sampledAndKept(t, lines...)
	if view.Proposal == nil || view.Proposal.Line() != "EVENT_META_FROM=key" || view.Proposal.Series != 4 || view.Tombstones != 1 {
		t.Errorf("%+v, %d tombstones", view.Advice, view.Tombstones)
	}
	if loses := fmt.Sprint(view.Proposal.Loses); !strings.Contains(loses, "headers: a") {
		t.Errorf("lost would be %s", loses)
	}
	view, _ = sampledAndKept(t, append(lines, `{"time":1700000000,"v":1}`)...)
	if view.Proposal != nil && strings.Contains(view.Proposal.Line(), "key") {
		t.Errorf("one line is no record: %+v", view.Proposal)
	}
}
