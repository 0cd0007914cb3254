package measurement

import (
	"bytes"
	"time"
)

// parseISO returns the milliseconds since 1970 of a time in a form of ISO 8601 that RFC 3339 leaves out. The forms are: without
// hyphens and colons (20260301T120000Z), without seconds (12:00Z), with a comma before the fraction (12:00:00,5Z), with a blank
// before the offset (12:00:00 +0200), and with a short offset (+0200, +02). It refuses a text without an offset, because such a
// text does not name one moment.
func parseISO(text []byte) (millis int64, ok bool) {
	day, rest, ok := cutDate(text)
	if !ok || len(rest) == 0 || rest[0] != 'T' && rest[0] != 't' && rest[0] != ' ' {
		return 0, false
	}
	clock, rest, ok := cutClock(rest[1:])
	if !ok {
		return 0, false
	}
	if len(rest) > 1 && rest[0] == ' ' {
		rest = rest[1:]
	}
	offset, ok := parseOffset(rest, true)
	return day + clock - offset, ok
}

// cutDate reads the date at the start of a text, in milliseconds since 1970.
func cutDate(text []byte) (millis int64, rest []byte, ok bool) {
	const basic, extended = len("20060102"), len("2006-01-02")
	var year, month, day int
	switch {
	case len(text) >= extended && text[4] == '-' && text[7] == '-':
		year, month, day, rest = digits(text[:4]), digits(text[5:7]), digits(text[8:10]), text[extended:]
	case len(text) >= basic:
		year, month, day, rest = digits(text[:4]), digits(text[4:6]), digits(text[6:8]), text[basic:]
	default:
		return 0, nil, false
	}
	if year < 0 || month < 1 || month > 12 || day < 1 || day > daysOf(year, month) {
		return 0, nil, false
	}
	return int64(days(year, month, day)) * 24 * time.Hour.Milliseconds(), rest, true
}

// cutClock reads the time of day at the start of a text, in milliseconds since midnight.
func cutClock(text []byte) (millis int64, rest []byte, ok bool) {
	colon := 0 // length of the separator between two numbers
	if len(text) > 2 && text[2] == ':' {
		colon = 1
	}
	if len(text) < len("1504")+colon {
		return 0, nil, false
	}
	hour, minute, second := digits(text[:2]), digits(text[2+colon:4+colon]), 0
	rest = text[4+colon:]
	if n := len("05") + colon; len(rest) >= n && (colon == 0 || rest[0] == ':') && digits(rest[colon:n]) >= 0 {
		second = digits(rest[colon:n])
		rest = rest[n:]
		if len(rest) > 0 {
			if millis, rest, ok = cutFraction(rest, true); !ok {
				return 0, nil, false
			}
		}
	}
	if hour < 0 || hour > 23 || minute < 0 || minute > 59 || second > 59 {
		return 0, nil, false
	}
	return millis + int64((hour*60+minute)*60+second)*1000, rest, true
}

// ParseTime reads a time of a setting or a flag. It accepts every form of RFC 3339 and parseISO, and a date alone, which means
// its first moment in UTC.
func ParseTime(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	if millis, ok := parseTime([]byte(text), true); ok {
		return time.UnixMilli(millis).UTC(), true
	}
	return time.Time{}, false
}

// layoutWithoutSeparators returns the Go layout of a date in digits alone, with or without hours, minutes and seconds. It is
// empty if the digits are no date.
func layoutWithoutSeparators(number []byte) string {
	const longest = "20060102150405"
	n := len(number)
	if n < len("20060102") || n > len(longest) || n%2 != 0 || !isDigits(number) {
		return ""
	}
	layout := longest[:n]
	if t, err := time.Parse(layout, string(number)); err != nil || t.Year() < 1900 || t.Year() > 2200 {
		return ""
	}
	return layout
}

// lacksZone reports whether a text is a time that lacks only its zone.
func lacksZone(text []byte) bool {
	_, ok := parseTime(append(bytes.Clone(text), 'Z'), true)
	return ok
}

// isDate reports whether a text is a date without a time.
func isDate(text []byte) bool {
	_, err := time.Parse(time.DateOnly, string(text))
	return err == nil
}
