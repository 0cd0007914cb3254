package timeseries

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// codeOf returns the code name of an *Error, "" for no error.
func codeOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var refused *Error
	if !errors.As(err, &refused) {
		t.Fatalf("%v is a %T, want *Error", err, err)
	}
	return refused.CodeName()
}

func TestNormalizeFillsInDefaults(t *testing.T) {
	for name, c := range map[string]struct{ given, want Options }{
		"nothing": {
			Options{TimeField: "t"},
			Options{TimeField: "t", Granularity: Seconds, MaxSpanSeconds: 3600},
		},
		"granularity": {
			Options{TimeField: "t", MetaField: "m", Granularity: Hours},
			Options{TimeField: "t", MetaField: "m", Granularity: Hours, MaxSpanSeconds: 2592000},
		},
		"granularity with its span": {
			Options{TimeField: "t", Granularity: Minutes, MaxSpanSeconds: 86400, ExpireAfterSeconds: 60},
			Options{TimeField: "t", Granularity: Minutes, MaxSpanSeconds: 86400, ExpireAfterSeconds: 60},
		},
		"custom": {
			Options{TimeField: "t", MaxSpanSeconds: 300, RoundingSeconds: 300},
			Options{TimeField: "t", MaxSpanSeconds: 300, RoundingSeconds: 300},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.given.Normalize()
			if err != nil || got != c.want {
				t.Fatalf("got %+v, %v; want %+v", got, err, c.want)
			}
			if again, err := got.Normalize(); err != nil || again != got {
				t.Errorf("normalised twice: %+v, %v", again, err)
			}
		})
	}
}

func TestNormalizeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		given   Options
		code    string
		message string // a part of it: the field, its value
	}{
		"no time field":          {Options{}, "BadValue", "timeField is empty"},
		"dotted time field":      {Options{TimeField: "a.b"}, "InvalidOptions", `timeField is "a.b"`},
		"NUL in meta field":      {Options{TimeField: "t", MetaField: "a\x00"}, "InvalidOptions", "metaField is"},
		"operator as meta field": {Options{TimeField: "t", MetaField: "$m"}, "InvalidOptions", `metaField is "$m"`},
		"meta field _id":         {Options{TimeField: "t", MetaField: "_id"}, "InvalidOptions", `metaField is "_id"`},
		"meta field time":        {Options{TimeField: "t", MetaField: "t"}, "InvalidOptions", `metaField is "t"`},
		"unknown granularity":    {Options{TimeField: "t", Granularity: "days"}, "BadValue", `granularity is "days"`},
		"span of another granularity": {
			Options{TimeField: "t", Granularity: Seconds, MaxSpanSeconds: 3601}, "InvalidOptions", "bucketMaxSpanSeconds is 3601",
		},
		"rounding beside granularity": {
			Options{TimeField: "t", Granularity: Seconds, MaxSpanSeconds: 3600, RoundingSeconds: 60}, "InvalidOptions", "bucketRoundingSeconds is 60",
		},
		"span alone":        {Options{TimeField: "t", MaxSpanSeconds: 3600}, "InvalidOptions", "bucketMaxSpanSeconds is 3600"},
		"rounding alone":    {Options{TimeField: "t", RoundingSeconds: 60}, "InvalidOptions", "bucketRoundingSeconds 60"},
		"span and rounding": {Options{TimeField: "t", MaxSpanSeconds: 60, RoundingSeconds: 61}, "InvalidOptions", "same number"},
		"span too long":     {Options{TimeField: "t", MaxSpanSeconds: 31536001, RoundingSeconds: 31536001}, "Location51024", "31536001"},
		"negative span":     {Options{TimeField: "t", MaxSpanSeconds: -1, RoundingSeconds: -1}, "Location51024", "-1"},
		"negative expiry":   {Options{TimeField: "t", ExpireAfterSeconds: -1}, "BadValue", "expireAfterSeconds is -1"},
		"expiry beyond TTL": {Options{TimeField: "t", ExpireAfterSeconds: math.MaxInt32 - 3599}, "BadValue", "expireAfterSeconds is"},
		"expiry beyond int": {Options{TimeField: "t", ExpireAfterSeconds: math.MaxInt64}, "BadValue", "expireAfterSeconds is"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.given.Normalize()
			if got := codeOf(t, err); got != c.code {
				t.Fatalf("got %q (%v), want %q", got, err, c.code)
			}
			if !strings.Contains(err.Error(), c.message) || !strings.Contains(err.Error(), c.code) {
				t.Errorf("%q does not name %q and %q", err, c.message, c.code)
			}
		})
	}
}

func TestChangeKeepsFieldsAndTakesExpiry(t *testing.T) {
	from := Options{TimeField: "t", MetaField: "m", Granularity: Seconds, ExpireAfterSeconds: 60}
	got, err := from.Change(Options{Granularity: Hours})
	want := Options{TimeField: "t", MetaField: "m", Granularity: Hours, MaxSpanSeconds: 2592000}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if got, err = from.Change(Options{ExpireAfterSeconds: 5}); err != nil || got.ExpireAfterSeconds != 5 || got.Granularity != Seconds {
		t.Errorf("a change of the expiry alone gave %+v, %v", got, err)
	}
	for _, to := range []Options{{TimeField: "other"}, {MetaField: "other"}} {
		if _, err := from.Change(to); codeOf(t, err) != "InvalidOptions" {
			t.Errorf("Change(%+v) = %v, want InvalidOptions", to, err)
		}
	}
}

func TestRoundGoesDown(t *testing.T) {
	at := func(s string) int64 {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v.UnixMilli()
	}
	custom := Options{MaxSpanSeconds: 900, RoundingSeconds: 900}
	for _, c := range []struct {
		options    Options
		time, want int64
	}{
		{Options{}, at("2021-04-22T20:10:14.134Z"), at("2021-04-22T20:10:00Z")},
		{Options{Granularity: Minutes}, at("2021-04-22T20:10:14Z"), at("2021-04-22T20:00:00Z")},
		{Options{Granularity: Hours}, at("2021-04-22T20:10:14Z"), at("2021-04-22T00:00:00Z")},
		{custom, at("2021-04-22T20:29:59.999Z"), at("2021-04-22T20:15:00Z")},
		{Options{}, 0, 0},
		{Options{Granularity: "days"}, 61_000, 60_000},
		{Options{}, -1, -60_000},
		{Options{}, -60_000, -60_000},
		{Options{}, -60_001, -120_000},
		{Options{}, math.MinInt64, math.MinInt64},
		{Options{}, math.MaxInt64, math.MaxInt64 / 60_000 * 60_000},
	} {
		if got := c.options.Round(c.time); got != c.want {
			t.Errorf("%+v rounds %d to %d, want %d", c.options, c.time, got, c.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		options Options
		want    int64
	}{
		{Options{}, 3600_000},
		{Options{Granularity: Minutes, MaxSpanSeconds: 86400}, 86400_000},
		{Options{Granularity: Hours}, 2592000_000},
		{Options{MaxSpanSeconds: 7, RoundingSeconds: 7}, 7000},
	} {
		if got := c.options.Span(); got != c.want {
			t.Errorf("%+v spans %d ms, want %d", c.options, got, c.want)
		}
	}
}

func TestSizesShareTheCache(t *testing.T) {
	const mebibyte = 1 << 20
	for _, c := range []struct {
		cache, active       int64
		effective, absolute int32
	}{
		{0, 1000, 128000, LargeBytes},
		{256 * mebibyte, 0, 128000, LargeBytes},
		{256 * mebibyte, 1, 128000, LargeBytes},
		{256 * mebibyte, 1000, 128000, 134217},
		{256 * mebibyte, 1049, 127948, 127948},
		{256 * mebibyte, 2500, 53687, 53687},
		{256 * mebibyte, 1_000_000, 5120, 5120},
		{math.MaxInt64, 1, 128000, LargeBytes},
		{1, math.MaxInt64, 5120, 5120},
	} {
		limits := Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10, CacheBytes: c.cache}
		if effective, absolute := limits.Sizes(c.active); effective != c.effective || absolute != c.absolute {
			t.Errorf("%d bytes for %d buckets: %d, %d; want %d, %d",
				c.cache, c.active, effective, absolute, c.effective, c.absolute)
		}
	}
}

func BenchmarkRound(b *testing.B) {
	o := Options{TimeField: "t", Granularity: Minutes}
	ms := int64(1_700_000_000_123)
	for b.Loop() {
		o.Round(ms)
	}
}

// definedOptions returns normalised options for every kind of bucketing.
func definedOptions(t *testing.T) (all []Options) {
	t.Helper()
	for _, o := range []Options{
		{TimeField: "time"},
		{TimeField: "time", MetaField: "meta", Granularity: Minutes, ExpireAfterSeconds: 60},
		{TimeField: "t", MetaField: "m", Granularity: Hours},
		{TimeField: "time", MetaField: "meta", MaxSpanSeconds: 7200, RoundingSeconds: 7200},
	} {
		o, err := o.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

func stored(t *testing.T, d Definition) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestDefinitionsAreReadAsTheyWereWritten(t *testing.T) {
	for _, o := range definedOptions(t) {
		for _, segments := range []bool{false, true} {
			d := Definition{ID: DefinitionID, Version: 7, Options: o, Segments: segments}
			if got, err := ReadDefinition(stored(t, d)); err != nil || got != d {
				t.Errorf("%+v is read as %+v, %v", d, got, err)
			}
		}
	}
}

// TestDefinitionHasPlainValues checks that the document contains the granularity itself, for programs and for people.
func TestDefinitionHasPlainValues(t *testing.T) {
	for _, o := range definedOptions(t) {
		raw := stored(t, Definition{ID: DefinitionID, Version: 7, Options: o, Segments: true})
		if got, _ := raw.Lookup("granularity").StringValueOK(); got != string(o.Granularity) {
			t.Errorf("%+v is stored with the granularity %q", o, got)
		}
		segments, _ := raw.Lookup("segments").BooleanOK()
		if !segments {
			t.Errorf("that there are segments is not in %v", raw)
		}
	}
}

// TestDefinitionTakesNoRemark checks that a granularity with additional text is refused.
func TestDefinitionTakesNoRemark(t *testing.T) {
	for _, granularity := range []Granularity{"hours; see the wiki", "custom; see the wiki", "weeks"} {
		if _, err := ReadDefinition(stored(t, Definition{ID: DefinitionID, Options: Options{TimeField: "t", Granularity: granularity}})); err == nil {
			t.Errorf("%q is a granularity", granularity)
		}
	}
}
