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
	if !found.has(Warning, "1 of 3 events would become a letter") {
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
