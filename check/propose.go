package check

import (
	"cmp"
	"slices"
	"strings"

	"waterwheel/bucketer"
	"waterwheel/measurement"
	"waterwheel/record"
)

// shownProposals bounds how many are shown.
const shownProposals = 3

// Proposal is a group of settings with which more of a sample's events would be stored.
type Proposal struct {
	// Shape is what the events look like.
	Shape string `json:"shape"`
	// Settings are those that differ from the defaults, and from what is in effect.
	Settings []Setting `json:"settings"`
	// Measurements and Letters are what the sampled events become with them; Series of the measurements.
	Measurements int `json:"measurements"`
	Letters      int `json:"letters"`
	Series       int `json:"series"`
	// Caution is what speaks against the settings, empty: nothing that the sample shows.
	Caution string `json:"caution,omitempty"`
	// Examples are measurements as they would be stored.
	Examples []Document `json:"examples"`
}

// Setting is a setting's name and value.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Line is the settings as a shell takes them.
func (p Proposal) Line() string {
	var list []string
	for _, s := range p.Settings {
		value := s.Value
		if strings.ContainsAny(value, " \t'\"\\$`*?&;<>|()[]{}#~!") {
			value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
		list = append(list, s.Name+"="+value)
	}
	return strings.Join(list, " ")
}

// proposer looks for settings that suit a sample.
type proposer struct {
	readable
	topic     string
	current   measurement.Options
	bucketing bucketer.Options
	without   string // a path that is a part of meta only if nothing else is
}

// trial is what a sample becomes with some settings.
type trial struct {
	good, bad int
	view      Sample
}

// Propose returns settings with which more of the records become measurements than with the current ones, the best first; and
// where none do, why, as far as the form of the events is known.
func Propose(topic string, records []record.Record, current measurement.Options, bucketing bucketer.Options) (list []Proposal, why string) {
	p := proposer{readable: read(records), topic: topic, current: current, bucketing: bucketing}
	now, _ := p.try(current)
	if now.bad == 0 {
		return nil, ""
	}
	for _, s := range p.shapes() {
		why = cmp.Or(why, s.why)
		for _, o := range s.options {
			one, ok := p.try(o)
			if !ok || one.good <= now.good {
				continue
			}
			line := p.settings(o)
			if !slices.ContainsFunc(list, func(other Proposal) bool { return slices.Equal(other.Settings, line) }) {
				list = append(list, Proposal{s.name + described(&o), line, one.good, one.bad, one.view.Series, one.caution(), one.view.Examples})
			}
		}
		if why != "" || len(list) > 0 && list[len(list)-1].Letters == 0 {
			break // what is more general says less
		}
	}
	if why != "" {
		return nil, why
	}
	slices.SortStableFunc(list, func(a, b Proposal) int { return cmp.Compare(b.Measurements, a.Measurements) })
	list = list[:min(len(list), shownProposals)]
	if len(list) == 0 {
		why = p.unreadable()
	}
	return list, why
}

// caution warns about a meta that differs in nearly every measurement.
func (t *trial) caution() string {
	if t.good < judgedFrom || t.view.Series*2 <= t.good {
		return ""
	}
	return "nearly every measurement would be a series of its own, and a bucket: name fields in EVENT_META_FIELDS that stay the same"
}

// described says of settings what of a measurement they do not find in the events.
func described(o *measurement.Options) (text string) {
	if o.TimeField == "" {
		text = ", whose time is their record's"
	}
	switch o.MetaFrom {
	case measurement.MetaFromKey:
		text += ", whose series is their record's key"
	case measurement.MetaFromNone:
		text += ", all of one series"
	}
	return text
}

// unreadable says of records that are neither JSON nor BSON what they may be.
func (p *proposer) unreadable() string {
	switch n := len(p.records); {
	case p.framed*2 > n:
		return "the records begin with the frame of a schema registry, but no JSON follows: Avro and Protobuf are not read"
	case p.strange*2 > n:
		return "the records are neither JSON nor BSON, nothing else is read"
	}
	return ""
}

// base are the current options with the sample's encoding, and no paths.
func (p *proposer) base() measurement.Options {
	o := p.current
	o.Format, o.Framing = p.format, p.framing
	o.TimeField, o.TimeFormat, o.Root, o.Fields, o.Drop = "", "auto", "", "", nil
	o.MetaFrom, o.MetaField, o.MetaFields = measurement.MetaFromValue, "", nil
	return o
}

// try decodes the sample with other options; false: they cannot be set.
func (p *proposer) try(o measurement.Options) (trial, bool) {
	bucketing := p.bucketing
	if o.MetaFrom == measurement.MetaFromNone {
		bucketing.Collection.MetaField = ""
	} else if bucketing.Collection.MetaField == "" {
		bucketing.Collection.MetaField = "meta"
	}
	o.StoredMeta = bucketing.Collection.MetaField
	s, err := newSampler(p.topic, o, bucketing)
	if err != nil {
		return trial{}, false
	}
	for i := range p.records {
		s.take(0, &p.records[i])
	}
	t := trial{good: s.view.Measurements, view: s.view}
	for _, bad := range s.bad {
		t.bad += bad.Count
	}
	t.view.Series = s.variety.series()
	return t, true
}

// settings are the options as settings, where they are not the defaults or not what is in effect.
func (p *proposer) settings(o measurement.Options) (list []Setting) {
	add := func(name, value, current, fallback string) {
		if value != fallback || value != current {
			list = append(list, Setting{name, value})
		}
	}
	now := p.current
	add("EVENT_FORMAT", string(o.Format), cmp.Or(string(now.Format), "json"), "json")
	add("EVENT_FRAMING", string(o.Framing), cmp.Or(string(now.Framing), "none"), "none")
	add("EVENT_ROOT", o.Root, now.Root, "")
	add("EVENT_TIME_FIELD", o.TimeField, now.TimeField, "time")
	add("EVENT_TIME_FORMAT", cmp.Or(o.TimeFormat, "auto"), cmp.Or(now.TimeFormat, "auto"), "auto")
	add("EVENT_META_FROM", cmp.Or(string(o.MetaFrom), "value"), cmp.Or(string(now.MetaFrom), "value"), "value")
	if o.MetaField != "" {
		add("EVENT_META_FIELD", o.MetaField, now.MetaField, "meta")
	} else if now.MetaField != "" && now.MetaField != "meta" {
		add("EVENT_META_FIELD", "", now.MetaField, "")
	}
	add("EVENT_META_FIELDS", strings.Join(o.MetaFields, ","), strings.Join(now.MetaFields, ","), "")
	add("EVENT_FIELDS", o.Fields, now.Fields, "")
	add("EVENT_DROP", strings.Join(o.Drop, ","), strings.Join(now.Drop, ","), "")
	return list
}
