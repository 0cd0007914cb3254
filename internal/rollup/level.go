package rollup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

// Level is a width of windows for which totals are kept.
type Level struct {
	// Name is 1m, 1h or 1d.
	Name string
	// Step is the width of a window. Windows begin at multiples of it since 1970, in UTC.
	Step time.Duration
	// Expire is how long rows are kept. Zero means forever.
	Expire time.Duration

	period period
}

// period is the time whose rows one document holds.
type period uint8

const (
	hourly period = iota
	daily
	monthly
)

const (
	hourMs = int64(time.Hour / time.Millisecond)
	dayMs  = 24 * hourMs
	// longestMonth is the span of a monthly document, in seconds.
	longestMonth = 31 * 24 * 60 * 60
)

// Names of the levels.
const (
	Minute = "1m"
	Hour   = "1h"
	Day    = "1d"
)

// known are all levels, from the finest to the coarsest, without an expiry.
var known = []Level{
	{Name: Minute, Step: time.Minute, period: hourly},
	{Name: Hour, Step: time.Hour, period: daily},
	{Name: Day, Step: 24 * time.Hour, period: monthly},
}

// LevelOf returns the level of a name, without an expiry. False means that no level has this name.
func LevelOf(name string) (Level, bool) {
	for _, l := range known {
		if l.Name == name {
			return l, true
		}
	}
	return Level{}, false
}

// Levels are the levels of a time series, from the finest to the coarsest. Empty means that it has no rollups.
type Levels []Level

// ParseLevels reads levels with their expiries, such as 1m:2160h,1h:17520h,1d. An empty text gives no levels. The error's text
// continues a sentence that begins with the setting's name.
func ParseLevels(text string) (Levels, error) {
	var levels Levels
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		name, expiry, hasExpiry := strings.Cut(part, ":")
		level, ok := LevelOf(name)
		if !ok {
			return nil, fmt.Errorf("has %q, which is not a level: give 1m, 1h or 1d, each with an expiry if its rows are to be deleted after a time, such as 1m:2160h,1h:17520h,1d", part)
		}
		if levels.Has(name) {
			return nil, fmt.Errorf("names the level %s twice: name it once", name)
		}
		if hasExpiry {
			var err error
			if level.Expire, err = parseExpiry(expiry); err != nil {
				return nil, fmt.Errorf("has %q: %w", part, err)
			}
			if period := time.Duration(level.spanSeconds()) * time.Second; level.Expire < period {
				return nil, fmt.Errorf("has %q: the expiry must be at least %s, the time that one document of this level covers", part, writeHours(period))
			}
		}
		levels = append(levels, level)
	}
	if levels.Has(Day) && !levels.Has(Hour) {
		return nil, fmt.Errorf("has 1d without 1h: days are computed from hours, so add 1h")
	}
	slices.SortFunc(levels, func(a, b Level) int { return int(a.Step/time.Second) - int(b.Step/time.Second) })
	if err := levels.checkExpiries(); err != nil {
		return nil, err
	}
	return levels, nil
}

// maxExpiry bounds an expiry to the largest one that a TTL index accepts.
const maxExpiry = (1<<31 - 1 - longestMonth) * time.Second

func parseExpiry(text string) (time.Duration, error) {
	expiry, ok := words.ParseSpan(text)
	switch {
	case !ok:
		return 0, fmt.Errorf("%q is not a duration: write it as 2160h or 90d", text)
	case expiry <= 0 || expiry%time.Second != 0:
		return 0, fmt.Errorf("the expiry %q must be a whole number of seconds above zero; leave the expiry out to keep rows for ever", text)
	case expiry > maxExpiry:
		return 0, fmt.Errorf("the expiry %q is too long: MongoDB allows at most %s; leave the expiry out to keep rows for ever", text, writeHours(maxExpiry))
	}
	return expiry, nil
}

func writeHours(d time.Duration) string { return fmt.Sprintf("%dh", d/time.Hour) }

// checkExpiries refuses a short expiry of hours if days are folded from them. The hours must be kept for two months. Otherwise
// the document of a month would lose the hours of its first days before it is whole.
func (ls Levels) checkExpiries() error {
	hour, hasHours := ls.level(Hour)
	if least := 2 * longestMonth * time.Second; hasHours && ls.Has(Day) && hour.Expire != 0 && hour.Expire < least {
		return fmt.Errorf("has 1h with an expiry of %s: days are computed from hours, which must be kept for at least %s", writeHours(hour.Expire), writeHours(least))
	}
	return nil
}

// Has reports whether the levels include a level.
func (ls Levels) Has(name string) bool {
	_, ok := ls.level(name)
	return ok
}

func (ls Levels) level(name string) (Level, bool) {
	for _, l := range ls {
		if l.Name == name {
			return l, true
		}
	}
	return Level{}, false
}

// String returns the levels in the form that ParseLevels reads.
func (ls Levels) String() string {
	var parts []string
	for _, l := range ls {
		part := l.Name
		if l.Expire > 0 {
			part += ":" + l.Expire.String()
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

// SeriesName returns the name of the time series that holds the rows of this level.
func (l Level) SeriesName(of string) string { return of + "_" + l.Name }

// Options returns the options of the time series of this level. Time and meta have the names that they have in the measurements,
// and a bucket spans a period.
func (l Level) Options(of timeseries.Options) timeseries.Options {
	span := l.spanSeconds()
	return timeseries.Options{
		TimeField: of.TimeField, MetaField: of.MetaField, MaxSpanSeconds: span, RoundingSeconds: span,
		ExpireAfterSeconds: int64(l.Expire / time.Second),
	}
}

// spanSeconds returns the length of the longest period.
func (l Level) spanSeconds() int32 {
	switch l.period {
	case hourly:
		return int32(hourMs / 1000)
	case daily:
		return int32(dayMs / 1000)
	default:
		return longestMonth
	}
}

// Window returns the start of the window that holds a time. Both are in milliseconds since 1970.
func (l Level) Window(ms int64) int64 { return floorTo(ms, l.Step.Milliseconds()) }

// WindowEnd returns the end of the window that holds a time, that is, the start of the next window.
func (l Level) WindowEnd(ms int64) int64 { return l.Window(ms) + l.Step.Milliseconds() }

// Period returns the start and the end of the document that holds a time's row. The end is not part of it.
func (l Level) Period(ms int64) (from, to int64) {
	switch l.period {
	case hourly:
		from = floorTo(ms, hourMs)
		return from, from + hourMs
	case daily:
		from = floorTo(ms, dayMs)
		return from, from + dayMs
	default:
		at := time.UnixMilli(floorTo(ms, dayMs)).UTC()
		begin := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		return begin.UnixMilli(), begin.AddDate(0, 1, 0).UnixMilli()
	}
}

// floorTo returns the largest multiple of a unit that is not above v.
func floorTo(v, unit int64) int64 {
	rest := v % unit
	if rest < 0 {
		rest += unit
	}
	return v - rest
}
