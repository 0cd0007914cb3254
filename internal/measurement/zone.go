package measurement

import (
	"errors"
	"math"
	"time"

	"waterwheel/internal/words"
)

// local returns the moment at which the clocks of the zone show a time. wall is this time in milliseconds since 1970, as if it
// were UTC.
//
// When clocks are put back, an hour comes twice. local then chooses the moment nearer to the record's timestamp, and the earlier
// moment without a timestamp. When clocks are put forward, an hour is missing. local then reads its times as if the clocks had
// not changed yet.
func (p *timeParser) local(wall int64) int64 {
	const day = int64(24 * time.Hour / time.Millisecond)
	if wall < math.MinInt64/2 || wall > math.MaxInt64/2 {
		return wall // no time, but a value that stands for none
	}
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

// offset returns the milliseconds by which the clocks of the zone are ahead of UTC at a moment.
func (p *timeParser) offset(millis int64) int64 {
	_, seconds := time.UnixMilli(millis).In(p.zone).Zone()
	return int64(seconds) * 1000
}

// hasOffset reports whether texts of a Go layout state their offset from UTC.
func hasOffset(layout string) bool {
	at := time.Date(2024, 2, 7, 23, 5, 6, 0, time.FixedZone("", 3600))
	return at.Format(layout) != time.Date(2024, 2, 7, 23, 5, 6, 0, time.UTC).Format(layout)
}

// CheckTimeZone returns why times cannot be read in a zone. Nil means that they can. The error's text continues a sentence that
// begins with the zone.
//
// Events in Avro may have local timestamps, whatever the format of their time is.
func CheckTimeZone(zone, format string, events Format) error {
	if zone == "" {
		return nil
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return errors.New("is not a time zone: write a name of the IANA time zone database, such as Europe/Berlin or UTC")
	}
	p := newTimeParser(format)
	switch {
	case events == Avro:
	case p.unit != nil, words.Plain(format) == "rfc3339":
		return errors.New("has no effect: times of EVENT_TIME_FORMAT=" + format + " are the same in all zones; unset this setting")
	case p.layout != "" && hasOffset(p.layout):
		return errors.New("has no effect: texts of EVENT_TIME_FORMAT=" + format + " contain their offset; unset this setting")
	}
	return nil
}
