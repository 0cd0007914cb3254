package check

import (
	"cmp"
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
		list = append(list, "the fields outside of "+areaOf(o)+": "+some(outside))
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
	for _, stored := range [][2]string{{o.StoredTime, "MONGODB_TIME_FIELD"}, {o.StoredMeta, "MONGODB_META_FIELD"}} {
		name, setting := stored[0], stored[1]
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
func areaOf(o measurement.Options) string { return view{root: o.Root}.absolute(o.Fields) }

// taken returns the absolute paths of time and meta.
func taken(o measurement.Options) (list []string) {
	add := func(path string) {
		if path != "" && !strings.HasPrefix(path, "header:") && !strings.HasPrefix(path, "key:") {
			list = append(list, view{root: o.Root}.absolute(path))
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

// outside returns the names of fields that are not stored.
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

// note describes what is odd about the values of a stored field: the loss, the values, and what to do.
type note struct {
	path, loss, is, wayOut string
}

// notes returns what is odd about the values of the fields that some options store.
func (p *proposer) notes(o measurement.Options) (list []note) {
	decimals := map[string]bool{} // objects that are decimals
	for _, f := range p.list() {
		if !p.isField(o, f.path) || strings.Contains(f.path, "[]") || f.path == areaOf(o) {
			continue
		}
		if one := cmp.Or(p.decimal(f, decimals), p.mixed(f, o), p.numerals(f, o), p.rows(f), f.texted()); one != (note{}) {
			one.path = f.path
			list = append(list, one)
		}
	}
	return list
}

// decimal checks for numbers that come as the bytes of their digits, in base64.
func (p *proposer) decimal(f *field, objects map[string]bool) note {
	n := note{loss: "the numbers of " + f.path, wayOut: "send numbers: decimal.handling.mode=double in Debezium, decimal.format=NUMERIC in Kafka Connect's JSON converter"}
	if of, ok := strings.CutSuffix(f.path, ".value"); ok && objects[of] {
		return note{}
	}
	known, isKnown := p.decimals[f.path]
	scale, value := p.at(f.path+".scale"), p.at(f.path+".value")
	switch {
	case isKnown && !known.variable && f.texts > 0:
		n.is = "is a decimal in base64, according to the schema in the record"
		if number := known.read(f.text.text); number != "" {
			n.is += fmt.Sprintf(": %s is %s", f.text, number)
		}
	case f.objects > 0 && scale.numbers > 0 && value.encoded+value.texts > 0 && (isKnown || value.encoded*2 >= value.texts):
		objects[f.path] = true
		n.is = "is an object of a scale and a decimal in base64"
	case f.encoded > 0 && f.encoded*2 >= f.texts:
		n.is = fmt.Sprintf("is base64 (such as %s) of bytes or of a decimal", f.text)
	default:
		return note{}
	}
	return n
}

// mixed checks for values that are numbers in some events and something else in others.
func (p *proposer) mixed(f *field, o measurement.Options) note {
	numbers, texts := f.numbers, f.texts
	if o.Numbers == measurement.NumbersInText {
		numbers, texts = numbers+f.numerals, texts-f.numerals
	}
	kinds := []struct {
		n    int
		name string
	}{{numbers, "a number"}, {texts, "a string"}, {f.flags, "true or false"}, {f.objects, "an object"}, {f.lists, "a list"}}
	var list []string
	for _, kind := range kinds {
		if kind.n > 0 {
			list = append(list, fmt.Sprintf("%s in %s", kind.name, plural(kind.n, "event")))
		}
	}
	if len(list) < 2 {
		return note{}
	}
	n := note{loss: "some values of " + f.path + " in sums", is: "is " + strings.Join(list, ", "), wayOut: "send one type, and null or nothing where there is no value"}
	if numbers > 0 && texts > 0 {
		n.is += fmt.Sprintf(" (%s at %s)", f.text, p.where(f.text.at))
	}
	return n
}

// numerals checks for numbers that come as texts.
func (p *proposer) numerals(f *field, o measurement.Options) note {
	if f.inNumbers()*2 < f.texts || f.texts == 0 {
		return note{}
	}
	if o.Numbers == measurement.NumbersInText && f.commas+f.units == 0 || !p.isQuantity(f) {
		return note{}
	}
	how := "a number"
	switch {
	case f.units > 0:
		how = "a number with a unit"
	case f.commas > 0:
		how = "a number with a comma"
	}
	return note{
		loss:   "calculations with " + f.path,
		is:     fmt.Sprintf("is %s in a string in %s of %s, such as %s, and is stored as a string", how, count(f.inNumbers()), plural(f.seen-f.nulls, "event"), f.text),
		wayOut: "set EVENT_NUMBERS=text, or send numbers without quotes",
	}
}

// isQuantity reports whether a field may be a quantity according to its name. Otherwise a number may be a name, or a time.
func (p *proposer) isQuantity(f *field) bool {
	c := classOf(f.path)
	named := c == unnamed || c == aspect || c == state && in("state status level", headWord(f.path))
	return named && !(timeRank(leaf{f, f.path}) > 0 && len(f.text.text) > 8)
}

// rows checks for lists of objects. Queries do not reach a single reading in them.
func (p *proposer) rows(f *field) note {
	if f.rows == 0 {
		return note{}
	}
	for path, inner := range p.fields {
		if strings.HasPrefix(path, f.path+"[].") && inner.numbers+inner.numerals > 0 {
			return note{
				loss:   "the single values in " + f.path,
				is:     fmt.Sprintf("is a list of up to %s, and is stored as one value", plural(f.longest, "object")),
				wayOut: "split the list with EVENT_LIST=" + f.path + ", or leave it out with EVENT_DROP",
			}
		}
	}
	return note{}
}

// texted checks for texts that hold JSON.
func (f *field) texted() note {
	if f.documents*2 <= f.texts || f.texts == 0 {
		return note{}
	}
	return note{loss: "the values in " + f.path, is: "is a string that contains JSON, and is stored as a string", wayOut: "set EVENT_PARSE=" + f.path + ", or send the object itself"}
}
