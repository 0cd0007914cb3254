package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"waterwheel/internal/measurement"
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

// asked is what a registry says about the schemas that the records of a sample name.
type asked struct {
	found   bool                  // it has returned a schema
	missing *measurement.SchemaID // the first schema that it does not have. Nil means that it has all.
}

// watch makes options note the answers of their registry.
func (a *asked) watch(o *measurement.Options) {
	ask := o.Ask
	if ask == nil {
		return
	}
	o.Ask = func(id measurement.SchemaID) (measurement.Schema, error) {
		s, err := ask(id)
		switch {
		case err != nil:
		case s.Reason == "":
			a.found = true
		case s.Reason == measurement.UnknownSchema && a.missing == nil:
			a.missing = &id
		}
		return s, err
	}
}

// rightRegistry is what to do about schemas that the registry does not have.
const rightRegistry = "set SCHEMA_REGISTRY_URL to the registry in which the producers register their schemas, or register the missing schemas in this registry"

// stop moves records whose schema is missing from the dead letters to what stops a partition. Like run, it takes a registry that
// has returned no schema of the topic for the wrong one.
func (s *sampler) stop() {
	const reason = string(measurement.UnknownSchema)
	if bad := s.bad[reason]; bad != nil && !s.asked.found && s.asked.missing != nil {
		s.view.Stops = bad
		delete(s.bad, reason)
	}
}

// judgeStop reports records that stop their partition.
func (s *sampler) judgeStop(subject string, found *Findings) {
	if stops := s.view.Stops; stops != nil {
		found.Wrong(subject, rightRegistry, "run would stop the partition of %s (%s): the registry has no schema %s, which this record needs, and has returned no schema of this topic: is SCHEMA_REGISTRY_URL the right registry?",
			stops.From, stops.Reason, s.asked.missing)
	}
}
