package check

import (
	"fmt"
	"slices"
	"strings"

	"waterwheel/internal/measurement"
)

// advise adds to a finished sample its advice about the settings, if the settings in effect do not suit it.
func (s *sampler) advise() {
	p := &proposer{evidence: s.evidence, kept: s.kept, current: s.decoding, bucketing: s.bucketing}
	s.notes = p.inEffect().notes(s.decoding)
	if s.evidence.records == s.view.Tombstones {
		return
	}
	advice := p.propose()
	now, _ := p.try(s.decoding, s.kept.list)
	if !p.helps(&advice, &now) {
		return
	}
	s.view.Advice, s.view.Tried = advice, len(s.kept.list)
}

// inEffect returns a proposer whose evidence is of the events as the stages in effect produce them.
func (p *proposer) inEffect() *proposer {
	o := p.current
	if len(o.Parse)+len(o.List)+len(o.Rename) == 0 && o.FieldName == "" {
		return p
	}
	return p.staged(absolute(o), o.Root)
}

// helps reports whether advice says more than that the settings in effect suit the sample.
func (p *proposer) helps(a *Advice, now *tally) bool {
	fits := now.bad == 0 && now.good > 0
	switch {
	case slices.ContainsFunc(a.Choices, func(c Proposal) bool { return c.inEffect }):
		return false
	case a.Proposal == nil:
		return now.bad > 0 || slices.ContainsFunc(a.Choices, func(c Proposal) bool { return c.Series > now.metas.values() })
	case a.Proposal.inEffect:
		return false
	case a.Proposal.Measurements > now.good:
		// The operator who chose an object of the events knows that some events lack it.
		chosen := (p.current.Root != "" || p.current.Fields != "") && now.good*2 >= now.good+now.bad
		return !chosen || p.coarser(a.Proposal, now)
	}
	return fits && p.coarser(a.Proposal, now) || p.tooFine(a.Proposal, now)
}

// coarser reports whether the settings in effect merge series that a proposal separates.
func (p *proposer) coarser(of *Proposal, now *tally) bool {
	return of.Measurements >= now.good && of.Series > now.metas.values() && (of.Confidence == High || of.Measurements >= fewEvents)
}

// tooFine reports whether the settings in effect make a series of nearly every event, and a proposal does not.
func (p *proposer) tooFine(of *Proposal, now *tally) bool {
	return now.good >= judgedFrom && now.metas.values()*2 > now.good && of.Measurements >= now.good && of.Series*2 <= of.Measurements
}

// judgeIdentity warns about settings that merge several things into one series.
func (s *sampler) judgeIdentity(subject string, found *Findings) {
	if s.view.Question != "" && len(s.bad) == 0 {
		found.Note(subject, "the settings divide the events into %s series, but the sample does not show whether this is right: %s", count(s.view.Series), s.view.Question)
	}
	p := s.view.Proposal
	if p == nil || len(s.bad) > 0 || p.Series <= s.view.Series {
		return
	}
	found.Warn(subject, s.wayOut(""), "the settings divide the events into %s series, but the events seem to come from %s series (reason: %s)", count(s.view.Series), count(p.Series), p.Because[len(p.Because)-1])
}

// judgeValues warns about stored values that queries cannot use.
func (s *sampler) judgeValues(subject string, found *Findings) {
	if s.view.Measurements == 0 {
		return
	}
	for i, one := range s.notes {
		if i == listedNames {
			found.Warn(subject, "", "this list omits %s with similar problems", plural(len(s.notes)-i, "field"))
			return
		}
		found.Warn(subject, one.wayOut, "%s %s", one.path, one.is)
	}
}

// judgePartitions warns about series whose records are in several partitions.
func (s *sampler) judgePartitions(subject string, found *Findings) {
	spread := s.variety.spread()
	if spread == 0 || s.decoding.MetaFrom == measurement.MetaFromNone || s.view.Proposal != nil { // the proposal has other series
		return
	}
	found.Warn(subject, "key the records by "+s.metaName()+", so that each series has one partition and one consumer",
		"%s of %s series have records in several partitions: such a series has separate buckets for each partition", count(spread), count(s.view.Series))
}

// metaName names the fields that meta consists of.
func (s *sampler) metaName() string {
	switch {
	case len(s.decoding.MetaFields) > 0:
		return strings.Join(s.decoding.MetaFields, ",")
	case s.decoding.MetaField != "":
		return s.decoding.MetaField
	}
	return "meta"
}

// judgeZone notes that times without a zone are read as UTC. It warns if they are as far from their records' times as local times
// would be.
func (s *sampler) judgeZone(subject string, found *Findings) {
	if !lacksZone(s.decoding.TimeFormat) || s.decoding.TimeZone != "" || len(s.offsets) == 0 {
		return
	}
	const text = "EVENT_TIME_FORMAT=%s has no zone: the times are read as UTC"
	if zone, ok := zoneOf(s.offsets); ok && s.evidence.isLog {
		found.Warn(subject, "set EVENT_TIME_ZONE to the time zone of the times, or send times with an offset", text+fmt.Sprintf(", but differ by about %s from the timestamps of their records, as local times would", zone), s.decoding.TimeFormat)
		return
	}
	found.Note(subject, text+", which is wrong if they are local times", s.decoding.TimeFormat)
}
