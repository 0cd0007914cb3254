package measurement

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"waterwheel/internal/words"
)

// formatAuto is the default time format.
const formatAuto = "auto"

// formatNames are the names of time formats. Any other format is a Go layout or a pattern of strftime.
var formatNames = []string{formatAuto, "rfc3339", "unix", "unix_ms", "unix_us", "unix_ns"}

// timeParser reads a measurement's time. It accepts BSON dates always, and other values as its fields say.
type timeParser struct {
	format string
	auto   bool   // read ISO 8601, and numbers whose unit is guessed from their size
	unit   *unit  // read numbers of this unit. Nil means that there is none.
	layout string // read texts of this Go layout
	colon  string // a second Go layout for the same texts with a colon in the offset. Empty means that the first has no offset.

	zone      *time.Location // the zone of texts that do not name theirs. Nil means that such texts are refused, or read as UTC by a layout.
	exact     bool           // keep the nanoseconds below the millisecond
	below     int64          // nanoseconds of the last time below its millisecond, if exact is set
	timestamp int64          // timestamp of the record
	text      []byte         // buffer for a text to which a zone is added
}

// parserOf makes the parser of valid options.
func parserOf(o *Options) timeParser {
	p := newTimeParser(o.TimeFormat)
	p.exact = o.TimeExact != ""
	if o.TimeZone != "" {
		p.zone, _ = time.LoadLocation(o.TimeZone)
	}
	return p
}

// newTimeParser makes the parser of a format that CheckTimeFormat accepts.
func newTimeParser(format string) timeParser {
	p := timeParser{format: format}
	switch words.Plain(format) {
	case formatAuto:
		p.auto = true
	case "rfc3339":
	case "unix":
		p.unit = seconds
	case "unixms":
		p.unit = milliseconds
	case "unixus":
		p.unit = microseconds
	case "unixns":
		p.unit = nanoseconds
	default:
		p.layout = format
	}
	if isStrftime(p.layout) {
		p.layout, _ = goLayout(format)
		if strings.Contains(p.layout, directives["z"]) { // strftime's readers accept both forms of the offset
			p.colon = strings.ReplaceAll(p.layout, directives["z"], directives[":z"])
		}
	}
	return p
}

var errAbbreviatedZone = errors.New("a layout with an abbreviated time zone, which gives no offset: use -07:00 (in strftime %z), or leave the zone out for UTC")

// CheckTimeFormat returns why times cannot be read in a format. Nil means that they can. A layout must write a time at least to
// its day. It must not have zone abbreviations, which are ambiguous. The error's text continues a sentence that begins with the
// format.
func CheckTimeFormat(format string) error {
	p := newTimeParser(format)
	if isStrftime(format) {
		if _, err := goLayout(format); err != nil {
			return err
		}
	}
	if p.layout == "" {
		return nil
	}
	for _, sample := range []time.Time{
		time.Date(2023, 11, 22, 13, 14, 15, 0, time.UTC), time.Date(2024, 2, 7, 23, 5, 6, 0, time.UTC), // of two digits and of one digit
	} {
		parsed, err := time.ParseInLocation(p.layout, sample.Format(p.layout), time.UTC)
		if err != nil || parsed.Format(time.DateOnly) != sample.Format(time.DateOnly) {
			return errors.New("neither auto, rfc3339, unix, unix_ms, unix_us, unix_ns nor a Go layout with year, month and day, such as 2006-01-02 15:04:05, " +
				"or a strftime pattern, such as %Y-%m-%d %H:%M:%S" + words.DidYouMean(format, formatNames))
		}
		if hour := parsed.Hour(); hour != sample.Hour() && hour != 0 {
			return errors.New("a layout with hours up to 12 and neither AM nor PM: use 15 (in strftime %H) for hours up to 24")
		}
		if zoned := sample.In(time.FixedZone("XYZ", 3600)).Format(p.layout); strings.Contains(zoned, "XYZ") {
			return errAbbreviatedZone
		}
	}
	return nil
}

// directives maps strftime's directives to their counterparts in a Go layout.
var directives = map[string]string{
	"Y": "2006", "y": "06", "m": "01", "-m": "1", "d": "02", "-d": "2", "e": "_2", "j": "002",
	"H": "15", "-H": "15", "I": "03", "-I": "3", "M": "04", "-M": "4", "S": "05", "-S": "5", "p": "PM",
	"b": "Jan", "h": "Jan", "B": "January", "a": "Mon", "A": "Monday",
	"F": "2006-01-02", "T": "15:04:05", "R": "15:04", "D": "01/02/06",
	"z": "Z0700", ":z": "Z07:00", "%": "%", "f": fractionLayout, "L": fractionLayout, "N": fractionLayout,
}

// fractionLayout is a fraction of a second in a Go layout, without the point or comma before it. A text may have fewer digits, or
// none.
const fractionLayout = "999999999"

// isStrftime reports whether a time format is a pattern of strftime and not a Go layout.
func isStrftime(format string) bool { return strings.Contains(format, "%") }

// goLayout translates a pattern of strftime, as %Y-%m-%d %H:%M:%S. The error's text continues a sentence that begins with the
// pattern.
func goLayout(pattern string) (string, error) {
	var layout strings.Builder
	for rest := pattern; rest != ""; {
		literal, behind, found := strings.Cut(rest, "%")
		if !isLiteral(literal) {
			return "", fmt.Errorf("a strftime pattern with the text %q, which means a time in a Go layout: write a directive there, such as %%H, or write the whole format as a Go layout", literal)
		}
		layout.WriteString(literal)
		if !found {
			break
		}
		directive, known := cutDirective(&behind)
		if !known {
			return "", unknownDirective(directive)
		}
		if text := layout.String(); directives[directive] == fractionLayout && !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, ",") {
			return "", errors.New("a pattern with a fraction of a second, but without a point or comma before it: write %S.%f")
		}
		layout.WriteString(directives[directive])
		rest = behind
	}
	return layout.String(), nil
}

// cutDirective cuts a directive off a text that follows a percent sign, and reports whether the directive is known.
func cutDirective(text *string) (directive string, known bool) {
	rest := *text
	n := min(1, len(rest))
	if n == 1 && (rest[0] == '-' || rest[0] == ':' || isDigits([]byte(rest[:1]))) {
		n = min(2, len(rest)) // a flag, or the number of digits of a fraction
	}
	directive, *text = rest[:n], rest[n:]
	if n == 2 && isDigits([]byte(directive[:1])) && directives[directive[1:]] == fractionLayout {
		directive = directive[1:]
	}
	_, known = directives[directive]
	return directive, known
}

func unknownDirective(directive string) error {
	switch directive {
	case "Z":
		return errAbbreviatedZone
	case "s":
		return errors.New("a pattern with %s (seconds since 1970), which is not supported: set unix instead")
	case "":
		return errors.New("a pattern that ends in a percent sign: write %% for one")
	}
	return fmt.Errorf("a pattern with the unknown directive %%%s: use only %%Y %%m %%d %%j %%b %%a %%H %%I %%p %%M %%S %%f %%z %%F %%T", directive)
}

// isLiteral reports whether a text stands for itself in a Go layout.
func isLiteral(text string) bool {
	for _, t := range []time.Time{
		time.Date(2023, 11, 22, 13, 14, 25, 678_901_234, time.UTC),
		time.Date(1987, 8, 29, 0, 36, 47, 0, time.FixedZone("XYZ", 5400)),
	} {
		if t.Format(text) != text {
			return false
		}
	}
	return true
}

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
