package measurement

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// reading is a time that was read. It keeps the number and the unit from which the time came, for a hint in an error.
type reading struct {
	millis int64
	value  int64
	unit   *unit
	isText bool // the value was not a number
	isDate bool // a BSON date, or a record's timestamp
}

// parse reads a BSON value as a time.
func (p *timeParser) parse(kind bson.Type, value []byte) (reading, *DecodeError) {
	switch kind {
	case bson.TypeDateTime:
		p.below = 0
		return readingOf(int64(binary.LittleEndian.Uint64(value))), nil
	case bson.TypeInt32, bson.TypeInt64:
		if r, ok := p.parseInteger(integerOf(kind, value)); ok {
			return r, nil
		}
	case bson.TypeDouble:
		if r, ok := p.parseFloat(math.Float64frombits(binary.LittleEndian.Uint64(value))); ok {
			return r, nil
		}
	case bson.TypeString:
		if r, ok := p.parseText(rawbson.Text(value)); ok {
			return r, nil
		}
	case bson.TypeEmbeddedDocument:
		if p.auto {
			if kind, date, err := unwrap(nil, value); err == nil && kind == bson.TypeDateTime {
				return p.parse(kind, date)
			}
		}
	}
	return reading{}, newError(BadTime, "", "%s is not a time in the format %s: %s", quoteValue(kind, value), p.format, p.advice(kind, value))
}

// readingOf returns the reading of a time that did not come as a number. The reading has the unit milliseconds.
func readingOf(millis int64) reading {
	return reading{millis: millis, value: millis, unit: milliseconds, isDate: true}
}

// integerOf returns an int32 or int64.
func integerOf(kind bson.Type, value []byte) int64 {
	if kind == bson.TypeInt32 {
		return int64(int32(binary.LittleEndian.Uint32(value)))
	}
	return int64(binary.LittleEndian.Uint64(value))
}

// unitFor returns the unit of a number of this size. False means that the format has no numbers.
func (p *timeParser) unitFor(size uint64) (*unit, bool) {
	if p.auto {
		return unitOf(size), true
	}
	return p.unit, p.unit != nil
}

// parseInteger reads a number of units. With a layout it reads the number's digits, as those of 20060102.
func (p *timeParser) parseInteger(value int64) (reading, bool) {
	if p.layout != "" {
		return p.parseText(strconv.AppendInt(nil, value, 10))
	}
	size := uint64(value)
	if value < 0 {
		size = -size
	}
	u, ok := p.unitFor(size)
	if !ok {
		return reading{}, false
	}
	millis, ok := u.millis(value)
	if p.exact {
		p.below = u.below(value)
	}
	return reading{millis: millis, value: value, unit: u}, ok
}

// parseScalar reads a number that is given as its bits.
func (p *timeParser) parseScalar(kind bson.Type, bits uint64) (reading, bool) {
	switch kind {
	case bson.TypeInt32:
		return p.parseInteger(int64(int32(bits)))
	case bson.TypeInt64:
		return p.parseInteger(int64(bits))
	}
	return p.parseFloat(math.Float64frombits(bits))
}

// parseFloat is parseInteger for a number that may have a fraction.
func (p *timeParser) parseFloat(value float64) (reading, bool) {
	if p.layout != "" {
		return p.parseText(strconv.AppendFloat(nil, value, 'f', -1, 64))
	}
	u, ok := p.unitFor(uint64(min(math.Abs(value), math.MaxInt64)))
	if !ok {
		return reading{}, false
	}
	millis, ok := u.millisOfFloat(value)
	if !ok {
		return reading{}, false
	}
	if p.exact {
		p.below = u.belowOfFloat(value)
	}
	return reading{millis: millis, value: int64(value), unit: u}, true
}

func (p *timeParser) parseText(text []byte) (reading, bool) {
	if p.layout != "" {
		return p.parseLayout(text)
	}
	if p.unit == nil {
		millis, ok := parseTime(text, p.auto)
		if !ok && p.zone != nil {
			millis, ok = p.parseLocal(text)
		}
		if ok {
			if p.exact {
				p.below = belowText(text)
			}
			return textReading(millis), true
		}
	}
	if p.auto && !tellsUnit(text) {
		return reading{}, false
	}
	return p.parseNumber(text)
}

// parseLayout reads a text of the Go layout.
func (p *timeParser) parseLayout(text []byte) (reading, bool) {
	t, err := time.ParseInLocation(p.layout, string(text), time.UTC)
	if err != nil && p.colon != "" {
		t, err = time.ParseInLocation(p.colon, string(text), time.UTC)
	}
	if err != nil {
		return reading{}, false
	}
	millis := t.UnixMilli()
	if p.zone != nil {
		millis = p.local(millis)
	}
	if p.exact {
		p.below = int64(t.Nanosecond() % 1_000_000)
	}
	return textReading(millis), true
}

// parseLocal reads a text in a form of ISO 8601 without its zone. It applies only to the format auto.
func (p *timeParser) parseLocal(text []byte) (millis int64, ok bool) {
	if !p.auto {
		return 0, false
	}
	p.text = append(append(p.text[:0], text...), 'Z')
	if millis, ok = parseTime(p.text, true); ok {
		millis = p.local(millis)
	}
	return millis, ok
}

func textReading(millis int64) reading {
	return reading{millis: millis, value: millis, unit: milliseconds, isText: true}
}

// tellsUnit reports whether a text can only be a number of a unit since 1970. In the years 2001 to 2286 seconds have 10 digits,
// and each finer unit has three more. A text of any other length may be a date without separators.
func tellsUnit(text []byte) bool {
	whole, _, _ := bytes.Cut(text, []byte{'.'})
	n := len(whole)
	return (n == 10 || n == 13 || n == 16 || n == 19) && whole[0] != '0' && isDigits(whole)
}

// parseNumber reads a number that was sent as a text, without rounding.
func (p *timeParser) parseNumber(text []byte) (reading, bool) {
	whole, fraction, isFraction := bytes.Cut(text, []byte{'.'})
	value, ok := parseDecimal(whole).integer()
	if !ok || isFraction && (value < 0 || len(fraction) == 0 || !isDigits(fraction)) {
		return reading{}, false
	}
	r, ok := p.parseInteger(value)
	if r.unit == seconds && isFraction {
		below, _, _ := cutFraction(text[len(whole):], false)
		r.millis += below
	}
	if p.exact && isFraction {
		p.below += r.unit.belowFraction(fraction)
	}
	return r, ok
}

// zoneAdvice names the zone in which a layout reads texts that do not name theirs. It ends a sentence.
func (p *timeParser) zoneAdvice() string {
	if p.zone == nil {
		return "UTC"
	}
	return "local time in " + p.zone.String() + " (EVENT_TIME_ZONE)"
}

// advice says how to make a refused value readable.
func (p *timeParser) advice(kind bson.Type, value []byte) string {
	const general = "send a time in this format, or set EVENT_TIME_FORMAT to its format"
	if kind != bson.TypeString {
		return general
	}
	text := rawbson.Text(value)
	if lacksZone(text) {
		return "it has no time zone: add Z or an offset at its source, or set EVENT_TIME_ZONE to the zone of its clock, such as Europe/Berlin or UTC"
	}
	if isDate(text) {
		return "it is a date without a time: set EVENT_TIME_FORMAT=2006-01-02, which is read as 00:00 " + p.zoneAdvice()
	}
	if layout := layoutWithoutSeparators(text); layout != "" {
		return "it is a date in digits without separators: set EVENT_TIME_FORMAT=" + layout + ", which is read as " + p.zoneAdvice()
	}
	if d := parseDecimal(text); d.isDecimal && p.auto {
		return "it is a number sent as a string, and its unit is unknown: send it without quotes, or set EVENT_TIME_FORMAT to its unit"
	} else if d.isDecimal {
		return "it is a number sent as a string: set EVENT_TIME_FORMAT to its unit"
	}
	return general
}

// timeOf returns the time of the event that was walked, in milliseconds.
func (d *Decoder) timeOf() (millis int64, err *DecodeError) {
	timestamp := d.record.Timestamp
	if len(d.paths.times) == 0 {
		if timestamp < 0 {
			return 0, newError(MissingTime, "", "the record has no timestamp: set EVENT_TIME_FIELD to the event's own time")
		}
		d.time.below = 0
		return timestamp, d.options.checkWindow("", readingOf(timestamp), timestamp)
	}
	if d.foundTime.Kind == 0 {
		return 0, d.missingTime()
	}
	r, err := d.time.parse(d.foundTime.Kind, d.foundTime.Value)
	if err != nil {
		err.Path = shownPath(d.timePath())
		return 0, err
	}
	if d.options.side(r.millis, timestamp) == 0 {
		return r.millis, nil
	}
	return r.millis, d.options.checkWindow(d.timePath(), r, timestamp)
}

// timePath returns the path to the time that was found. Empty means the record's timestamp.
func (d *Decoder) timePath() string {
	if len(d.paths.times) == 0 {
		return ""
	}
	return d.paths.times[d.timeRank]
}
