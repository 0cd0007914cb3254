package measurement

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"waterwheel/internal/record"
)

// zoned returns the time of a text in a zone, for a record with some timestamp.
func zoned(t *testing.T, o Options, text string, timestamp int64) string {
	t.Helper()
	o.TimeField, o.MetaFrom = "t", MetaFromNone
	o.TimeMin, o.TimeMax = At(0), At(lastMillis)
	var got [2]string
	for i := range got {
		d := newDecoder(t, o)
		d.quick.off = i == 1
		results, err := d.Decode(record.Record{Timestamp: timestamp, Value: []byte(`{"t":` + text + `}`)})
		if err != nil {
			got[i] = err.Error()
		} else {
			got[i] = time.UnixMilli(results[0].Measurement.Time).UTC().Format(time.RFC3339)
		}
	}
	if got[0] != got[1] {
		t.Errorf("%s: in one pass %s, else %s", text, got[0], got[1])
	}
	return got[0]
}

func TestTimesWithoutZoneAreLocal(t *testing.T) {
	berlin := Options{TimeZone: "Europe/Berlin"}
	layout := func(format string) Options { return Options{TimeZone: "Europe/Berlin", TimeFormat: format} }
	millis := func(text string) int64 {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixMilli()
	}
	for _, test := range []struct {
		options   Options
		text      string
		timestamp int64
		want      string
	}{
		{berlin, `"2026-08-24T07:17:52"`, noTimestamp, "2026-08-24T05:17:52Z"},
		{berlin, `"2026-01-24T07:17:52"`, noTimestamp, "2026-01-24T06:17:52Z"},
		{berlin, `"2026-01-24 07:17"`, noTimestamp, "2026-01-24T06:17:00Z"},
		{berlin, `"20260124T071752"`, noTimestamp, "2026-01-24T06:17:52Z"},
		{berlin, `"2026-01-24T07:17:52Z"`, noTimestamp, "2026-01-24T07:17:52Z"},
		{berlin, `"2026-01-24T07:17:52-05:00"`, noTimestamp, "2026-01-24T12:17:52Z"},
		{berlin, `1769239072`, noTimestamp, "2026-01-24T07:17:52Z"},
		{layout("02.01.2006 15:04:05"), `"24.08.2026 07:17:52"`, noTimestamp, "2026-08-24T05:17:52Z"},
		{layout("%Y%m%d%H%M%S"), `20260824071752`, noTimestamp, "2026-08-24T05:17:52Z"},
		{layout("2006-01-02"), `"2026-08-24"`, noTimestamp, "2026-08-23T22:00:00Z"},
		// The hour occurs twice, and the time nearer to the record counts.
		{berlin, `"2025-10-26T02:30:00"`, noTimestamp, "2025-10-26T00:30:00Z"},
		{berlin, `"2025-10-26T02:30:00"`, millis("2025-10-26T00:30:04Z"), "2025-10-26T00:30:00Z"},
		{berlin, `"2025-10-26T02:30:00"`, millis("2025-10-26T01:30:04Z"), "2025-10-26T01:30:00Z"},
		{berlin, `"2025-10-26T02:30:00"`, millis("2025-10-26T01:29:00Z"), "2025-10-26T01:30:00Z"},
		{berlin, `"2025-10-26T02:00:00"`, noTimestamp, "2025-10-26T00:00:00Z"},
		{berlin, `"2025-10-26T01:59:59"`, millis("2025-10-27T00:00:00Z"), "2025-10-25T23:59:59Z"},
		{berlin, `"2025-10-26T03:00:00"`, noTimestamp, "2025-10-26T02:00:00Z"},
		// The hour is skipped.
		{berlin, `"2026-03-29T01:59:59"`, noTimestamp, "2026-03-29T00:59:59Z"},
		{berlin, `"2026-03-29T02:30:00"`, noTimestamp, "2026-03-29T01:30:00Z"},
		{berlin, `"2026-03-29T03:00:00"`, noTimestamp, "2026-03-29T01:00:00Z"},
		{Options{TimeZone: "Asia/Kathmandu"}, `"2026-03-29T06:00:00"`, noTimestamp, "2026-03-29T00:15:00Z"},
		{Options{TimeZone: "America/New_York"}, `"2025-11-02T01:30:00"`, noTimestamp, "2025-11-02T05:30:00Z"},
		{Options{TimeZone: "UTC"}, `"2025-11-02T01:30:00"`, noTimestamp, "2025-11-02T01:30:00Z"},
		{Options{}, `"2025-11-02T01:30:00"`, noTimestamp, `bad_time at t: "2025-11-02T01:30:00" is not a time in the format auto: it has no time zone: add Z or an offset at its source, or set EVENT_TIME_ZONE`},
	} {
		if got := zoned(t, test.options, test.text, test.timestamp); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s in %s for %d: %s, want %s", test.text, test.options.TimeZone, test.timestamp, got, test.want)
		}
	}
}

// TestLocalTimesComeBack checks that a zone's local time at a moment is read as that moment, if it is the record's.
func TestLocalTimesComeBack(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, zone := range []string{"Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Tehran", "Africa/Casablanca", "Pacific/Apia"} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		p := timeParser{zone: location}
		for range 20000 {
			at := time.Unix(1_200_000_000+random.Int64N(600_000_000), 0)
			p.timestamp = at.UnixMilli() + random.Int64N(20000) - 10000
			wall := at.In(location)
			asUTC := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, time.UTC).UnixMilli()
			if got := p.local(asUTC); got != at.UnixMilli() {
				t.Fatalf("%s: %s is read as %s", zone, wall, time.UnixMilli(got).In(location))
			}
		}
	}
}

func TestZonesAreChecked(t *testing.T) {
	for _, test := range []struct{ zone, format, says string }{
		{"Europe/Berlin", "auto", ""},
		{"UTC", "2006-01-02 15:04:05", ""},
		{"", "unix", ""},
		{"Berlin", "auto", "is not a time zone"},
		{"Local", "auto", "is not a time zone"},
		{"+02:00", "auto", "is not a time zone"},
		{"UTC", "unix_ms", "has no effect"},
		{"UTC", "rfc3339", "has no effect"},
		{"UTC", "2006-01-02T15:04:05Z07:00", "contain their offset"},
		{"UTC", "%Y-%m-%d %H:%M:%S %z", "contain their offset"},
	} {
		err := CheckTimeZone(test.zone, test.format, JSON)
		if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s with %s: %v, want %s", test.zone, test.format, err, test.says)
		}
	}
}

// FuzzZones checks that no text breaks the parsing of times in zones, and that a parsed time has the given local time in its
// zone.
func FuzzZones(f *testing.F) {
	zones := []string{"Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"}
	for i, text := range []string{"2025-10-26T02:30:00", "2026-03-29 02:30", "20260301T120000,123456789", "2026-03-01T12:00:00Z", "1772366400.25", "0000-01-01T00:00:00", "9999-12-31T23:59:59"} {
		f.Add(text, uint8(i), int64(1_772_366_400_000))
	}
	f.Fuzz(func(t *testing.T, text string, zone uint8, timestamp int64) {
		name := zones[int(zone)%len(zones)]
		p := parserOf(&Options{TimeFormat: formatAuto, TimeZone: name, TimeExact: "ns"})
		p.timestamp = timestamp
		r, ok := p.parseText([]byte(text))
		if p.below < 0 || p.below >= 1_000_000 {
			t.Fatalf("%q leaves %d nanoseconds", text, p.below)
		}
		wall, isLocal := parseTime([]byte(text+"Z"), true)
		if !ok || !isLocal {
			return
		}
		at := time.UnixMilli(r.millis).In(p.zone)
		_, offset := at.Zone()
		if shown := r.millis + int64(offset)*1000; shown != wall && p.local(wall) == r.millis && !isSkippedHour(p, wall) {
			t.Fatalf("%q in %s is %s", text, name, at)
		}
	})
}

// isSkippedHour reports whether the clocks of the zone never show a time.
func isSkippedHour(p timeParser, wall int64) bool {
	for _, offset := range []int64{p.offset(wall - 86_400_000), p.offset(wall + 86_400_000)} {
		if p.offset(wall-offset) == offset {
			return false
		}
	}
	return true
}
