package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
)

// shownForms bounds how many forms of unreadable records are named.
const shownForms = 3

// Advice is what a sample suggests about the settings of its events. It is a proposal, a question that the sample does not
// answer, or why there is neither. It is empty if the settings in effect need no advice.
type Advice struct {
	Proposal *Proposal `json:"proposal,omitempty"`
	// Question is what a person has to decide. Choices are the settings for each answer. None of them is proposed.
	Question string     `json:"question,omitempty"`
	Choices  []Proposal `json:"choices,omitempty"`
	// Unproposed says why no settings are proposed, and what to do instead.
	Unproposed string `json:"unproposed,omitempty"`
}

// Proposal is a set of settings.
type Proposal struct {
	// Shape is what the events look like.
	Shape string `json:"shape"`
	// Settings are the settings that differ from the defaults, or from those in effect.
	Settings   []Setting  `json:"settings"`
	Confidence Confidence `json:"confidence"`
	// Because explains the confidence. Means is what choosing these settings means, if they are one of two choices.
	Because []string `json:"because,omitempty"`
	Means   string   `json:"means,omitempty"`
	// Loses is what of the events would be lost, or could not be used. Empty means that the sample shows no loss.
	Loses []string `json:"loses,omitempty"`
	// Measurements and Letters are the outcome of the events that were tried. Series is the number of series of the measurements.
	Measurements int `json:"measurements"`
	DeadLetters  int `json:"deadLetters"`
	Series       int `json:"series"`
	// Examples are measurements as they would be stored.
	Examples []Document `json:"examples"`

	inEffect bool
}

// Setting is a setting's name and value.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Line returns the settings in the form of a shell command line.
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
	*evidence
	kept      *kept
	current   measurement.Options
	bucketing bucketer.Options
	unfolded  bool // the evidence is of events that were found in texts or lists
}

// reading is what is known about the events: their form and their time.
type reading struct {
	form
	time timeChoice
}

// propose derives settings from the evidence. It determines the form of the events, then their time, and then what identifies
// their series. It does not consider the settings in effect.
func (p *proposer) propose() Advice {
	if _, known := measurement.DefaultPaths(p.encodings.format()); known && p.objects == 0 {
		return Advice{Unproposed: fmt.Sprintf("the records can be read with EVENT_FORMAT=%s, but have no measurements", p.encodings.format())}
	}
	if p.objects == 0 || p.encodings.odd*2 > p.encodings.records {
		return Advice{Unproposed: cmp.Or(strings.Join(p.strange(), "; "), "the records contain no JSON objects")}
	}
	p, f := p.unfold()
	if f.why != "" {
		return Advice{Unproposed: f.why}
	}
	r := reading{form: f}
	probe := p.kept.probe()
	r.time = r.timeOf(func(path, format string) float64 {
		o := withTime(r.options, path, format)
		o.MetaFrom, o.Fields, o.Drop = measurement.MetaFromNone, "", nil
		t, _ := p.try(o, probe)
		return share(t.good, t.good+t.bad)
	})
	if day, clock := r.view.parted(); r.time.read < mostly && day != "" && clock != "" {
		return Advice{Unproposed: fmt.Sprintf("the day is in %s and the time of day in %s, and no setting joins two fields: let the producer send one time, such as 2026-03-01T12:00:00Z", day, clock)}
	}
	a := p.named(&r)
	if first, _, several := strings.Cut(r.time.path, "|"); several {
		one := r
		one.time.path = first
		if b := p.named(&one); b.stored() >= a.stored() {
			return b // events with another time field have another identity as well
		}
	}
	return a
}

// stored returns how many of the events the best of the settings store.
func (a *Advice) stored() (n int) {
	if a.Proposal != nil {
		n = a.Proposal.Measurements
	}
	for _, c := range a.Choices {
		n = max(n, c.Measurements)
	}
	return n
}

// named determines what identifies the series of events whose form and time are known.
func (p *proposer) named(r *reading) Advice {
	options := withTime(r.options, r.time.path, r.time.format)
	named := r.namingOf(r.time.path, func(i identity) tally {
		t, _ := p.try(p.cleared(r.view, i.apply(options)), p.kept.list)
		return t
	})
	return p.decide(r, options, named)
}

// cleared returns options that drop fields with the name under which time or meta is stored, if half of the events have them.
func (p *proposer) cleared(v view, o measurement.Options) measurement.Options {
	o, _ = p.stored(o)
	area := view{evidence: p.evidence, root: areaOf(o)}
	for _, name := range []string{o.StoredTime, o.StoredMeta} {
		for _, l := range area.leaves() {
			if name == "" || !isIn(l.path, name) || strings.Contains(l.path, "[]") || l.seen*2 < v.n || !p.isField(o, l.field.path) || p.holdsTaken(o, l.field.path) {
				continue
			}
			path := strings.TrimPrefix(l.field.path, v.root)
			o.Drop = append(slices.Clone(o.Drop), strings.TrimPrefix(path, "."))
		}
	}
	return o
}

// holdsTaken reports whether a path leads to an object that contains the time or a part of meta.
func (p *proposer) holdsTaken(o measurement.Options, path string) bool {
	return slices.ContainsFunc(taken(o), func(of string) bool { return isIn(of, path) })
}

// decide makes a proposal or a question from the results.
func (p *proposer) decide(r *reading, options measurement.Options, named naming) Advice {
	list := named.choices
	if named.question == "" {
		list = []identity{named.found}
	}
	a := Advice{Question: named.question}
	for _, i := range list {
		if a.Question != "" {
			i.because = ""
		}
		if one, ok := p.proposal(r, p.cleared(r.view, i.apply(options)), i); ok {
			a.Choices = append(a.Choices, one)
		}
	}
	switch {
	case len(a.Choices) == 0:
		return Advice{Unproposed: cmp.Or(a.Question, "no settings were found with which the events can be stored")}
	case a.Question != "":
	case list[0].from == measurement.MetaFromKey && p.framed*2 > p.keyed && options.Framing == measurement.NoFraming && slices.ContainsFunc(a.Choices[0].Examples, isFramed):
		return Advice{Unproposed: "the keys name the series, but begin with the frame of a schema registry. The frame would be a part of the name, so each new schema would make new series. " +
			"Send the keys as texts without a frame, or send the name of the series in the value"}
	case r.time.twin != "":
		a.Question = fmt.Sprintf("the times in %s, such as %s, can be read in two ways, and the whole sample fits both", r.time.path, r.time.example)
		a.Choices[0].Means = "the first reading: " + r.time.format
		if other, ok := p.proposal(r, p.cleared(r.view, withTime(list[0].apply(options), r.time.path, r.time.twin)), list[0]); ok {
			other.Means = "the second: " + r.time.twin
			a.Choices = append(a.Choices, other)
		}
	case r.time.path == "" && r.time.unread != "":
		a.Question = fmt.Sprintf("%s looks like the time, for example %s, but no format that was tried for EVENT_TIME_FORMAT can read it", r.time.unread, r.time.example)
		a.Choices[0].Means = "the record's timestamp is stored instead; choose it if the producer cannot send another form"
	case a.Choices[0].Confidence == Low:
		a.Question = fmt.Sprintf("the events have several forms, and the best settings fit only %s of %s", count(a.Choices[0].Measurements), count(a.Choices[0].Measurements+a.Choices[0].DeadLetters))
		a.Choices[0].Means = "the other events become dead letters"
	default:
		return Advice{Proposal: &a.Choices[0]}
	}
	for i := range a.Choices {
		a.Choices[i].Confidence = Low
	}
	return a
}

// proposal returns the outcome of the events with some options. False means that they store nothing.
func (p *proposer) proposal(r *reading, o measurement.Options, i identity) (Proposal, bool) {
	if p.readsNumbers(o) {
		o.Numbers = measurement.NumbersInText
	}
	o.Fields = cmp.Or(o.Fields, p.onlyObject(o))
	tried := o
	if unknown := o.MetaFrom == measurement.MetaFromKey && !p.isLog; unknown {
		tried.MetaFrom = measurement.MetaFromNone
	}
	t, ok := p.try(tried, p.kept.list)
	if !ok || t.good == 0 {
		return Proposal{}, false
	}
	if tried.MetaFrom != o.MetaFrom {
		t.metas, t.examples = newDistinct(1), nil
	}
	one := Proposal{
		Shape: r.name + described(&o), Settings: p.settings(o), Confidence: cmp.Or(i.confidence, Low), Means: i.means,
		Measurements: t.good, DeadLetters: t.bad, Series: t.metas.values(), Examples: t.examples,
		Because: slices.DeleteFunc([]string{r.timeBecause(), r.tallBecause(i), i.because}, func(text string) bool { return text == "" }),
	}
	switch bad := share(t.bad, t.good+t.bad); {
	case bad >= mostly && len(r.parts) == 0: // other messages may lie between those of a known form
		one.Confidence = Low
	case one.Confidence == High && (bad > disagree || r.time.path == "" || r.time.read < nearly || lacksZone(r.time.format) || r.time.constant):
		one.Confidence = Medium
	}
	one.Loses, one.inEffect = p.loses(r, o, &t), p.isInEffect(o)
	return one, true
}

// isFramed reports whether a measurement contains the zero bytes of a frame.
func isFramed(example Document) bool { return strings.Contains(string(example), `\u0000\u0000`) }

// timeBecause explains why a field is the time.
func (r *reading) timeBecause() string {
	switch {
	case r.time.path == "":
		return "the time: no field holds a time"
	case r.time.read < nearly:
		return fmt.Sprintf("the time: %s can be read in %.0f %% of the events", strings.TrimPrefix(r.time.path, "/"), 100*r.time.read)
	}
	text := fmt.Sprintf("the time: %s can be read in all events", strings.TrimPrefix(r.time.path, "/"))
	if len(r.time.others) > 0 {
		text += ", and was preferred to " + some(r.time.others)
	}
	return text
}

// tallBecause explains, if each quantity has a series, how to have a field for each quantity instead. A person has to decide
// that.
func (r *reading) tallBecause(i identity) string {
	value := ""
	if r.options.Fields == "" {
		value = strings.Join(r.view.valueFields(), "|")
	}
	if strings.Contains(value, "|") {
		value = "'" + value + "'"
	}
	for _, part := range i.parts {
		f := r.view.field(part.path)
		isAspect := classOf(part.path) == aspect || in(quantityNames, plain(part.path))
		if value != "" && len(i.parts) > 1 && isAspect && f.texts == f.seen && !strings.ContainsAny(part.path, "./") {
			return fmt.Sprintf("the quantity: each value of %s is a series of its own; with EVENT_FIELD_NAME=%s EVENT_FIELD_VALUE=%s, the values are fields of one series", part.path, part.path, value)
		}
	}
	return ""
}

// described describes the parts of a measurement that some settings do not take from the events.
func described(o *measurement.Options) (text string) {
	switch o.Compression {
	case measurement.NoCompression, "":
	case measurement.AutoCompression:
		text = ", some of them compressed by their producer"
	default:
		text = ", compressed by their producer with " + string(o.Compression)
	}
	if o.TimeField == "" {
		text = ", with the record's timestamp as time"
	}
	switch o.MetaFrom {
	case measurement.MetaFromKey:
		text += ", with the record's key as series"
	case measurement.MetaFromNone:
		text += ", all of one series"
	}
	return text
}

// strange describes what records that are neither JSON nor BSON look like, and what to do. Records without a schema come first, and
// then the most frequent form.
func (p *proposer) strange() (list []string) {
	if n := p.encodings.noSchema; n > 0 {
		list = append(list, p.encodings.which(n)+" name schemas that the registry does not have: "+rightRegistry)
	}
	forms := slices.SortedFunc(maps.Keys(p.encodings.strange), func(a, b *measurement.Form) int {
		return cmp.Or(cmp.Compare(p.encodings.strange[b], p.encodings.strange[a]), strings.Compare(a.Many(), b.Many()))
	})
	for _, form := range forms[:min(len(forms), shownForms)] {
		list = append(list, fmt.Sprintf("%s %s: %s", p.encodings.which(p.encodings.strange[form]), form.Many(), form.WayOut))
	}
	return list
}

// which names n of the records.
func (e *encodings) which(n int) string {
	if n == e.records {
		return "the records"
	}
	return fmt.Sprintf("%s of %s", count(n), plural(e.records, "record"))
}

// base returns the current options with the sample's encoding, and no paths.
func (p *proposer) base() measurement.Options {
	o := absolute(p.current)
	o.Compression, o.Format, o.Framing = p.encodings.compression(), p.encodings.format(), p.encodings.framing()
	if o.Framing == measurement.NoFraming && p.framed*2 > p.keyed && (o.Format == measurement.JSON || o.Format == measurement.ExtJSON) {
		o.Framing = measurement.AutoFrame
	}
	o.Parse, o.List, o.FieldName, o.FieldValue, o.Rename, o.Numbers = nil, nil, "", "", nil, ""
	o.TimeField, o.TimeFormat, o.Root, o.Fields, o.Drop = "", "auto", "", "", nil
	o.MetaFrom, o.MetaField, o.MetaFields = measurement.MetaFromValue, "", nil
	return o
}

// isInEffect reports whether options read events in the same way as those in effect.
func (p *proposer) isInEffect(o measurement.Options) bool {
	return slices.Equal(allSettings(ordered(o)), allSettings(ordered(p.current)))
}

// ordered sorts the lists whose order does not matter.
func ordered(o measurement.Options) measurement.Options {
	o.MetaFields, o.Drop = slices.Sorted(slices.Values(o.MetaFields)), slices.Sorted(slices.Values(o.Drop))
	return o
}

// settings returns the options as settings, without those that are both the default and in effect.
func (p *proposer) settings(o measurement.Options) (list []Setting) {
	now, own := p.current, defaults(o)
	former := defaults(now)
	adopt := func(now *string, former, own string) { // The defaults of a format are not an operator's choice.
		if *now == former {
			*now = own
		}
	}
	adopt(&now.TimeField, former.TimeField, own.TimeField)
	adopt(&now.Fields, former.Fields, own.Fields)
	now.Framing = cmp.Or(now.Framing, measurement.NoFraming)
	if now.Framing == former.Framing {
		now.Framing = own.Framing
	}
	if !slices.Equal(own.MetaFields, former.MetaFields) && slices.Equal(now.MetaFields, former.MetaFields) && (now.MetaField == "" || now.MetaField == "meta") {
		now.MetaFields, now.MetaField = own.MetaFields, ""
	}
	switch {
	case o.MetaField != "":
		own.MetaField = "meta"
	case now.MetaField == "meta":
		now.MetaField = ""
	}
	current, fallback := allSettings(now), allSettings(own)
	for i, s := range allSettings(o) {
		if s != current[i] || s != fallback[i] {
			list = append(list, s)
		}
	}
	return list
}

// defaults returns the default options for the format and the schemas of some options.
func defaults(o measurement.Options) measurement.Options {
	own, known := measurement.DefaultPaths(o.Format)
	if !known {
		own = measurement.Options{TimeField: "time"}
	}
	own.Framing = measurement.NoFraming
	if o.NeedsRegistry() {
		own.Framing = measurement.Confluent
	}
	return own
}

// allSettings returns all settings of the advice with the values in some options.
func allSettings(o measurement.Options) []Setting {
	list := func(values []string) string { return strings.Join(values, ",") }
	return []Setting{
		{"EVENT_FORMAT", string(cmp.Or(o.Format, measurement.JSON))},
		{"EVENT_COMPRESSION", string(cmp.Or(o.Compression, measurement.NoCompression))},
		{"EVENT_FRAMING", string(cmp.Or(o.Framing, measurement.NoFraming))},
		{"EVENT_PARSE", list(o.Parse)},
		{"EVENT_LIST", list(o.List)},
		{"EVENT_SKIP", list(o.Skip)},
		{"EVENT_FIELD_NAME", o.FieldName},
		{"EVENT_FIELD_VALUE", o.FieldValue},
		{"EVENT_RENAME", list(o.Rename)},
		{"EVENT_ROOT", o.Root},
		{"EVENT_TIME_FIELD", o.TimeField},
		{"EVENT_TIME_FORMAT", cmp.Or(o.TimeFormat, "auto")},
		{"EVENT_META_FROM", string(cmp.Or(o.MetaFrom, measurement.MetaFromValue))},
		{"EVENT_META_FIELD", o.MetaField},
		{"EVENT_META_FIELDS", list(o.MetaFields)},
		{"EVENT_FIELDS", o.Fields},
		{"EVENT_DROP", list(o.Drop)},
		{"EVENT_NUMBERS", string(cmp.Or(o.Numbers, measurement.NumbersInJSON))},
	}
}
