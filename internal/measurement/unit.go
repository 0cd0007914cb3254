package measurement

import "math"

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
