package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"waterwheel/internal/measurement"
)

// unnamed determines what identifies the series if no field name suggests a thing. It tries the key, a field that divides the
// events as the key does, and an id whose values repeat. Otherwise it asks a question.
func (n *namer) unnamed() naming {
	if n.keysReturn() {
		return n.byKey()
	}
	var back, unsure []candidate
	for _, c := range n.ids() {
		if c.back >= mostly {
			back = append(back, c)
		} else {
			unsure = append(unsure, c)
		}
	}
	var parts []metaPart
	if len(back) > 0 {
		parts, _ = n.extend(n.join(nil, back...))
	}
	rest := n.rest(parts)
	switch {
	case len(unsure) > 0 && (len(back) == 0 || n.view.n < fewEvents):
		return n.askFleeting(unsure, rest)
	case rest == nil:
		return n.nothing()
	case len(back) == 0:
		if c, ok := n.finest(); ok {
			return n.askOther(c, *rest)
		}
	}
	return naming{found: n.judged(*rest, n.count(*rest))}
}

// ids returns the fields called id or the like, and those that end like an identifier.
func (n *namer) ids() []candidate {
	return n.where(func(c candidate) bool {
		return c.class == named || c.class == weak && (c.texts > 0 || in("id uid", plain(c.path)))
	})
}

// fleetingThings returns the fields whose names suggest things, but whose values do not repeat.
func (n *namer) fleetingThings() []candidate {
	return n.where(func(c candidate) bool { return (c.class == thing || c.class == carrier) && c.fleeting() && !c.isKey() })
}

// rest returns the identity of some parts, or else of locations and quantities. Nil means that there are none.
func (n *namer) rest(parts []metaPart) *identity {
	if len(parts) == 0 {
		parts = n.join(nil, n.of(carrier, location, aspect)...)
	}
	if len(parts) == 0 {
		return nil
	}
	i := n.made(parts)
	return &i
}

// byKey proposes repeated keys, or a field with the same information.
func (n *namer) byKey() naming {
	for _, list := range [][]candidate{n.all, n.other} {
		for _, c := range list {
			if !c.fleeting() && c.isKey() && (n.view.n < fewEvents || c.partsAsKey()) {
				parts, _ := n.extend(n.join(nil, c))
				i := n.made(parts)
				return n.compareKeys(n.judged(i, n.count(i)), n.count(i))
			}
		}
	}
	if rest := n.rest(nil); rest != nil {
		return n.compareKeys(n.judged(*rest, n.count(*rest)), n.count(*rest))
	}
	return naming{found: n.key()}
}

// askFleeting asks whether fields whose values do not repeat identify things or events.
func (n *namer) askFleeting(list []candidate, rest *identity) naming {
	without := n.none()
	if rest != nil {
		without = *rest
	} else if n.view.isLog && n.view.keyed == n.view.records && !list[0].isKey() {
		without = n.key()
	}
	with := n.made(append(n.join(nil, list...), without.all()...))
	var paths []string
	for _, c := range list {
		paths = append(paths, c.path)
	}
	name, t := strings.Join(paths, " and "), n.count(with)
	with.means = fmt.Sprintf("%s series in %s events; choose it if %s names the measured thing, and recurs", count(t.metas.values()), count(t.good), name)
	without.means = fmt.Sprintf("without %s in meta; choose it if %s names the event, and never recurs", name, name)
	if without.from == measurement.MetaFromNone {
		without.means += ": then all events are one series"
	}
	question := fmt.Sprintf("%s differs in each of %s events: it may name the measured thing, or the event", name, count(n.view.n))
	switch {
	case n.view.n == 1:
		question = fmt.Sprintf("one event does not show whether %s names the measured thing, or the event", name)
	case list[0].back > 0:
		question = fmt.Sprintf("values of %s recur in few of %s events: it may name the measured thing, or the event", name, count(n.view.n))
	}
	return naming{question: question, choices: []identity{with, without}}
}

func (n *namer) none() identity {
	return identity{from: measurement.MetaFromNone, confidence: Medium, because: "nothing in the events and no key names a series"}
}

// nothing returns the naming of events without a suggestive field name or repeated keys.
func (n *namer) nothing() naming {
	none, key := n.none(), n.key()
	none.means = "all events are one series, and the key is lost"
	key.means = "each key is a series; choose it if the keys of the records name the measured things"
	switch header := n.view.header(); {
	case !n.view.isLog:
		none.means = "all events are one series; choose it if there is one source only"
		if c, ok := n.finest(); ok {
			asked := n.askOther(c, none)
			return naming{question: asked.question + "; the records' keys are not known here", choices: []identity{asked.choices[0], key}}
		}
		return naming{question: "no field names the measured thing, and the records' keys are not known here", choices: []identity{key, none}}
	case n.view.keyed == n.view.records && n.view.keyed < fewEvents && n.view.random == 0:
		key.confidence, key.because = Medium, fmt.Sprintf("no field names the measured thing, and each of %s records has a key", count(n.view.records))
		return naming{found: key}
	case n.view.keyed*2 > n.view.records:
		return naming{question: fmt.Sprintf("no field names the measured thing, and keys do not recur in %s", plural(n.view.records, "record")), choices: []identity{key, none}}
	case header != "":
		i := identity{from: measurement.MetaFromValue, parts: []metaPart{{lastName(header), "header:" + header}}}
		return naming{found: n.judged(i, n.count(i))}
	}
	if c, ok := n.finest(); ok {
		return n.askOther(c, none)
	}
	return naming{found: none}
}

// finest returns the field with the most values among those that may be names but are not named so. False means that there is
// none.
func (n *namer) finest() (best candidate, ok bool) {
	for _, c := range n.other {
		if n.view.n >= fewEvents && c.mayName() && (!ok || c.values.values() > best.values.values()) {
			best, ok = c, true
		}
	}
	return best, ok
}

// mayName reports whether the values of a field may be names: several short texts, or numbers that repeat often.
func (c candidate) mayName() bool {
	switch several := c.values.values() > 1; {
	case !several:
		return false
	case c.numbers > 0:
		return c.back >= mostly && c.values.values()*2 <= c.seen
	}
	return len(c.text.text) <= 40 && !strings.Contains(c.text.text, " ") && !looksRandom(c.text.text)
}

// askOther asks whether a field identifies a series. Its name says nothing, but its values repeat.
func (n *namer) askOther(c candidate, without identity) naming {
	with := n.made(append(n.join(nil, c), without.all()...))
	with.means = fmt.Sprintf("%s series; choose it if %s names the measured thing", count(n.count(with).metas.values()), c.path)
	without.means = fmt.Sprintf("%s series; %s stays a field", count(n.count(without).metas.values()), c.path)
	return naming{question: fmt.Sprintf("no field has a name that is typical for the measured thing, but %s may name it", c.path), choices: []identity{with, without}}
}

// header returns a header with several values that repeat. Empty means that there is none.
func (v view) header() string {
	for _, name := range slices.Sorted(maps.Keys(v.headers)) {
		values := v.headers[name]
		if values.seen*2 > v.records && values.values() > 1 && values.returning() >= mostly {
			return name
		}
	}
	return ""
}

// keysReturn reports whether most records have a key, and keys repeat.
func (n *namer) keysReturn() bool {
	v, back := n.view, n.view.keys.returning()
	return !n.rowKeys && v.keyed*4 >= v.records*3 && v.keyed > 1 && (back >= comesBack || v.keyed < fewEvents && back > 0)
}

// compareKeys compares an identity with the records' keys, which usually are the identity.
func (n *namer) compareKeys(found identity, t tally) naming {
	if !n.keysReturn() {
		return naming{found: found}
	}
	byMeta, _ := t.metas.mixing()
	byKey, _ := t.keys.mixing()
	switch {
	case byMeta < disagree:
		if byKey < disagree && t.good >= fewEvents {
			found.because += ", and each value has one key"
			if t.metas.values() > 1 {
				found.confidence = High
			}
		}
		return naming{found: found}
	case byKey < disagree:
		return n.finerKey(found, t)
	}
	key := n.key()
	found.means = fmt.Sprintf("%s series; the key is not stored", count(t.metas.values()))
	key.means = fmt.Sprintf("%s series; %s stays a field", count(n.view.keys.values()), found)
	return naming{
		question: fmt.Sprintf("one key occurs with several values of %s, and one %s with several keys", found, found), choices: []identity{found, key},
	}
}

// finerKey proposes a field that divides the events as their keys do, or the key itself.
func (n *namer) finerKey(coarse identity, t tally) naming {
	for _, c := range append(slices.Clone(n.all), n.other...) {
		if c.partsAsKey() {
			i := identity{from: measurement.MetaFromValue, parts: n.join(slices.Clone(coarse.all()), c)}
			return naming{found: n.judged(i, n.count(i))}
		}
	}
	key := n.key()
	key.because = fmt.Sprintf("the key: it has %s recurring values, but %s has %s", count(n.view.keys.values()), coarse, count(t.metas.values()))
	return naming{found: key}
}

func (n *namer) key() identity {
	i := identity{from: measurement.MetaFromKey, confidence: High, because: fmt.Sprintf("the key: %s; keys recur", plural(n.view.keys.values(), "value"))}
	if n.view.records < fewEvents || n.view.keys.returning() < mostly {
		i.confidence = Medium
	}
	return i
}
