package measurement

import (
	"bytes"
	"time"
)

// parseRFC3339 returns the milliseconds since 1970 of an RFC 3339 time, and cuts off further digits. The time package does the
// same more slowly, and allocates for a zone other than UTC.
func parseRFC3339(text []byte) (millis int64, ok bool) { return parseUsual(text, false) }

// parseTime reads a time of RFC 3339. iso means that it also reads the other forms of ISO 8601.
func parseTime(text []byte, iso bool) (millis int64, ok bool) {
	if millis, ok = parseUsual(text, iso); !ok && iso {
		millis, ok = parseISO(text)
	}
	return millis, ok
}

// parseUsual is parseTime for the most usual texts. These are in RFC 3339, also with a comma and a short offset if iso is set.
func parseUsual(text []byte, iso bool) (millis int64, ok bool) {
	const shortest = len("2006-01-02T15:04:05Z")
	if len(text) < shortest || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':' {
		return 0, false
	}
	if c := text[10]; c != 'T' && c != 't' && c != ' ' {
		return 0, false
	}
	if !areDigits(text[0], text[1], text[2], text[3]) || !areDigits(text[5], text[6], text[8], text[9]) || !areDigits(text[11], text[12], text[14], text[15]) ||
		!areDigits(text[17], text[18], '0', '0') {
		return 0, false
	}
	year, month, day := pair(text[0:])*100+pair(text[2:]), pair(text[5:]), pair(text[8:])
	hour, minute, second := pair(text[11:]), pair(text[14:]), pair(text[17:])
	if month < 1 || month > 12 || day < 1 || day > daysOf(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	millis = int64(((days(year, month, day)*24+hour)*60+minute)*60+second) * 1000
	fraction, rest, ok := cutFraction(text[19:], iso)
	if !ok {
		return 0, false
	}
	offset, ok := parseOffset(rest, iso)
	return millis + fraction - offset, ok
}

// areDigits reports whether all are digits.
func areDigits(a, b, c, d byte) bool { return max(a-'0', b-'0', c-'0', d-'0') <= 9 }

// pair returns the number that two digits write.
func pair(text []byte) int { return int(text[0]-'0')*10 + int(text[1]-'0') }

// daysOf returns the number of days of a month.
func daysOf(year, month int) int {
	const long = 1<<1 | 1<<3 | 1<<5 | 1<<7 | 1<<8 | 1<<10 | 1<<12
	switch {
	case month != 2:
		return 30 + long>>month&1
	case year%4 == 0 && (year%100 != 0 || year%400 == 0):
		return 29
	}
	return 28
}

// days returns the days from 1970 to a date. The year is not negative. The computation begins years in March, so that a leap day
// is the last day of a year.
func days(year, month, day int) int {
	const fourCenturies, to1970 = 146097, 719468
	year += 400 // no year is negative in the divisions
	if month <= 2 {
		year--
	}
	dayOfYear := (153*((month+9)%12)+2)/5 + day - 1
	return year*365 + year/4 - year/100 + year/400 + dayOfYear - to1970 - fourCenturies
}

// digits returns the number that a text writes, or -1 if the text holds anything but digits.
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

// cutFraction returns the milliseconds of a fraction of a second, if there is one, and the rest of the text. comma means that a
// comma may replace the point.
func cutFraction(text []byte, comma bool) (millis int64, rest []byte, ok bool) {
	if text[0] != '.' && !(comma && text[0] == ',') {
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

// parseOffset returns the milliseconds by which a zone is ahead of UTC. short allows the forms +0100 and +01.
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
