package measurement

import (
	"fmt"
	"strings"
	"time"
)

// lastMillis is the end of the year 9999.
const lastMillis = 253_402_300_799_999

// Bound is an end of the window of accepted times: a time, or a distance from the record's timestamp, so that a replay
// decides the same. The zero value means the default of its option.
type Bound struct {
	kind   boundKind
	millis int64
}

type boundKind uint8

const (
	unset boundKind = iota
	absolute
	relative
)

// At is the bound at a time in milliseconds since 1970.
func At(millis int64) Bound { return Bound{kind: absolute, millis: millis} }

// FromRecord is the bound at a distance from the record's timestamp, before it when negative. It does not bind a record
// without a timestamp.
func FromRecord(distance time.Duration) Bound {
	return Bound{kind: relative, millis: distance.Milliseconds()}
}

// ParseBound reads an RFC 3339 time, or a Go duration with a sign ("+24h", "-48h").
func ParseBound(text string) (Bound, error) {
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		distance, err := time.ParseDuration(text)
		if err != nil {
			return Bound{}, fmt.Errorf("reading a distance from the record's timestamp: %w", err)
		}
		return FromRecord(distance), nil
	}
	millis, ok := parseRFC3339([]byte(text))
	if !ok {
		return Bound{}, fmt.Errorf("%q is neither an RFC 3339 time nor a duration with a sign", text)
	}
	return At(millis), nil
}

// String is what ParseBound reads.
func (b Bound) String() string {
	switch b.kind {
	case absolute:
		return formatMillis(b.millis)
	case relative:
		distance := time.Duration(b.millis) * time.Millisecond
		if distance < 0 {
			return distance.String()
		}
		return "+" + distance.String()
	}
	return ""
}

// describe says which bound it is for a record.
func (b Bound) describe(timestamp int64) string {
	if b.kind == relative {
		if timestamp > lastMillis {
			return fmt.Sprintf("%s of the record's timestamp, at most %s", b, formatMillis(lastMillis))
		}
		return fmt.Sprintf("%s of the record's timestamp %s", b, formatMillis(timestamp))
	}
	return b.String()
}

// of returns the bound for a record; false when it does not bind it. A timestamp in a wrong unit must not make its own
// wrong time acceptable, so none counts as later than lastMillis.
func (b Bound) of(timestamp int64) (int64, bool) {
	if b.kind == relative {
		return min(timestamp, lastMillis) + b.millis, timestamp >= 0
	}
	return b.millis, true
}

// side reports on which side of the window a time is: -1 before, 0 in it, 1 after.
func (o *Options) side(millis, timestamp int64) int {
	if low, binds := o.TimeMin.of(timestamp); binds && millis < low {
		return -1
	}
	if high, binds := o.TimeMax.of(timestamp); binds && millis > high {
		return 1
	}
	return 0
}

// checkWindow refuses a time outside the window.
func (o *Options) checkWindow(r reading, timestamp int64) *DecodeError {
	side := o.side(r.millis, timestamp)
	if side == 0 {
		return nil
	}
	bound := "before EVENT_TIME_MIN = " + o.TimeMin.describe(timestamp)
	if side > 0 {
		bound = "after EVENT_TIME_MAX = " + o.TimeMax.describe(timestamp)
	}
	hint := o.hint(r, timestamp)
	if hint == "" {
		hint = "set the clock of its source right, or widen the bound"
	}
	return newError(TimeOutOfRange, o.TimeField, "%s is %s: %s", formatMillis(r.millis), bound, hint)
}

// hint names the unit in which the value would be a time inside the window.
func (o *Options) hint(r reading, timestamp int64) string {
	for _, u := range units {
		if u == r.unit {
			continue
		}
		if millis, ok := u.millis(r.value); ok && o.side(millis, timestamp) == 0 {
			return fmt.Sprintf("%d looks like %s and was read as %s: set EVENT_TIME_FORMAT, or send the right unit", r.value, u.name, r.unit.name)
		}
	}
	return ""
}

// formatMillis writes a time as RFC 3339, or as a number where the year has more than four digits.
func formatMillis(millis int64) string {
	t := time.UnixMilli(millis).UTC()
	if year := t.Year(); year < 0 || year > 9999 {
		return fmt.Sprintf("%d ms (year %d)", millis, year)
	}
	return t.Format("2006-01-02T15:04:05.999Z")
}
