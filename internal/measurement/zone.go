package measurement

import (
	"errors"
	"time"

	"waterwheel/internal/words"
)

// local is the moment of a time on the clocks of the zone, which is given in milliseconds since 1970 as if it were UTC.
//
// Where clocks are put back, an hour comes twice: it is the moment nearer to the record's timestamp, and without a timestamp the
// earlier one. Where clocks are put forward, an hour does not come: its times are read as if the clocks had not been changed
// yet.
func (p *timeParser) local(wall int64) int64 {
	const day = int64(24 * time.Hour / time.Millisecond)
	before, after := p.offset(wall-day), p.offset(wall+day)
	first, second := wall-before, wall-after
	if before == after {
		return first
	}
	isFirst, isSecond := p.offset(first) == before, p.offset(second) == after
	switch {
	case isFirst && isSecond && p.timestamp != noTimestamp:
		if distance(second, p.timestamp) < distance(first, p.timestamp) {
			return second
		}
	case isSecond && !isFirst:
		return second
	}
	return first
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// offset is by how many milliseconds the clocks of the zone are ahead of UTC at a moment.
func (p *timeParser) offset(millis int64) int64 {
	_, seconds := time.UnixMilli(millis).In(p.zone).Zone()
	return int64(seconds) * 1000
}

// hasOffset reports whether the texts of a Go layout say their offset from UTC.
func hasOffset(layout string) bool {
	at := time.Date(2024, 2, 7, 23, 5, 6, 0, time.FixedZone("", 3600))
	return at.Format(layout) != time.Date(2024, 2, 7, 23, 5, 6, 0, time.UTC).Format(layout)
}

// CheckTimeZone tells why times cannot be read in a zone. Nil means that they can. The error goes on behind the zone.
func CheckTimeZone(zone, format string) error {
	if zone == "" {
		return nil
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return errors.New("is no time zone: write its name in the database of time zones, as Europe/Berlin, or UTC")
	}
	p := newTimeParser(format)
	switch {
	case p.unit != nil, words.Plain(format) == "rfc3339":
		return errors.New("has no effect: times of EVENT_TIME_FORMAT=" + format + " are the same in all zones")
	case p.layout != "" && hasOffset(p.layout):
		return errors.New("has no effect: texts of EVENT_TIME_FORMAT=" + format + " say their offset")
	}
	return nil
}
