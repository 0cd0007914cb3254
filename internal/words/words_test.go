package words

import (
	"testing"
	"time"
)

func TestCountsHaveTheirPlural(t *testing.T) {
	for _, test := range []struct {
		n           int
		thing, want string
	}{
		{0, "partition", "0 partitions"},
		{1, "partition", "1 partition"},
		{2, "partition", "2 partitions"},
		{1, "series", "1 series"},
		{2, "series", "2 series"},
		{2, "copy", "2 copies"},
		{2, "key", "2 keys"},
		{2, "index", "2 indexes"},
		{2, "batch", "2 batches"},
		{2, "zero byte", "2 zero bytes"},
		{-1, "row", "-1 rows"},
	} {
		if got := Count(test.n, test.thing); got != test.want {
			t.Errorf("Count(%d, %q) = %q, want %q", test.n, test.thing, got, test.want)
		}
	}
	if one, many := Form(int64(1), "is", "are"), Form(int64(0), "is", "are"); one != "is" || many != "are" {
		t.Errorf("1 %s, 0 %s", one, many)
	}
}

func TestMisspeltWordsAreNearKnownOnes(t *testing.T) {
	known := []string{"json", "table", "bad_time", "missing_time", "missing_meta", "sasl_tls"}
	for word, want := range map[string]string{
		"jsn": "json", "JSON": "json", "josn": "json", "tab": "table", "bad-time": "bad_time", "badtime": "bad_time",
		"missing_tiem": "missing_time", "missing-metta": "missing_meta", "SASL TLS": "sasl_tls",
		"": "", "x": "", "yaml": "", "j": "", "mine": "",
	} {
		if got := Near(word, known); got != want {
			t.Errorf("Near(%q) = %q, want %q", word, got, want)
		}
	}
	if text := DidYouMean("jsn", known) + DidYouMean("yaml", known); text != ": did you mean json?" {
		t.Errorf("%q", text)
	}
}

func TestDistanceCountsSlips(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"ab", "xaby", 2}, {"tsl", "tls", 1}} {
		if got := Distance(test.a, test.b); got != test.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestSpans(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "30d": 30 * day, "2w": 14 * day, "1w2d3h": 9*day + 3*time.Hour, "0s": 0, "0": 0,
		"-2h": -2 * time.Hour, "+7d": 7 * day, "-1d12h": -36 * time.Hour, "1.5h": 90 * time.Minute,
	} {
		if got, ok := ParseSpan(text); !ok || got != want {
			t.Errorf("%q: %v, %t; want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "+", "-", "5", "d", "1x", "1d-2h", "--2h", "+-2h", "1d+2h", "40000d", "99999999999999999999d", "36600d2000000h", "1d2w", "1.5d"} {
		if got, ok := ParseSpan(text); ok {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}

func FuzzParseSpan(f *testing.F) {
	for _, text := range []string{"90s", "1w2d3h", "-1d12h", "+", "1d-2h", "40000d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, ok := ParseSpan(text)
		if plain, err := time.ParseDuration(text); err == nil && (!ok || d != plain) {
			t.Errorf("%q is %v to the time package, and %v, %t here", text, plain, d, ok)
		}
		if d < 0 && ok && text[0] != '-' {
			t.Errorf("%q is %v", text, d)
		}
	})
}
