package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"waterwheel/internal/measurement"
)

// listedNames bounds how many names are listed.
const listedNames = 5

// loses returns what of the events would be lost with some settings, or could not be used afterwards.
func (p *proposer) loses(r *reading, o measurement.Options, t *tally) (list []string) {
	if t.bad > 0 {
		list = append(list, fmt.Sprintf("%s of %s, which would be dead letters: %s", count(t.bad), plural(t.good+t.bad, "event"), t.reason))
	}
	list = append(list, p.strange()...)
	if o.TimeField == "" {
		unread := ""
		if r.time.unread != "" {
			unread = r.time.unread + " cannot be read, and "
		}
		list = append(list, "the time of measurement: "+unread+"the record's time is stored")
	}
	if r.time.twin != "" {
		list = append(list, fmt.Sprintf("the right day, if day and month are in the other order (%s, or %s)", r.time.format, r.time.twin))
	}
	if lacksZone(o.TimeFormat) && o.TimeZone == "" {
		list = append(list, "the right hour, if the times are local times: they have no time zone, and are read as UTC without EVENT_TIME_ZONE"+zoneHint(p.isLog, t.offsets))
	}
	if r.time.path != "" && r.time.field.fine > 0 && o.TimeExact == "" {
		list = append(list, "the digits of the time below the millisecond, which EVENT_TIME_EXACT=ns keeps")
	}
	if text := p.losesKey(o, t); text != "" {
		list = append(list, text)
	}
	headers := slices.DeleteFunc(slices.Sorted(maps.Keys(p.headers)), func(name string) bool {
		return o.NeedsRegistry() && measurement.NamesSchema(name) || slices.ContainsFunc(o.MetaFields, func(part string) bool { return strings.HasSuffix(part, "header:"+name) })
	})
	if len(headers) > 0 {
		list = append(list, "the records' headers: "+some(headers))
	}
	if outside := p.outside(o); len(outside) > 0 {
		list = append(list, "the fields outside of "+strings.TrimPrefix(areaOf(o), "/")+": "+some(outside))
	}
	if len(o.Drop) > 0 {
		list = append(list, "the dropped fields: "+some(o.Drop)+p.keeps(o))
	}
	for _, note := range p.notes(o) {
		list = append(list, note.loss+": it "+note.is)
	}
	return list
}

// keeps says how to keep a field that is dropped because of its name.
func (p *proposer) keeps(o measurement.Options) string {
	for name, setting := range map[string]string{o.StoredTime: "MONGODB_TIME_FIELD", o.StoredMeta: "MONGODB_META_FIELD"} {
		if name != "" && slices.ContainsFunc(o.Drop, func(path string) bool { return isIn(path, name) }) {
			return ", because a stored field cannot have the name " + name + ": set another " + setting + " to keep it"
		}
	}
	return ""
}

// zoneHint adds that times are as far from their records' times as local times would be.
func zoneHint(isLog bool, offsets []int64) string {
	if zone, ok := zoneOf(offsets); ok && isLog {
		return fmt.Sprintf(". They differ by about %s from the timestamps of their records, as local times would", zone)
	}
	return ""
}

// zoneOf returns the distance of times from their records' timestamps, if it may be the offset of a zone from UTC.
func zoneOf(offsets []int64) (time.Duration, bool) {
	if len(offsets) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(offsets))
	middle := time.Duration(sorted[len(sorted)/2]) * time.Millisecond
	zone := middle.Round(15 * time.Minute)
	return zone, zone != 0 && (middle-zone).Abs() <= time.Minute && zone.Abs() <= 14*time.Hour
}

// losesKey says that the records' keys are not stored, if no stored field has the same information.
func (p *proposer) losesKey(o measurement.Options, t *tally) string {
	if o.MetaFrom == measurement.MetaFromKey || p.keyed*2 < p.records || p.keys.values() < 2 || t.asKeys() {
		return ""
	}
	for _, f := range p.fields {
		if f.equalsKey*20 >= f.seen*19 && f.seen*2 >= p.objects && p.isStored(o, f.path) {
			return ""
		}
	}
	return fmt.Sprintf("the records' keys (%s different ones): no field has the same values", count(p.keys.values()))
}

// areaOf returns the absolute path of the object whose members are stored.
func areaOf(o measurement.Options) string {
	switch "" {
	case o.Fields:
		return o.Root
	case o.Root:
		return o.Fields
	}
	return o.Root + "." + o.Fields
}

// taken returns the absolute paths of time and meta.
func taken(o measurement.Options) (list []string) {
	add := func(path string) {
		switch whole, ok := strings.CutPrefix(path, "/"); {
		case path == "" || strings.HasPrefix(path, "header:") || strings.HasPrefix(path, "key:"):
		case ok || o.Root == "":
			list = append(list, whole)
		default:
			list = append(list, o.Root+"."+path)
		}
	}
	for path := range strings.SplitSeq(o.TimeField, "|") {
		add(path)
	}
	if o.MetaFrom == "" || o.MetaFrom == measurement.MetaFromValue {
		add(o.MetaField)
		for _, text := range o.MetaFields {
			_, path, renamed := strings.Cut(text, "=")
			if !renamed {
				path = text
			}
			add(strings.TrimSpace(path))
		}
	}
	return list
}

// isIn reports whether a path equals another one, or leads into it.
func isIn(path, of string) bool { return of == "" || path == of || strings.HasPrefix(path, of+".") }

// isStored reports whether the value of an absolute path is stored, as a field or in meta.
func (p *proposer) isStored(o measurement.Options, path string) bool {
	return p.isField(o, path) || slices.ContainsFunc(taken(o), func(of string) bool { return isIn(path, of) })
}

// isField reports whether the value of an absolute path is stored as a field.
func (p *proposer) isField(o measurement.Options, path string) bool {
	dropped := func(of string) bool { return isIn(path, view{root: o.Root}.absolute(of)) }
	return isIn(path, areaOf(o)) && !slices.ContainsFunc(taken(o), func(of string) bool { return isIn(path, of) }) && !slices.ContainsFunc(o.Drop, dropped)
}

// outside returns the names of fields outside of what is stored.
func (p *proposer) outside(o measurement.Options) (names []string) {
	area := areaOf(o)
	if area == "" {
		return nil
	}
	for _, f := range p.list() {
		if strings.Contains(f.path, "[]") || f.objects > 0 || f.path == "schema" || p.isStored(o, f.path) || isIn(area, f.path) || isIn(f.path, area) {
			continue
		}
		names = append(names, f.path)
	}
	return names
}

// some lists a few names.
func some(names []string) string {
	if len(names) > listedNames {
		return strings.Join(names[:listedNames], ", ") + fmt.Sprintf(" and %d more", len(names)-listedNames)
	}
	return strings.Join(names, ", ")
}
