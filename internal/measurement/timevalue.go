package measurement

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
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

// unit is a unit of times counted from 1970.
type unit struct {
	name string
	// perMilli is the number of units in a millisecond. Zero stands for seconds.
	perMilli int64
}

// The units of times.
var (
	seconds      = &unit{name: "seconds"}
	milliseconds = &unit{name: "milliseconds", perMilli: 1}
	microseconds = &unit{name: "microseconds", perMilli: 1e3}
	nanoseconds  = &unit{name: "nanoseconds", perMilli: 1e6}

	units = [...]*unit{seconds, milliseconds, microseconds, nanoseconds}
)

// unitOf guesses the unit of a number's absolute value from its size. Every guess is right for the years 1973 to 5138.
func unitOf(size uint64) *unit {
	switch {
	case size < 1e11:
		return seconds
	case size < 1e14:
		return milliseconds
	case size < 1e17:
		return microseconds
	}
	return nanoseconds
}

// millis converts an integer to milliseconds, rounded down. False means that 64 bits do not hold the result.
func (u *unit) millis(value int64) (int64, bool) {
	if u.perMilli == 0 {
		return value * 1e3, value <= math.MaxInt64/1000 && value >= math.MinInt64/1000
	}
	millis := value / u.perMilli
	if value%u.perMilli < 0 {
		millis--
	}
	return millis, true
}

// millisOfFloat converts a number with a fraction. It first rounds to the nearest microsecond, which a double holds exactly for
// present times in seconds. Otherwise 1700000000.123 would be a millisecond early.
func (u *unit) millisOfFloat(value float64) (int64, bool) {
	micros := value * 1e6
	if u.perMilli != 0 {
		micros = value / float64(u.perMilli) * 1e3
	}
	const beyond = 1 << 62
	if !(math.Abs(micros) < beyond) { // also NaN
		return 0, false
	}
	return microseconds.millis(int64(math.Round(micros)))
}

// firstExact and lastExact bound the milliseconds whose nanoseconds fit into 64 bits. These are in the years 1678 to 2261.
const (
	firstExact = math.MinInt64/1_000_000 + 1
	lastExact  = math.MaxInt64/1_000_000 - 1
)

// CheckExact returns why a field cannot hold the exact time of measurements. storedTime and storedMeta are the stored names of
// time and meta. Nil means that it can. The error's text continues a sentence that begins with the field.
func CheckExact(name, storedTime, storedMeta string) error {
	switch {
	case name == "":
		return nil
	case !validName(name):
		return errors.New("is not a valid field name: a name must not begin with $ or contain a dot or NUL")
	case name == storedTime || name == storedMeta:
		return errors.New("is already the name of the time or the meta in stored measurements: choose another name")
	}
	return nil
}

// below returns the nanoseconds by which an integer of units exceeds a whole millisecond.
func (u *unit) below(value int64) int64 {
	if u.perMilli <= 1 {
		return 0
	}
	rest := value % u.perMilli
	if rest < 0 {
		rest += u.perMilli
	}
	return rest * (1_000_000 / u.perMilli)
}

// belowOfFloat is below for a number with a fraction. It rounds to the nearest microsecond, as millisOfFloat does.
func (u *unit) belowOfFloat(value float64) int64 {
	micros := value * 1e6
	if u.perMilli != 0 {
		micros = value / float64(u.perMilli) * 1e3
	}
	return microseconds.below(int64(math.Round(micros)))
}

// belowText returns the nanoseconds below the millisecond of a text in a form of ISO 8601. The text's only point or comma stands
// before the fraction of a second.
func belowText(text []byte) int64 {
	i := bytes.LastIndexAny(text, ".,")
	if i < 0 {
		return 0
	}
	return digitsFrom(text[i+1:], 3, 6)
}

// belowFraction returns the nanoseconds below the millisecond. fraction holds the digits behind the point of a number of units.
func (u *unit) belowFraction(fraction []byte) int64 {
	switch u {
	case seconds:
		return digitsFrom(fraction, 3, 6)
	case milliseconds:
		return digitsFrom(fraction, 0, 6)
	case microseconds:
		return digitsFrom(fraction, 0, 3)
	}
	return 0
}

// digitsFrom reads n digits from an index on as a number. Missing digits count as zeros.
func digitsFrom(text []byte, from, n int) (value int64) {
	ended := false
	for i := from; i < from+n; i++ {
		digit := byte(0)
		if ended = ended || i >= len(text) || text[i]-'0' > 9; !ended {
			digit = text[i] - '0'
		}
		value = value*10 + int64(digit)
	}
	return value
}

// appendExact appends the field of EVENT_TIME_EXACT with the time in nanoseconds since 1970. False means that 64 bits do not hold
// the time.
func (o *Options) appendExact(dst []byte, millis, below int64) ([]byte, bool) {
	if millis < firstExact || millis > lastExact {
		return dst, false
	}
	dst = rawbson.AppendHeader(dst, bson.TypeInt64, o.TimeExact)
	return binary.LittleEndian.AppendUint64(dst, uint64(millis*1_000_000+below)), true
}
