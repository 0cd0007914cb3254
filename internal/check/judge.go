package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"waterwheel/internal/words"
)

const (
	// judgedFrom is the smallest number of measurements that represents the whole.
	judgedFrom = 50
	// aheadUsual and behindUsual are the usual limits of the distance between times and their records' timestamps.
	aheadUsual  = time.Hour
	behindUsual = 30 * 24 * time.Hour
)

// judge reports what a finished sample shows about the settings.
func (s *sampler) judge(found *Findings) {
	subject := "sample of " + s.view.Topic
	if s.view.Records == 0 {
		found.Note(subject, "there are no records to sample")
		return
	}
	bad := 0
	for _, b := range s.view.Bad {
		bad += b.Count
	}
	all, letters := bad+s.view.Measurements, words.Form(bad, "a dead letter", "dead letters")
	s.judgeStop(subject, found)
	switch {
	case all == 0 && s.view.Stops != nil:
	case all == 0 && s.view.Skipped > 0:
		found.Warn(subject, "correct EVENT_SKIP, unless all these events are to be left out", "EVENT_SKIP leaves out all %s", words.Count(s.view.Skipped, "event"))
	case bad == 0:
		found.OK(subject, "the settings fit: %s %s %s of %s in %s", words.Count(s.view.Records, "record"), words.Form(s.view.Records, "is", "are"), words.Count(s.view.Measurements, "measurement"),
			words.Count(s.view.Series, "series"), words.Count(s.view.Buckets, "bucket"))
	case bad*2 > all:
		found.Wrong(subject, s.wayOut("compare the events with EVENT_FORMAT, EVENT_TIME_FIELD and EVENT_META_FIELD"), "%d of %s would become %s: %s", bad, words.Count(all, "event"), letters, s.view.Bad[0].Example)
	default:
		found.Warn(subject, s.wayOut("look at the reasons above"), "%d of %s would become %s", bad, words.Count(all, "event"), letters)
	}
	if s.hinted > 0 {
		found.Wrong(subject, "set EVENT_TIME_FORMAT to the unit of the times in the events", "%s %s to have another unit: %s", words.Count(s.hinted, "event time"), words.Form(s.hinted, "seems", "seem"), s.bad["time_out_of_range"].Example)
	}
	if s.evidence.isLog { // otherwise the timestamps are the present time
		s.judgeTimes(subject, found)
	}
	s.judgeZone(subject, found)
	s.judgeIdentity(subject, found)
	s.judgeSeries(subject, found)
	s.judgeParts(subject, found)
	s.judgeShape(subject, found)
	s.judgeValues(subject, found)
	if s.evidence.crowded {
		found.Note(subject, "the events have more than %s different field names: further fields were not checked", count(mostPaths))
	}
	s.judgePartitions(subject, found)
}

// judgeParts warns about parts of meta that no event has. Such a part is absent, without a dead letter.
func (s *sampler) judgeParts(subject string, found *Findings) {
	if s.view.Measurements == 0 {
		return
	}
	for i, name := range s.decoding.PartNames() {
		if !s.variety.has(name) {
			found.Warn(subject, "correct the path in EVENT_META_FIELDS, unless only some events have this field", "no event has %s, a part of meta", s.decoding.MetaFields[i])
		}
	}
}

// judgeShape warns about paths that no event has, in settings that do nothing or too much then. A condition in another language is
// such a path too, as in EVENT_SKIP=v is null.
func (s *sampler) judgeShape(subject string, found *Findings) {
	if s.evidence.crowded || len(s.evidence.fields) == 0 {
		return
	}
	names := map[string]bool{}
	for path := range s.evidence.fields {
		names[path[strings.LastIndexByte(path, '.')+1:]] = true
	}
	for _, p := range s.decoding.ShapePaths() {
		if !names[p.Name] {
			found.Warn(subject, "correct "+p.Setting+", unless only other events have this field", "no event has %s, which %s=%s names", p.Name, p.Setting, p.Text)
		}
	}
}

// wayOut returns the proposal as advice, or else the given advice.
func (s *sampler) wayOut(otherwise string) string {
	switch {
	case s.view.Proposal != nil:
		return "the events look like " + s.view.Proposal.Shape + ": " + s.view.Proposal.Line()
	case s.view.Question != "":
		return "choose between the settings above: " + s.view.Question
	}
	return cmp.Or(s.view.Unproposed, otherwise)
}

// judgeTimes warns if most times are far from their records' timestamps. The cause is a wrong unit or a wrong field.
func (s *sampler) judgeTimes(subject string, found *Findings) {
	if len(s.offsets) == 0 {
		return
	}
	slices.Sort(s.offsets)
	middle := time.Duration(s.offsets[len(s.offsets)/2]) * time.Millisecond
	const wayOut = "check EVENT_TIME_FIELD, EVENT_TIME_FORMAT and the sources' clocks"
	if middle > aheadUsual {
		found.Warn(subject, wayOut, "the times of half of the measurements are %v or more after the timestamps of their records", middle.Round(time.Second))
	}
	if middle < -behindUsual {
		found.Warn(subject, wayOut+" (a replay of old events is not a mistake)", "the times of half of the measurements are %v or more before the timestamps of their records", -middle.Round(time.Second))
	}
}

// judgeSeries warns about a meta that differs in nearly every measurement, which is the most expensive mistake.
func (s *sampler) judgeSeries(subject string, found *Findings) {
	n, series := s.view.Measurements, s.view.Series
	if n < judgedFrom || series*2 <= n {
		return
	}
	var varied []string
	for _, f := range s.view.Fields {
		if f.Values > 1 {
			varied = append(varied, fmt.Sprintf("%s (%d values in %d measurements)", f.Name(), f.Values, f.Seen))
		}
	}
	found.Warn(subject, "keep fields that change with every event out of meta: correct EVENT_META_FIELD or EVENT_META_FIELDS. If there may really be so many series, check again with a larger --sample",
		"%d measurements belong to %d series: nearly each measurement gets its own bucket. The fields that vary most in meta: %s", n, series, strings.Join(varied[:min(3, len(varied))], ", "))
}
