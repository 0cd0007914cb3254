package measurement

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"waterwheel/internal/record"
	"waterwheel/internal/words"
)

// firstMillis and lastMillis bound the times that settings can accept. Most readers of buckets cannot show other times.
const (
	firstMillis = record.FirstMillis
	lastMillis  = record.LastMillis
)

// noTimestamp is the timestamp of a record without one.
const noTimestamp = -1

// Bound is a bound of the accepted times. It is a time, or a distance from the record's timestamp, which gives a replay the same
// result. The zero value means the default of its option.
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

// At returns the bound at a time in milliseconds since 1970.
func At(millis int64) Bound { return Bound{kind: absolute, millis: millis} }

// FromRecord returns the bound at a distance from the record's timestamp. A negative distance lies before it. The bound does not
// apply to a record without a timestamp.
func FromRecord(distance time.Duration) Bound {
	return Bound{kind: relative, millis: distance.Milliseconds()}
}

// UnmarshalText reads a time as ParseTime does, or a signed distance such as "+24h" or "-30d".
func (b *Bound) UnmarshalText(text []byte) error {
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		distance, ok := words.ParseSpan(string(text))
		if !ok {
			return errors.New("not a distance from the record's timestamp such as +24h or -30d")
		}
		*b = FromRecord(distance)
		return nil
	}
	t, ok := ParseTime(string(text))
	if !ok {
		return errors.New("neither an RFC 3339 time such as 1990-01-01T00:00:00Z, nor a date, nor a distance with its sign such as +24h or -30d")
	}
	*b = At(t.UnixMilli())
	return nil
}

// String returns a text that UnmarshalText reads.
func (b Bound) String() string {
	switch b.kind {
	case absolute:
		return formatMillis(b.millis)
	case relative:
		text := strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace((time.Duration(b.millis) * time.Millisecond).String())
		if b.millis >= 0 {
			text = "+" + text
		}
		return text
	}
	return ""
}

// Excludes reports whether no time lies between two bounds of the same kind. b is the lower bound.
func (b Bound) Excludes(upper Bound) bool { return b.kind == upper.kind && b.millis >= upper.millis }

// describe describes the bound for a record.
func (b Bound) describe(timestamp int64) string {
	if b.kind == relative {
		if timestamp != withinYears(timestamp) {
			return fmt.Sprintf("%s from the record's timestamp, which counts as %s", b, formatMillis(withinYears(timestamp)))
		}
		return fmt.Sprintf("%s from the record's timestamp %s", b, formatMillis(timestamp))
	}
	return b.String()
}

// of returns the bound for a record. False means that the bound does not apply. It moves a timestamp outside the years 0 to 9999
// to the nearest of these years. Otherwise a timestamp in a wrong unit would make its own wrong time acceptable.
func (b Bound) of(timestamp int64) (int64, bool) {
	if b.kind == relative {
		return withinYears(timestamp) + b.millis, timestamp != noTimestamp
	}
	return b.millis, true
}

func withinYears(millis int64) int64 { return record.Time(millis).UnixMilli() }

// side returns the side of the window on which a time lies: -1 before, 0 inside, 1 after.
func (o *Options) side(millis, timestamp int64) int {
	if low, binds := o.TimeMin.of(timestamp); millis < firstMillis || binds && millis < low {
		return -1
	}
	if high, binds := o.TimeMax.of(timestamp); millis > lastMillis || binds && millis > high {
		return 1
	}
	return 0
}

// checkWindow refuses a time outside the window. path leads to the time.
func (o *Options) checkWindow(path string, r reading, timestamp int64) *DecodeError {
	if o.side(r.millis, timestamp) == 0 {
		return nil
	}
	const advise = "correct the clock of its source"
	bound, advice := "outside the years 0 to 9999, which is the range that can be stored", advise
	if low, binds := o.TimeMin.of(timestamp); binds && r.millis < low {
		bound, advice = "before EVENT_TIME_MIN = "+o.TimeMin.describe(timestamp), advise+", or set an earlier EVENT_TIME_MIN"
	} else if high, binds := o.TimeMax.of(timestamp); binds && r.millis > high {
		bound, advice = "after EVENT_TIME_MAX = "+o.TimeMax.describe(timestamp), advise+", or set a later EVENT_TIME_MAX"
	}
	if hint := o.hint(r, timestamp); hint != "" {
		advice = hint
	}
	return newError(TimeOutOfRange, path, "%s is %s: %s", formatMillis(r.millis), bound, advice)
}

// hint says in which unit or layout the value would be a time inside the window. For a text it only considers a source that took
// seconds for milliseconds. The opposite mistake gives a year of more than four digits.
func (o *Options) hint(r reading, timestamp int64) string {
	if layout := o.layoutOf(r, timestamp); layout != "" {
		return fmt.Sprintf("%d seems to be a date in digits without separators and was read as %s: set EVENT_TIME_FORMAT=%s, or send an RFC 3339 time",
			r.value, r.unit.name, layout)
	}
	for _, u := range units {
		if u == r.unit || r.isText && u != seconds {
			continue
		}
		if millis, ok := u.millis(r.value); !ok || o.side(millis, timestamp) != 0 {
			continue
		}
		if r.isText {
			return fmt.Sprintf("the source seems to have sent %d seconds as milliseconds: correct the unit at the source", r.value)
		}
		return fmt.Sprintf("%d looks like %s and was read as %s: set EVENT_TIME_FORMAT, or send the right unit", r.value, u.name, r.unit.name)
	}
	return ""
}

// layoutOf returns the Go layout of a number whose digits are a date inside the window. It is empty for any other number.
func (o *Options) layoutOf(r reading, timestamp int64) string {
	if r.isText || r.isDate || r.value < 0 {
		return ""
	}
	number := strconv.AppendInt(nil, r.value, 10)
	layout := layoutWithoutSeparators(number)
	if layout == "" {
		return ""
	}
	if t, err := time.Parse(layout, string(number)); err != nil || o.side(t.UnixMilli(), timestamp) != 0 {
		return ""
	}
	return layout
}

// formatMillis writes a time in RFC 3339, or as a number if the year has more than four digits.
func formatMillis(millis int64) string {
	t := time.UnixMilli(millis).UTC()
	if year := t.Year(); year < 0 || year > 9999 {
		return fmt.Sprintf("%d ms (year %d)", millis, year)
	}
	return t.Format("2006-01-02T15:04:05.999Z")
}
