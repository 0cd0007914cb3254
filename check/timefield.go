package check

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"waterwheel/measurement"
)

// timeNames are what times are called, the usual ones first.
const timeNames = "time timestamp ts datetime eventtime timeunixnano eventtimestamp date measuredat sampledat recordedat createdat at t when e tsms"

// timeLayouts are formats of texts that are no RFC 3339.
var timeLayouts = []string{
	"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006/01/02 15:04:05", "02.01.2006 15:04:05", "01/02/2006 15:04:05",
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700",
}

// triedTimes bounds how many fields are tried as time.
const triedTimes = 6

// timeField is a field that may be the time, and the format in which it can be read.
type timeField struct {
	path, format string
	read         int // events whose time can be read
}

// timeOf finds the field of the objects with which most events have a time; path empty: none is. Others are paths to try
// besides, as they are set.
func (p *proposer) timeOf(base measurement.Options, list []object, others ...string) timeField {
	var candidates []*leaf
	for _, l := range leavesOf(list, 2) {
		if l.seen*10 >= len(list)*9 && timeRank(l) > 0 {
			candidates = append(candidates, l)
		}
	}
	slices.SortStableFunc(candidates, func(a, b *leaf) int {
		return cmp.Or(cmp.Compare(timeRank(a), timeRank(b)), cmp.Compare(strings.Count(a.path, "."), strings.Count(b.path, ".")))
	})
	best := timeField{}
	for _, l := range candidates[:min(len(candidates), triedTimes)] {
		best = p.better(best, base, l.path, formatsOf(l))
	}
	for _, path := range others {
		best = p.better(best, base, path, []string{"auto"})
	}
	return best
}

// better tries a field in some formats.
func (p *proposer) better(best timeField, base measurement.Options, path string, formats []string) timeField {
	for _, format := range formats {
		o := base
		o.MetaFrom, o.MetaField, o.MetaFields, o.TimeField, o.TimeFormat = measurement.MetaFromNone, "", nil, path, format
		if trial, ok := p.try(o); ok && trial.good > best.read {
			best = timeField{path, format, trial.good}
		}
	}
	return best
}

// timeRank is how much the name, or what is in it, says that a field is a time: the smaller the more, 0 nothing.
func timeRank(l *leaf) int {
	name := plain(l.path)
	if i := slices.Index(strings.Fields(timeNames), name); i >= 0 {
		return 1 + i
	}
	const worse = 100
	text, _ := l.example.(string)
	switch {
	case strings.HasSuffix(name, "time"), strings.HasSuffix(name, "timestamp"), strings.HasSuffix(lastName(l.path), "_at"),
		strings.HasSuffix(lastName(l.path), "At"), strings.HasSuffix(lastName(l.path), "_ts"):
		return worse
	case len(text) > 0:
		if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return worse + 1
		}
	}
	return 0
}

// formatsOf are the formats in which a field's times may be.
func formatsOf(l *leaf) []string {
	formats := []string{"auto"}
	text, isText := l.example.(string)
	if !isText {
		return formats
	}
	for _, layout := range timeLayouts {
		if _, err := time.Parse(layout, text); err == nil {
			formats = append(formats, layout)
		}
	}
	return append(formats, "unix", "unix_ms")
}
