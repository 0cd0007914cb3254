package measurement

import (
	"bytes"
	"time"
)

// parseRFC3339 returns the milliseconds since 1970 of an RFC 3339 time, digits below a millisecond cut off. The time
// package does the same slower, and allocates for a zone other than UTC.
func parseRFC3339(text []byte) (millis int64, ok bool) { return parseTime(text, false) }

// parseTime also takes the short offsets of ISO 8601, if it shall: +0100 and +01.
func parseTime(text []byte, short bool) (millis int64, ok bool) {
	const shortest = len("2006-01-02T15:04:05Z")
	if len(text) < shortest || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':' {
		return 0, false
	}
	if c := text[10]; c != 'T' && c != 't' && c != ' ' {
		return 0, false
	}
	year, month, day := digits(text[0:4]), digits(text[5:7]), digits(text[8:10])
	hour, minute, second := digits(text[11:13]), digits(text[14:16]), digits(text[17:19])
	if year < 0 || month < 1 || month > 12 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
		second < 0 || second > 59 {
		return 0, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if t.Day() != day {
		return 0, false
	}
	fraction, rest, ok := cutFraction(text[19:])
	if !ok {
		return 0, false
	}
	offset, ok := parseOffset(rest, short)
	return t.UnixMilli() + fraction - offset, ok
}

// digits returns the number that the text writes, -1 when it holds anything but digits.
func digits(text []byte) int {
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

func isDigits(text []byte) bool { return len(bytes.TrimLeft(text, "0123456789")) == 0 }

// cutFraction returns the milliseconds of a fraction of a second, if there is one, and what follows it.
func cutFraction(text []byte) (millis int64, rest []byte, ok bool) {
	if text[0] != '.' {
		return 0, text, true
	}
	text = text[1:]
	n := 0
	for weight := int64(100); n < len(text) && text[n] >= '0' && text[n] <= '9'; n++ {
		millis += int64(text[n]-'0') * weight
		weight /= 10
	}
	return millis, text[n:], n > 0
}

// parseOffset returns the milliseconds by which a zone is ahead of UTC.
func parseOffset(text []byte, short bool) (millis int64, ok bool) {
	if len(text) == 1 && (text[0] == 'Z' || text[0] == 'z') {
		return 0, true
	}
	if len(text) == 0 || text[0] != '+' && text[0] != '-' {
		return 0, false
	}
	var hours, minutes int
	switch {
	case len(text) == len("+01:00") && text[3] == ':':
		hours, minutes = digits(text[1:3]), digits(text[4:6])
	case short && len(text) == len("+0100"):
		hours, minutes = digits(text[1:3]), digits(text[3:5])
	case short && len(text) == len("+01"):
		hours = digits(text[1:3])
	default:
		return 0, false
	}
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
		return 0, false
	}
	millis = (int64(hours)*60 + int64(minutes)) * time.Minute.Milliseconds()
	if text[0] == '-' {
		millis = -millis
	}
	return millis, true
}
