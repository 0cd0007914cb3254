package check

import (
	"fmt"
	"slices"

	"waterwheel/internal/measurement"
)

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
			i := identity{from: measurement.MetaFromValue, parts: n.join(slices.Clone(coarse.parts), c)}
			if coarse.group != "" {
				i.parts = n.join([]metaPart{{lastName(coarse.group), coarse.group}}, c)
			}
			return naming{found: n.judged(i, n.count(i))}
		}
	}
	key := n.key()
	if n.view.records < fewEvents || n.view.keys.returning() < mostly {
		key.confidence = Medium
	}
	key.because = fmt.Sprintf("the key: it has %s recurring values, but %s has %s", count(n.view.keys.values()), coarse, count(t.metas.values()))
	return naming{found: key}
}

func (n *namer) key() identity {
	return identity{from: measurement.MetaFromKey, confidence: High, because: fmt.Sprintf("the key: %s; keys recur", plural(n.view.keys.values(), "value"))}
}
