package check

import (
	"cmp"
	"slices"
	"strings"

	"waterwheel/measurement"
)

// What the identity of a series is made of is called so. What differs with every event is not.
const (
	groupNames = "tags labels meta metadata dimensions"
	idNames    = "id device sensor host hostname name site location station machine node source room region zone building floor " +
		"plant line asset meter gateway serial serialnumber mac imei vin symbol exchange channel customer tenant cluster namespace pod " +
		"container service instance job metric vehicle equipment well turbine inverter street city"
	passingNames = "event message msg request trace span session transaction trade order correlation record row sequence seq batch"
)

// judgedValues is from how many events on the number of different values says something of a field.
const judgedValues = 10

// metaPart is a part that meta may have.
type metaPart struct{ name, path string }

// String is the part as EVENT_META_FIELDS has it.
func (m metaPart) String() string {
	if lastName(m.path) == m.name {
		return m.path
	}
	return m.name + "=" + m.path
}

// describeMeta sets meta in the options as the objects suggest it, leaving the time out.
func (p *proposer) describeMeta(o *measurement.Options, list []object) {
	o.MetaFrom, o.MetaField, o.MetaFields = measurement.MetaFromValue, "", nil
	parts, group := partsOf(list, o.TimeField)
	if others := slices.DeleteFunc(slices.Clone(parts), func(m metaPart) bool { return m.path == p.without }); len(others) > 0 {
		parts = others
	}
	switch {
	case len(parts) == 1 && group:
		o.MetaField = parts[0].path
	case len(parts) > 0:
		o.MetaFields = settings(parts)
	case p.keys == len(p.records):
		o.MetaFrom = measurement.MetaFromKey
	default:
		o.MetaFrom = measurement.MetaFromNone
	}
}

// settings are parts as EVENT_META_FIELDS has them.
func settings(parts []metaPart) (list []string) {
	for _, part := range parts {
		list = append(list, part.String())
	}
	return list
}

// partsOf are the fields that seem to name a series. Group: the first is an object that does so by itself.
func partsOf(list []object, without string) (parts []metaPart, group bool) {
	var steady, passing []*leaf
	var groups []string
	for _, l := range leavesOf(list, 2) {
		if l.path == without || slices.ContainsFunc(groups, func(g string) bool { return strings.HasPrefix(l.path, g+".") }) {
			continue
		}
		switch {
		case l.objects == l.seen && in(groupNames, plain(l.path)) && !strings.HasPrefix(without, l.path+"."):
			groups = append(groups, l.path)
			steady = append(steady, l)
		case !isID(l) || l.seen*2 < len(list):
		case len(list) >= judgedValues && len(l.values)*2 > len(list):
			passing = append(passing, l)
		default:
			steady = append(steady, l)
		}
	}
	if len(steady) == 0 {
		steady = passing
	}
	slices.SortStableFunc(steady, func(a, b *leaf) int { return cmp.Compare(strings.Count(a.path, "."), strings.Count(b.path, ".")) })
	for _, l := range steady {
		part := metaPart{lastName(l.path), l.path}
		if slices.ContainsFunc(parts, func(other metaPart) bool { return other.name == part.name }) {
			part.name = strings.ReplaceAll(l.path, ".", "_")
		}
		parts = append(parts, part)
	}
	return parts, len(groups) > 0
}

// isID tells whether a field's name says that it names something that lasts.
func isID(l *leaf) bool {
	if l.texts+l.numbers < l.seen {
		return false
	}
	name := plain(l.path)
	if in(idNames, name) && (l.texts == l.seen || name == "id") {
		return true
	}
	of, isID := strings.CutSuffix(name, "id")
	return isID && name != "" && !in(passingNames, of) && of != "uu" && of != "gu" && (strings.HasSuffix(l.path, "_id") || strings.HasSuffix(l.path, "Id") || strings.HasSuffix(l.path, "ID") || in(idNames, of))
}
