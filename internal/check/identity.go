package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"waterwheel/internal/measurement"
)

const (
	// fewEvents is the number of events below which unrepeated values say little.
	fewEvents = 20
	// comesBack is the share of events with a repeated value from which values count as repeated. Producers send some events
	// twice, so a few repeated values say nothing.
	comesBack = 0.02
	// mostly is the share from which values repeat beyond doubt.
	mostly = 0.5
	// disagree is the share of values from which two fields, or a field and the key, divide the events in different ways.
	disagree = 0.1
)

// Confidence is how well the sample supports a proposal.
type Confidence string

// These are the confidences. A candidate of low confidence is not proposed, but shown as one of two choices.
const (
	High   Confidence = "high"
	Medium Confidence = "medium"
	Low    Confidence = "low"
)

// metaPart is a part of meta.
type metaPart struct{ name, path string }

// String returns the part in the notation of EVENT_META_FIELDS.
func (m metaPart) String() string {
	if lastName(m.path) == m.name {
		return m.path
	}
	return m.name + "=" + m.path
}

// identity is a candidate for what identifies the series: the key, one object, some parts, or nothing.
type identity struct {
	from  measurement.MetaSource
	group string
	parts []metaPart

	confidence Confidence
	because    string
	means      string // its meaning as one of two choices
}

// all returns the parts, or the one object as a part.
func (i identity) all() []metaPart {
	if i.group != "" {
		return []metaPart{{lastName(i.group), i.group}}
	}
	return i.parts
}

// apply sets an identity in options.
func (i identity) apply(o measurement.Options) measurement.Options {
	o.MetaFrom, o.MetaField, o.MetaFields = i.from, i.group, nil
	for _, part := range i.parts {
		o.MetaFields = append(o.MetaFields, part.String())
	}
	return o
}

// String describes an identity for people.
func (i identity) String() string {
	switch {
	case i.from == measurement.MetaFromKey:
		return "the key"
	case i.from == measurement.MetaFromNone:
		return "nothing"
	case i.group != "":
		return i.group
	}
	var list []string
	for _, part := range i.parts {
		list = append(list, strings.TrimPrefix(part.path, "/"))
	}
	return strings.Join(list, " and ")
}

// naming is the result for what identifies the series: one identity, or a question with two choices.
type naming struct {
	found    identity
	question string
	choices  []identity
}

// candidate is a field that may be a part of meta.
type candidate struct {
	leaf
	class class
	back  float64 // share of its occurrences whose value occurred more than once
	// mustSplit means that its name is not enough: it is a part of meta only if it divides the series.
	mustSplit bool
}

// fleeting reports whether values do not repeat although there are enough events.
func (c candidate) fleeting() bool { return c.values.seen >= fewEvents && c.back < comesBack }

// isKey reports whether a field has the text of the record's key, or of one of the key's members.
func (c candidate) isKey() bool { return c.equalsKey*20 >= c.seen*19 }

// partsAsKey reports whether a field divides the events as repeated keys do.
func (c candidate) partsAsKey() bool {
	byValue, tested := c.values.mixing()
	byKey, also := c.byKey.mixing()
	return tested && also && byValue < comesBack && byKey < comesBack && c.values.values() > 1 && c.byKey.seen*10 >= c.values.seen*9
}

// namer determines what identifies the series of a form's events.
type namer struct {
	form
	time  string // path of the time
	count func(identity) tally
	all   []candidate
	other []candidate // fields whose names say nothing
	sets  []string    // objects that identify a series
}

// namingOf determines what identifies the series of a form's events. count returns how an identity divides the events.
func (f form) namingOf(time string, count func(identity) tally) naming {
	n := namer{form: f, time: time, count: count}
	n.collect()
	if len(f.parts) > 0 || f.group != "" {
		return naming{found: n.fixed()}
	}
	parts := n.named()
	if fleeting := n.fleetingThings(); len(fleeting) > 0 {
		return n.askFleeting(fleeting, n.rest(parts))
	}
	if len(parts) > 0 {
		return n.compose(parts)
	}
	return n.unnamed()
}

// collect classifies each field.
func (n *namer) collect() {
	leaves := n.view.leaves()
	n.sets = n.view.sets(leaves, n.time)
	for _, l := range leaves {
		inSet := slices.ContainsFunc(n.sets, func(set string) bool { return l.path == set || strings.HasPrefix(l.path, set+".") })
		if inSet || !n.eligible(l) {
			continue
		}
		c := candidate{leaf: l, class: classOf(l.path), back: l.values.returning()}
		switch {
		case l.texts == 0:
		case c.class == unnamed && n.inGroup(l.path):
			c.class = aspect
		case n.namesValue(c):
			c.class, c.mustSplit = aspect, len(plain(l.path)) == 1 || !n.view.has("value", anything) && !n.view.has("val", anything)
		}
		_, identified := headOf(wordsOf(lastName(l.path)))
		switch {
		case c.class == passing || c.class == state:
		case c.class == unnamed:
			if timeRank(l) == 0 && l.inNumbers()+l.documents+l.encoded == 0 && !in(quantityWords, headWord(l.path)) && !in(answerWords, strings.ToLower(l.text.text)) {
				n.other = append(n.other, c)
			}
		case l.numbers > 0 && (c.class == location && !identified || c.class == aspect && !in(countedWords, headWord(l.path))):
		case timeRank(l) > 0 && timeRank(l) < otherTime:
		default:
			n.all = append(n.all, c)
		}
	}
}

// namesValue reports whether a field says which quantity an event is about. The value is then in a field with a usual name.
func (n *namer) namesValue(c candidate) bool {
	return in(quantityNames, plain(c.path)) && !strings.Contains(c.path, ".") && len(n.view.valueFields()) > 0 &&
		!c.isConstant() && (c.back >= mostly || n.view.n < fewEvents)
}

// valueFields returns the field that usually has the value of one quantity, or one such field for each type of value. Nil means
// that the events have none.
func (v view) valueFields() (paths []string) {
	top := v.names()
	for _, name := range strings.Fields(valueNames) {
		for _, path := range top {
			if plain(path) == name && v.has(path, anything) && (in(surelyValue, name) || v.isOnlyNumber(path)) {
				return []string{path}
			}
		}
	}
	sum := 0
	for _, name := range strings.Fields(typedNames) {
		if f := v.field(name); f.seen > f.nulls {
			paths, sum = append(paths, name), sum+f.seen-f.nulls
		}
	}
	if sum > v.n || sum*10 < v.n*9 || !v.isOnlyNumber(paths...) {
		return nil
	}
	return paths
}

// isOnlyNumber reports whether the values of an event are in these fields alone. Beside other measured numbers, v is a voltage or a
// speed rather than the value.
func (v view) isOnlyNumber(paths ...string) bool {
	for _, l := range v.leaves() {
		class := classOf(l.path)
		switch of, _, _ := strings.Cut(l.path, "."); {
		case slices.Contains(paths, l.path):
		case slices.Contains(paths, of), l.numbers > 0 && timeRank(l) == 0 && (class == unnamed || class == location):
			return false
		}
	}
	return true
}

// inGroup reports whether a field lies in an object that is named like a group that identifies a series, although its members
// change.
func (n *namer) inGroup(path string) bool {
	of := path[:max(0, strings.LastIndexByte(path, '.'))]
	return of != "" && !strings.Contains(of, ".") && in(groupWords, plain(of))
}

// eligible reports whether a field may be a part of meta at all. Half of the events must have it, as a text or a whole number.
func (n *namer) eligible(l leaf) bool {
	return !strings.Contains(l.path, "[]") && strings.Count(l.path, ".") < 4 && settable(l.path) && !slices.Contains(strings.Split(n.time, "|"), l.path) &&
		l.values != nil && l.fractions == 0 && l.texts+l.numbers+l.nulls == l.seen && (l.texts+l.numbers)*2 >= n.view.n && !slices.Contains(n.options.Drop, l.path)
}

// sets returns the objects that identify a series by themselves, as tags do. It omits an object with changing values, whose
// members count instead.
func (v view) sets(leaves []leaf, time string) (list []string) {
	for _, l := range leaves {
		if l.objects != l.seen || l.seen*2 < v.n || !in(groupWords, plain(l.path)) || strings.Count(l.path, ".") > 1 || strings.HasPrefix(time, l.path+".") || !settable(l.path) {
			continue
		}
		if slices.ContainsFunc(list, func(set string) bool { return strings.HasPrefix(l.path, set+".") }) {
			continue
		}
		changes := func(inner leaf) bool {
			c := candidate{leaf: inner}
			if inner.values != nil {
				c.back = inner.values.returning()
			}
			return strings.HasPrefix(inner.path, l.path+".") && (inner.fractions > 0 || inner.lists > 0 || inner.values != nil && c.fleeting() && !c.isKey())
		}
		if !slices.ContainsFunc(leaves, changes) {
			list = append(list, l.path)
		}
	}
	return list
}

// where returns the candidates for which a condition holds.
func (n *namer) where(holds func(candidate) bool) (list []candidate) {
	for _, c := range n.all {
		if holds(c) {
			list = append(list, c)
		}
	}
	return list
}

// of returns the candidates of some classes whose values repeat, the shallow ones first.
func (n *namer) of(classes ...class) []candidate {
	list := n.where(func(c candidate) bool { return slices.Contains(classes, c.class) && (!c.fleeting() || c.isKey()) })
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(strings.Count(a.path, "."), strings.Count(b.path, ".")), strings.Compare(a.path, b.path))
	})
	return list
}

// fixed returns the identity of a known form.
func (n *namer) fixed() identity {
	i := identity{from: measurement.MetaFromValue, group: n.group, parts: n.parts, confidence: High}
	if n.within {
		i.parts = n.join(slices.Clone(n.parts), n.of(thing)...)
	}
	i.because = i.String() + ": " + n.name + " name their series in this way"
	if t := n.count(i); t.good >= fewEvents && t.metas.returning() < comesBack {
		i.confidence, i.because = Medium, i.because+", but no series occurs twice in this sample"
	}
	return i
}

// join appends candidates to parts. Each gets a unique name.
func (n *namer) join(parts []metaPart, list ...candidate) []metaPart {
	for _, c := range list {
		part := metaPart{lastName(c.path), c.path}
		if slices.ContainsFunc(parts, func(other metaPart) bool { return other.name == part.name }) {
			names := strings.Split(c.path, ".")
			part.name = strings.Join(names[max(0, len(names)-2):], "_")
		}
		parts = append(parts, part)
	}
	return parts
}

// named returns the parts that the names of fields suggest: the things, or else their carriers, or else the sets, or else an
// identifier.
func (n *namer) named() (parts []metaPart) {
	for _, set := range n.sets {
		parts = append(parts, metaPart{lastName(set), set})
	}
	if list := n.of(thing); len(list) > 0 {
		return n.join(parts, list...)
	}
	if list := n.of(carrier); len(list) > 0 && !(n.view.n >= fewEvents && allConstant(list)) {
		return n.join(parts, list...)
	}
	if len(parts) > 0 {
		return parts
	}
	if list := n.of(named); len(list) > 0 {
		return n.join(nil, slices.MaxFunc(list, func(a, b candidate) int { return cmp.Compare(a.values.values(), b.values.values()) }))
	}
	return nil
}

// allConstant reports whether each field has only one value in all events, so that the fields distinguish nothing.
func allConstant(list []candidate) bool {
	return !slices.ContainsFunc(list, func(c candidate) bool { return !c.isConstant() })
}

// made returns the identity of parts. A single set becomes meta itself.
func (n *namer) made(parts []metaPart) identity {
	i := identity{from: measurement.MetaFromValue, parts: parts}
	if len(parts) == 1 && slices.Contains(n.sets, parts[0].path) {
		i.group, i.parts = parts[0].path, nil
	}
	return i
}

// compose adds to parts what belongs to the same things: their locations, and the quantity that an event is about. If fields
// divide the events further, that is a question, unless the keys answer it.
func (n *namer) compose(parts []metaPart) naming {
	parts, split := n.extend(parts)
	found := n.made(parts)
	t := n.count(found)
	if len(split) > 0 {
		finer := n.made(n.join(slices.Clone(parts), split...))
		finerTally := n.count(finer)
		switch agrees := n.keysReturn(); {
		case agrees && t.asKeys():
		case agrees && finerTally.asKeys():
			found, t = finer, finerTally
		default:
			return n.askFiner(found, t, finer, finerTally)
		}
	}
	return n.compareKeys(n.judged(found, t), t)
}

// extend adds to parts the fields that do not divide the series further, and those of quantities. split are fields that would
// divide the series further.
func (n *namer) extend(parts []metaPart) (all []metaPart, split []candidate) {
	has := func(c candidate) bool {
		return slices.ContainsFunc(parts, func(p metaPart) bool { return p.path == c.path })
	}
	before := n.count(n.made(parts)).metas.values()
	byID := len(parts) == 1 && classOf(parts[0].path) == named // then other ids count as much
	for _, c := range n.of(carrier, location, named, aspect) {
		if has(c) {
			continue
		}
		more := n.join(slices.Clone(parts), c)
		t := n.count(n.made(more))
		after := t.metas.values()
		switch splits := float64(after) > float64(before)*(1+disagree/2); {
		case c.mustSplit && !splits:
		case c.class == aspect && t.good >= fewEvents && t.metas.returning() < comesBack: // it is in no more than one event
		case !splits || c.class == aspect || n.view.n < fewEvents && c.class != named:
			parts, before = more, after
		case c.class != named || byID:
			split = append(split, c)
		}
	}
	slices.SortStableFunc(parts, func(a, b metaPart) int { return cmp.Compare(strings.Count(a.path, "."), strings.Count(b.path, ".")) })
	return parts, split
}

// judged adds to an identity how well the sample supports it.
func (n *namer) judged(i identity, t tally) identity {
	back := t.metas.returning()
	switch {
	case t.good < fewEvents:
		i.confidence, i.because = Medium, fmt.Sprintf("%s: chosen by its name; %s cannot show whether values recur", i, plural(t.good, "event"))
	case back >= mostly:
		i.confidence, i.because = High, fmt.Sprintf("%s: %s in %s events; values recur", i, plural(t.metas.values(), "value"), count(t.good))
	case back >= comesBack:
		i.confidence, i.because = Medium, fmt.Sprintf("%s: %s in %s events; some values recur", i, plural(t.metas.values(), "value"), count(t.good))
	default:
		i.confidence, i.because = Medium, fmt.Sprintf("%s: chosen by its name; no value recurs in %s events", i, count(t.good))
	}
	return i
}

// askFiner asks whether some fields belong to the identity.
func (n *namer) askFiner(coarse identity, t tally, fine identity, tf tally) naming {
	coarse.means = fmt.Sprintf("%s series; choose it if the same %s may have another %s later, for example when things move", count(t.metas.values()), coarse, extra(coarse, fine))
	fine.means = fmt.Sprintf("%s series; choose it if the same %s with another %s is a different thing", count(tf.metas.values()), coarse, extra(coarse, fine))
	return naming{
		question: fmt.Sprintf("one %s occurs with several values of %s", coarse, extra(coarse, fine)), choices: []identity{coarse, fine},
	}
}

// extra names the parts that fine has and coarse does not.
func extra(coarse, fine identity) string {
	var list []string
	for _, part := range fine.parts {
		if part.path != coarse.group && !slices.Contains(coarse.parts, part) {
			list = append(list, part.path)
		}
	}
	return strings.Join(list, " and ")
}
