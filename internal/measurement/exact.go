package measurement

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

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
