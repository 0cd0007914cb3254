package reader

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestStepsAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]Step{
		"15m": {Duration: 15 * time.Minute}, "1h": {Duration: time.Hour}, "10ms": {Duration: 10 * time.Millisecond}, "1m30s": {Duration: 90 * time.Second},
		"1d": {Days: 1}, "7d": {Days: 7}, "1w": {Weeks: 1}, "1mo": {Months: 1}, "1y": {Months: 12},
	} {
		got, err := ParseStep(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q is read as %+v, written %q; %v", text, got, got, err)
		}
	}
	for text, want := range map[string]Step{"24h": {Days: 1}, "48h": {Days: 2}, "60m": {Duration: time.Hour}, "12mo": {Months: 12}, "1d24h": {Days: 2}} {
		if got, err := ParseStep(text); err != nil || got != want {
			t.Errorf("%q is read as %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "not a length of time", "often": "not a length of time", "0s": "one length", "-1h": "above zero", "7m": "must divide a day", "36h": "must divide a day",
		"1us": "whole milliseconds", "0d": "one length", "100001d": "at most", "9000y": "at most", "1M": "not a length of time",
	} {
		if got, err := ParseStep(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is read as %+v, %v; want %q", text, got, err, want)
		}
	}
	if err := (Step{Days: 1, Months: 1}).Check(); err == nil {
		t.Error("a step has two lengths")
	}
}

// TestWindowsOfZones covers clock changes at midnight and at other times, by half an hour, and a missing day.
func TestWindowsOfZones(t *testing.T) {
	for _, c := range []struct{ zone, step, at, from, to string }{
		{"UTC", "15m", "2026-03-01T12:07:33Z", "2026-03-01T12:00:00Z", "2026-03-01T12:15:00Z"},
		{"UTC", "1d", "1969-12-31T23:59:59.999Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z"},
		{"UTC", "1w", "2026-03-01T12:00:00Z", "2026-02-23T00:00:00Z", "2026-03-02T00:00:00Z"},
		{"UTC", "7d", "1970-01-08T00:00:00Z", "1970-01-08T00:00:00Z", "1970-01-15T00:00:00Z"},
		{"UTC", "3mo", "1969-12-31T12:00:00Z", "1969-10-01T00:00:00Z", "1970-01-01T00:00:00Z"},
		{"UTC", "1y", "2024-02-29T12:00:00Z", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		{"Europe/Berlin", "1d", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},  // 23 hours
		{"Europe/Berlin", "1d", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},  // 25 hours
		{"Europe/Berlin", "6h", "2026-10-25T22:30:00Z", "2026-10-25T22:00:00Z", "2026-10-25T23:00:00Z"},  // the rest of the day
		{"Europe/Berlin", "1mo", "2026-03-31T22:00:00Z", "2026-03-31T22:00:00Z", "2026-04-30T22:00:00Z"}, // April there
		{"Asia/Kolkata", "1d", "2026-03-01T18:29:59Z", "2026-02-28T18:30:00Z", "2026-03-01T18:30:00Z"},
		{"Asia/Kolkata", "1h", "2026-03-01T18:29:59Z", "2026-03-01T17:30:00Z", "2026-03-01T18:30:00Z"},
		{"Australia/Lord_Howe", "1d", "2026-04-05T12:00:00Z", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"}, // 24.5 hours
		{"Asia/Beirut", "1d", "2022-03-27T12:00:00Z", "2022-03-26T22:00:00Z", "2022-03-27T21:00:00Z"},         // begins at 1 o'clock
		{"America/Sao_Paulo", "1d", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},   // begins at 1 o'clock
		{"America/Sao_Paulo", "1d", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},   // 23 to 24 o'clock twice
		{"America/Havana", "1d", "2025-11-02T12:00:00Z", "2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z"},      // 0 to 1 o'clock twice
		{"Pacific/Apia", "1d", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},        // then two days further
		{"Pacific/Apia", "1d", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},        // 31 December there
	} {
		step, err := ParseStep(c.step)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := time.Parse(time.RFC3339Nano, c.at)
		from, to := windows{step, zoneOf(t, c.zone)}.of(at.UnixMilli())
		text := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
		if text(from) != c.from || text(to) != c.to {
			t.Errorf("%s, %s of %s: from %s to %s, want %s to %s", c.zone, c.step, c.at, text(from), text(to), c.from, c.to)
		}
	}
}

// TestWindowsFollowOneAnother checks that each time is in one window, whose end is the start of the next one. Windows that
// consist of hours or minutes in UTC must do so.
func TestWindowsFollowOneAnother(t *testing.T) {
	zones := []string{
		"UTC", "Europe/Berlin", "Europe/London", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Asia/Beirut", "America/Sao_Paulo", "America/Havana",
		"America/St_Johns", "Pacific/Apia", "Africa/Monrovia", "America/Caracas",
	}
	steps := []Step{{Duration: time.Minute}, {Duration: time.Hour}, {Duration: 6 * time.Hour}, {Days: 1}, {Days: 5}, {Weeks: 1}, {Months: 1}, {Months: 3}, {Months: 12}}
	random := rand.New(rand.NewPCG(1, 1))
	latest := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	for _, name := range zones {
		zone := zoneOf(t, name)
		for _, step := range steps {
			w := windows{step, zone}
			for range 300 {
				ms := random.Int64N(latest) - random.Int64N(latest)/2
				if random.IntN(2) == 0 { // near a clock change
					if start, _ := time.UnixMilli(ms).In(zone).ZoneBounds(); !start.IsZero() {
						ms = start.UnixMilli() + (random.Int64N(2*60)-60)*60_000
					}
				}
				from, to := w.of(ms)
				if ms < from || ms >= to {
					t.Fatalf("%s, %s: %d is in the window from %d to %d", name, step, ms, from, to)
				}
				again, end := w.of(from)
				last, finish := w.of(to - 1)
				next, _ := w.of(to)
				if again != from || end != to || last != from || finish != to || next != to {
					t.Fatalf("%s, %s: the window of %d is from %d to %d; of its first moment from %d to %d, of its last one from %d to %d; the next begins at %d",
						name, step, ms, from, to, again, end, last, finish, next)
				}
				if step.Duration == 0 && step.Months > 0 {
					if d := time.UnixMilli(from).In(zone); d.Day() != 1 || (int(d.Month())-1)%step.Months != 0 {
						t.Fatalf("%s, %s: a window begins at %s", name, step, d)
					}
				}
			}
			for _, unit := range []int64{60_000, 3_600_000, 86_400_000} {
				if !step.consistsOf(unit) {
					continue
				}
				begin, end := int64(math.MinInt64), latest
				if random.IntN(2) == 0 {
					begin = random.Int64N(latest)
				}
				from, to := w.aligned(unit, begin, end)
				if from < begin || to > end || from > to {
					t.Fatalf("%s, %s of %d: from %d to %d of %d to %d", name, step, unit, from, to, begin, end)
				}
				if from == to {
					continue
				}
				for range 300 {
					ms := max(from, -latest/2) + random.Int64N(to-max(from, -latest/2))
					a, b := w.of(ms)
					if a%unit != 0 && a > from || b%unit != 0 && b < to {
						t.Fatalf("%s, %s: between %d and %d windows should be multiples of %d: from %d to %d", name, step, from, to, unit, a, b)
					}
				}
			}
		}
	}
	for _, c := range []struct {
		zone string
		unit int64
		all  bool
	}{{"UTC", 86_400_000, true}, {"Europe/Berlin", 3_600_000, true}, {"Europe/Berlin", 86_400_000, false}, {"Asia/Kolkata", 3_600_000, false}, {"Asia/Kolkata", 60_000, true}} {
		year := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		from, to := windows{Step{Days: 1}, zoneOf(t, c.zone)}.aligned(c.unit, year, latest)
		if c.all != (from == year && to == latest) || !c.all && from != to {
			t.Errorf("%s: of %d to %d days consist of %d between %d and %d", c.zone, year, latest, c.unit, from, to)
		}
	}
}

func FuzzWindows(f *testing.F) {
	f.Add(int64(0), int64(900_000), uint8(0), uint8(1))
	f.Add(int64(math.MaxInt64), int64(1), uint8(2), uint8(3))
	f.Add(int64(math.MinInt64), int64(1), uint8(1), uint8(3))
	f.Fuzz(func(t *testing.T, ms, length int64, zone, kind uint8) {
		name := []string{"UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"}[zone%4]
		n := int(length & 0xfff)
		step := []Step{{Duration: time.Duration(length)}, {Days: n}, {Weeks: n}, {Months: n}}[kind%4]
		if step.Check() != nil {
			return
		}
		from, to := windows{step, zoneOf(t, name)}.of(ms)
		if ms < from || ms >= to && ms != math.MaxInt64 {
			t.Errorf("%s, %s: %d is in the window from %d to %d", name, step, ms, from, to)
		}
	})
}
