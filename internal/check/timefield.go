package check

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"waterwheel/internal/measurement"
)

// timeNames are names of times, in tiers: times of measurement, times of the event, less specific times, times of creation, and
// times of receipt.
var timeNames = []string{
	"measuredat measuredtime measurementtime measuretime sampledat sampletime observedat observationtime observedtime phenomenontime " +
		"readingtime readat eventtime eventtimestamp eventts devicetime devicetimestamp devicets sensortime",
	"time timestamp ts datetime timeunixnano timestampms tsms timems timens utc",
	"recordedat capturedat occurredat t when at date epoch",
	"createdat createdon sentat publishedat start starttime startat startsat windowstart intervalstart periodstart bucketstart lastchanged",
	"receivedat receivedtime ingestedat arrivedat processedat updatedat lastseen lastupdate lastupdated storedat serverts servertime",
}

// otherTime is the tier of a field whose name only ends like that of a time, or whose values only look like times.
const otherTime = 9

// sourceWords and serverWords in the name of a time say whose clock it comes from.
const (
	sourceWords = "source device measured sample sampled event observed observation phenomenon sensor"
	serverWords = "server received receive ingest ingested processed gateway broker kafka system stored upload"
)

// noTimeWords occur in the names of times at which nothing was measured.
const noTimeWords = "uptime runtime lifetime downtime installed installation commissioned birth birthday born expires expiry expiration until valid end " +
	"next deadline maintenance calibrated calibration boot manufactured duration timeout window interval period total first"

// timeLayouts are formats of texts other than RFC 3339. Those without an offset are read as UTC.
var timeLayouts = []string{
	"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006/01/02 15:04:05", "02.01.2006 15:04:05", "01/02/2006 15:04:05", "02/01/2006 15:04:05",
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04", "2006-01-02T15:04", "02.01.2006 15:04", "02-01-2006 15:04:05",
	"20060102150405", "20060102T150405", "20060102T150405Z0700", "20060102 150405", "Mon, 02 Jan 2006 15:04:05 -0700", "Jan _2 2006 15:04:05",
	"02/Jan/2006:15:04:05 -0700",
}

// digitLayouts are formats of dates that are numbers.
var digitLayouts = []string{"20060102150405", "20060102"}

const (
	// triedTimes bounds how many fields are tried as the time.
	triedTimes = 8
	// nearly is the share of events that counts as all of them.
	nearly = 0.99
)

// timeChoice is a choice for the time of the events.
type timeChoice struct {
	path, format string
	read         float64 // share of the probed events that have a time there
	twin         string  // another format that reads as many, for example with day and month exchanged
	unread       string  // a field that is named like a time but cannot be read; then path is empty
	example      example // an example of unread, or of the time
	others       []string
	field        *field
	constant     bool // all events have the same time there
}

// lacksZone reports whether a format has no offset from UTC.
func lacksZone(format string) bool {
	isLayout := strings.Contains(format, "06")
	return isLayout && !strings.Contains(format, "Z07") && !strings.Contains(format, "-07")
}

// reads returns the share of the probed events that have a time in a field, in a format.
type reads func(path, format string) float64

// timeOf finds the field with the time of a form's events.
func (f form) timeOf(share reads) (best timeChoice) {
	for _, path := range f.times {
		best = best.better(leaf{f.view.field(path), path}, share)
	}
	if best.read >= nearly {
		return best
	}
	candidates := f.view.timeCandidates()
	for _, l := range candidates {
		one := timeChoice{}.better(l, share)
		switch {
		case one.read > best.read && best.path == "", one.read > best.read*1.1:
			if best.path != "" {
				one.others = append(one.others, best.path)
			}
			best = one
		case one.read > 0.5:
			best.others = append(best.others, l.path)
		}
	}
	best = f.view.otherwise(best, candidates, share)
	for _, path := range f.later {
		if best.path == "" {
			best = best.better(leaf{f.view.field(path), path}, share)
		}
	}
	if best.path == "" {
		best.unread, best.example = f.view.unreadTime(candidates)
	}
	return best
}

// otherwise handles a time that some events lack. It adds the fields that other events have in its place. No event has two of
// them, and each event has one.
func (v view) otherwise(best timeChoice, candidates []leaf, share reads) timeChoice {
	if best.path == "" || best.read >= nearly || best.format != "auto" {
		return best
	}
	all, seen := best, best.field.seen
	for _, l := range candidates {
		if slices.Contains(strings.Split(all.path, "|"), l.path) || timeRank(l) > len(timeNames) || seen+l.seen > v.n || l.seen*10 < v.n {
			continue
		}
		path := all.path + "|" + l.path
		if read := share(path, all.format); read > all.read {
			all.path, all.read, seen = path, read, seen+l.seen
			all.others = slices.DeleteFunc(all.others, func(other string) bool { return other == l.path })
		}
	}
	if all.read < nearly {
		return best
	}
	return all
}

// timeCandidates returns the fields that may be the time, the most likely first.
func (v view) timeCandidates() (list []leaf) {
	for _, l := range v.leaves() {
		if timeRank(l) > 0 && strings.Count(l.path, ".") < 4 && settable(l.path) && l.texts+l.numbers > 0 && (l.texts+l.numbers)*2 >= l.seen {
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b leaf) int {
		return cmp.Or(cmp.Compare(likeness(a, v), likeness(b, v)), cmp.Compare(timeRank(a), timeRank(b)), cmp.Compare(strings.Count(a.path, "."), strings.Count(b.path, ".")))
	})
	return list[:min(len(list), triedTimes)]
}

// likeness makes fields come later if they never change, or if few events have them.
func likeness(l leaf, v view) (worse int) {
	if l.isConstant() {
		worse += 2
	}
	if l.seen*2 < v.n {
		worse++
	}
	if v.own != nil && !v.own[l.field.path] {
		worse++ // it is the time of the whole list
	}
	return worse
}

// isConstant reports whether a field has a single value in many events.
func (f *field) isConstant() bool {
	return f.seen >= fewEvents && f.fractions == 0 && f.values != nil && f.values.values() == 1
}

// better tries a field in the formats that its values may have. It returns the best choice.
func (t timeChoice) better(l leaf, share reads) timeChoice {
	formats := []string{"auto"}
	add := func(layouts []string, text string) {
		for _, layout := range layouts {
			if _, err := time.Parse(layout, text); err == nil {
				formats = append(formats, layout)
			}
		}
	}
	add(digitLayouts, l.number.text)
	add(timeLayouts, l.text.text)
	if l.numerals > 0 {
		formats = append(formats, "unix", "unix_ms")
	}
	example := l.text
	if l.number.text != "" {
		example = l.number
	}
	for _, format := range formats {
		switch read := share(l.path, format); {
		case read > t.read:
			t = timeChoice{path: l.path, format: format, read: read, example: example, field: l.field, constant: l.isConstant(), others: t.others}
		case read > 0 && read == t.read && t.path == l.path && format != "unix_ms":
			t.twin = format
		}
		if t.read >= nearly && t.format == "auto" {
			break
		}
	}
	return t
}

// timeRank returns how strongly the name or the values of a field suggest a time. A smaller rank is stronger. Zero means that
// nothing does.
func timeRank(l leaf) int {
	name := plain(l.path)
	if slices.ContainsFunc(wordsOf(lastName(l.path)), func(word string) bool { return in(noTimeWords, word) }) && !in(timeNames[3], name) {
		return 0
	}
	for tier, names := range timeNames {
		if in(names, name) {
			return 1 + tier
		}
	}
	list := wordsOf(lastName(l.path))
	isTime := len(list) > 1 && in("time timestamp at ts date datetime on utc", list[len(list)-1]) || strings.HasSuffix(name, "time") || strings.HasSuffix(name, "timestamp")
	switch {
	case isTime && slices.ContainsFunc(list, func(word string) bool { return in(serverWords, word) }):
		return otherTime + 1
	case isTime && slices.ContainsFunc(list, func(word string) bool { return in(sourceWords, word) }):
		return 1
	case isTime:
		return otherTime
	case datePattern.MatchString(l.text.text), epochPattern.MatchString(l.text.text), epochPattern.MatchString(l.number.text):
		return otherTime + 2
	}
	return 0
}

var (
	// datePattern matches a date with a time of day. epochPattern matches a number of seconds since 1970, or of milli-, micro- or
	// nanoseconds.
	datePattern  = regexp.MustCompile(`\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}|\d{1,2}[/.-](\d{1,2}|[A-Z][a-z]{2})[/.-]\d{2,4}[ :T,]+\d{1,2}:\d{2}`)
	epochPattern = regexp.MustCompile(`^1[0-9]{9}([0-9]{3}){0,3}(\.\d+)?$`)
	dayPattern   = regexp.MustCompile(`^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})$`)
	clockPattern = regexp.MustCompile(`^\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[AaPp][Mm])?Z?$`)
)

// unreadTime returns the field that is named like a time in most events but cannot be read.
func (v view) unreadTime(candidates []leaf) (path string, of example) {
	for _, l := range append(candidates, v.leaves()...) {
		byName := timeRank(l) > 0 && timeRank(l) <= len(timeNames)
		if strings.Contains(l.path, "[]") || l.seen*2 < v.n || !byName && !datePattern.MatchString(l.text.text) {
			continue
		}
		switch {
		case l.texts*2 > l.seen:
			return l.path, l.text
		case l.lists*2 > l.seen:
			return l.path, example{text: "a list"}
		case l.objects*2 > l.seen && v.field(l.path+".seconds").seen > 0:
			return l.path, example{text: "an object of seconds"}
		case l.numbers*2 > l.seen && len(l.number.text) >= 9 && l.fractions == 0: // neither an uptime nor a temperature
			return l.path, l.number
		}
	}
	return "", example{}
}

// parted returns the fields of a day and of a time of day, if these are separate.
func (v view) parted() (day, clock string) {
	for _, l := range v.scalars() {
		switch {
		case l.texts*2 <= v.n:
		case dayPattern.MatchString(l.text.text):
			day = l.path
		case clockPattern.MatchString(l.text.text):
			clock = l.path
		}
	}
	return day, clock
}

// withTime returns options with a time.
func withTime(o measurement.Options, path, format string) measurement.Options {
	o.TimeField, o.TimeFormat = path, format
	if path == "" {
		o.TimeFormat = "auto"
	}
	return o
}
