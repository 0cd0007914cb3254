package rollup

import (
	"strings"
	"testing"
	"time"

	"waterwheel/internal/timeseries"
)

func TestParseLevels(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		" ":                           "",
		"1h":                          "1h",
		"1m:2160h,1h:17520h,1d":       "1m:2160h0m0s,1h:17520h0m0s,1d",
		"1d, 1h , 1m:90d":             "1m:2160h0m0s,1h,1d",
		"1m:1h":                       "1m:1h0m0s",
		"1h:1488h,1d:10000d":          "1h:1488h0m0s,1d:240000h0m0s",
		"1h:24h":                      "1h:24h0m0s",
		"1h:1h30m,1m":                 "error: has \"1h:1h30m\": the expiry must be at least 24h, the time that one document of this level covers",
		"1m:59m":                      "error: has \"1m:59m\": the expiry must be at least 1h",
		"1d:24h,1h":                   "error: has \"1d:24h\": the expiry must be at least 744h",
		"1d":                          "error: has 1d without 1h: days are computed from hours, so add 1h",
		"1m,1d":                       "error: has 1d without 1h",
		"1h:48h,1d":                   "error: has 1h with an expiry of 48h: days are computed from hours, which must be kept for at least 1488h",
		"5m":                          "error: has \"5m\", which is not a level: give 1m, 1h or 1d",
		"1h,":                         "error: has \"\", which is not a level",
		"hour":                        "error: has \"hour\", which is not a level",
		"1h,1h:48h":                   "error: names the level 1h twice",
		"1h:":                         "error: has \"1h:\": \"\" is not a duration: write it as 2160h or 90d",
		"1h:soon":                     "error: has \"1h:soon\": \"soon\" is not a duration",
		"1h:-2h":                      "error: has \"1h:-2h\": the expiry \"-2h\" must be a whole number of seconds above zero",
		"1h:0s":                       "error: has \"1h:0s\": the expiry \"0s\" must be a whole number of seconds above zero",
		"1h:48h0m0.5s":                "error: has \"1h:48h0m0.5s\": the expiry \"48h0m0.5s\" must be a whole number",
		"1h:1000000h":                 "error: has \"1h:1000000h\": the expiry \"1000000h\" is too long: MongoDB allows at most 595779h",
		"1m:2160h;1h":                 "error: has \"1m:2160h;1h\"",
		"1m:2160h,1h:17520h,1d:87600": "error: has \"1d:87600\": \"87600\" is not a duration",
	} {
		got := ""
		levels, err := ParseLevels(text)
		if got = levels.String(); err != nil {
			got = "error: " + err.Error()
		}
		if got != want && !(strings.HasPrefix(want, "error") && strings.HasPrefix(got, want)) {
			t.Errorf("ParseLevels(%q) = %s, want %s", text, got, want)
		}
		if again, err2 := ParseLevels(levels.String()); err2 != nil || again.String() != levels.String() {
			t.Errorf("ParseLevels(%q) is %v, %v: what it writes must be what it reads", levels, again, err2)
		}
	}
}

func TestWindowsAndPeriods(t *testing.T) {
	const layout = "2006-01-02T15:04:05.000"
	for _, c := range []struct{ level, at, window, windowEnd, from, to string }{
		{"1m", "2026-03-01T12:34:56.789", "2026-03-01T12:34:00.000", "2026-03-01T12:35:00.000", "2026-03-01T12:00:00.000", "2026-03-01T13:00:00.000"},
		{"1h", "2026-03-01T12:34:56.789", "2026-03-01T12:00:00.000", "2026-03-01T13:00:00.000", "2026-03-01T00:00:00.000", "2026-03-02T00:00:00.000"},
		{"1d", "2026-03-01T12:34:56.789", "2026-03-01T00:00:00.000", "2026-03-02T00:00:00.000", "2026-03-01T00:00:00.000", "2026-04-01T00:00:00.000"},
		{"1d", "2024-02-29T23:59:59.999", "2024-02-29T00:00:00.000", "2024-03-01T00:00:00.000", "2024-02-01T00:00:00.000", "2024-03-01T00:00:00.000"},
		{"1d", "2026-12-31T00:00:00.000", "2026-12-31T00:00:00.000", "2027-01-01T00:00:00.000", "2026-12-01T00:00:00.000", "2027-01-01T00:00:00.000"},
		{"1m", "1969-12-31T23:59:59.999", "1969-12-31T23:59:00.000", "1970-01-01T00:00:00.000", "1969-12-31T23:00:00.000", "1970-01-01T00:00:00.000"},
		{"1d", "1969-12-31T23:59:59.999", "1969-12-31T00:00:00.000", "1970-01-01T00:00:00.000", "1969-12-01T00:00:00.000", "1970-01-01T00:00:00.000"},
	} {
		l, ok := LevelOf(c.level)
		at, err := time.Parse(layout, c.at)
		if err != nil || !ok {
			t.Fatal(c.level, err)
		}
		write := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(layout) }
		from, to := l.Period(at.UnixMilli())
		got := []string{write(l.Window(at.UnixMilli())), write(l.WindowEnd(at.UnixMilli())), write(from), write(to)}
		if want := []string{c.window, c.windowEnd, c.from, c.to}; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s of %s: %v, want %v", c.level, c.at, got, want)
		}
	}
}

func TestLevelIsATimeSeries(t *testing.T) {
	of := timeseries.Options{TimeField: "at", MetaField: "tags", Granularity: timeseries.Hours, ExpireAfterSeconds: 5}
	for text, want := range map[string]timeseries.Options{
		"1m:48h": {TimeField: "at", MetaField: "tags", MaxSpanSeconds: 3600, RoundingSeconds: 3600, ExpireAfterSeconds: 172800},
		"1h":     {TimeField: "at", MetaField: "tags", MaxSpanSeconds: 86400, RoundingSeconds: 86400},
	} {
		levels, err := ParseLevels(text)
		if err != nil {
			t.Fatal(err)
		}
		got := levels[0].Options(of)
		if normal, err := got.Normalize(); err != nil || normal != want || got != want {
			t.Errorf("%s: %+v (%v), want %+v", text, got, err, want)
		}
	}
	day, _ := LevelOf(Day)
	if o, err := day.Options(of).Normalize(); err != nil || o.Span() != 31*dayMs {
		t.Errorf("a document of days spans %d ms, %v", o.Span(), err)
	}
	if name := day.SeriesName("measurements"); name != "measurements_1d" {
		t.Errorf("the series of days is %s", name)
	}
}

func TestFieldPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*", "wind.speed", true},
		{"celsius", "celsius", true},
		{"celsius", "celsius2", false},
		{"wind.*", "wind.speed", true},
		{"wind.*", "wind", true},
		{"wind", "wind.speed", true},
		{"wind", "wind.gust.max", true},
		{"wind", "windy.speed", false},
		{"wind.speed", "wind", false},
		{"w*d", "wind.speed", true},
		{"*.speed", "speed", false},
		{"*.speed", "wind.speed.max", true},
		{"*.speed", "wind.speed", true},
		{"*_c*_f", "a_c1_f", true},
		{"*_c*_f", "a_f_c", false},
		{"a*a", "a", false},
		{"a*b*c", "a-bb-bc", true},
		{"a*b*c", "abbbb", false},
	} {
		if got := (Fields{c.pattern}).Match(c.path); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.path, got)
		}
	}
	if !(Fields{}).Match("anything") || (Fields{"a", "b"}).Match("c") || !(Fields{"a", "b"}).Match("b") {
		t.Error("an empty list has all fields, and a list those of each pattern")
	}
	for _, bad := range []string{"", "a..b", ".a", "a.", "a\x00"} {
		if CheckPattern(bad) == nil {
			t.Errorf("the pattern %q passes", bad)
		}
	}
	if err := CheckPattern("wind.*"); err != nil {
		t.Error(err)
	}
}

func TestFieldsCoverOthers(t *testing.T) {
	for _, c := range []struct {
		have, other Fields
		want        bool
	}{
		{Fields{"a", "b"}, Fields{"b", "a"}, true},
		{Fields{"a", "b"}, Fields{"b"}, true},
		{Fields{"a"}, Fields{"a", "b"}, false},
		{nil, Fields{"a"}, true},
		{Fields{"a"}, nil, false},
		{Fields{"*"}, nil, true},
		{nil, nil, true},
		{Fields{"wind.*"}, Fields{"wind.speed", "wind.gust*"}, true},
		{Fields{"wind.*"}, Fields{"w*"}, false},
		{Fields{"wind.*"}, Fields{"wind"}, true},
		{Fields{"wind"}, Fields{"wind.*", "wind.speed"}, true},
		{Fields{"wind.speed"}, Fields{"wind"}, false},
		{Fields{"wind.s*"}, Fields{"wind.*"}, false},
		{Fields{"a*c"}, Fields{"a*b*c"}, true},
		{Fields{"a*b*c"}, Fields{"a*c"}, false},
	} {
		if got := c.have.Covers(c.other); got != c.want {
			t.Errorf("%q covers %q: %v", c.have, c.other, got)
		}
	}
}

func FuzzParseLevels(f *testing.F) {
	for _, text := range []string{"1m:2160h,1h:17520h,1d", "1d", "1h:1ns", ",", "1h:99999999999999h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		levels, err := ParseLevels(text)
		if err != nil {
			return
		}
		if again, err := ParseLevels(levels.String()); err != nil || again.String() != levels.String() {
			t.Errorf("%q is %v, which is %v, %v", text, levels, again, err)
		}
		for _, l := range levels {
			if _, err := l.Options(timeseries.Options{TimeField: "time"}).Normalize(); err != nil {
				t.Errorf("%q makes a time series that MongoDB refuses: %v", text, err)
			}
		}
	})
}
