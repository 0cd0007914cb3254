package measurement

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// protoPlan makes measurements of the events of one message in one pass, without making their documents. The plan decides before
// the first event what becomes of each field. It leaves wrong and unusual events to protoReader and shape, which report what is
// wrong.
type protoPlan struct {
	plan
	top protoStep
}

// protoStep says what becomes of a member at one place of the events.
type protoStep struct {
	*protoMember
	planStep
	steps   []protoStep   // for the members of a message into which paths lead
	numbers []protoNumber // for each of these members
	isTexts bool          // for meta: the value is an object of texts
}

// protoNumber is what protoNumbers has to know about a member, in few bytes.
type protoNumber struct {
	header      [2]uint64 // header of the field's BSON element, and what follows it up to 16 bytes
	size        int       // bytes of the header. Zero means that the member is no number, or its name is long.
	width       int       // as protoMember.size
	top         int       // 1 if the field counts as a field at the top, otherwise 0
	kind        protoKind
	hasPresence bool
}

// number returns what protoNumbers has to know about a member.
func (s *protoStep) number() (n protoNumber) {
	if !s.isPlain || !s.isNumber || cap(s.header) > 16 {
		return n
	}
	n.header, n.size, n.width, n.kind, n.hasPresence = wholeHeader(s.header), len(s.header), s.size, s.kind, s.hasPresence
	if s.atTop {
		n.top = 1
	}
	return n
}

// newProtoPlan makes the plan of a decoder. Nil means that no plan fits the options and the message.
func newProtoPlan(d *Decoder, root *protoMember) *protoPlan {
	if !d.takesPlans() {
		return nil
	}
	p := &protoPlan{plan: plan{draft: newDraft(d)}}
	top, ok := d.options.protoStep(newTop(&d.paths), root, 1)
	p.top = top
	if !ok {
		return nil
	}
	return p
}

// protoStep plans for a member at a place. False means that the message alone does not tell what becomes of its values.
func (o *Options) protoStep(p *place, m *protoMember, depth int) (s protoStep, ok bool) {
	s = protoStep{protoMember: m, planStep: newPlanStep(p)}
	switch leadsOn := p.node != nil && p.node.role == through; {
	case depth > maxDepth || p.reserved && p.use == asField:
		return s, false
	case p.use == asMeta:
		s.isNormal = !m.isMap && (m.message == nil || m.message.isNormal)
		s.isTexts = m.kind == protoObject && !m.isList && !m.isMap && m.message.isTexts
		return s, true
	case !leadsOn || m.isList && !p.node.toPart:
		s.isPlain = p.use == asField
		return s, true
	case m.isMap || m.isList || m.kind == protoOnly: // a list is in the way of the path
		return s, false
	case m.kind != protoObject:
		s.isPlain = p.use == asField
		return s, true
	}
	s.steps = make([]protoStep, len(m.message.members))
	for i := range s.steps {
		inner := &m.message.members[i]
		if s.steps[i], ok = o.protoStep(o.newPlace(p, inner.name()), inner, depth+1); !ok {
			return s, false
		}
		s.room += cap(inner.header) + 16
		s.numbers = append(s.numbers, s.steps[i].number())
	}
	return s, true
}

// measureProto reads the record's event, and adds its result.
func (d *Decoder) measureProto() bool {
	p, r := d.protoPlan, &d.proto
	r.begin(d.text)
	// Dropped values count differently here than in a document, so an event near the limit is left to protoReader.
	r.limit /= 2
	p.beginEvent(p.top.isFields)
	return d.protoSteps(&p.top, 1, 1) && !r.isOdd && d.finish(&p.draft, r.out, 0)
}

// protoSteps reads a message into which paths lead. first is the index plus one of its first piece in spans.
func (d *Decoder) protoSteps(s *protoStep, first int32, depth int) bool {
	p, r := &d.protoPlan.plan, &d.proto
	p.isStored = p.isStored || s.isFields
	spans := len(r.spans)
	base, err := r.open(s.message, first, depth)
	if err != nil {
		return false
	}
	r.dropNulls = d.options.Nulls == DropNulls
	for i := 0; i < len(s.steps); i++ {
		if s.numbers[i].size > 0 {
			if i += d.protoNumbers(s.numbers[i:], base+i, s.room); i == len(s.steps) {
				break
			}
		}
		inner := &s.steps[i]
		if !inner.isPlain {
			r.dropNulls = false
			if !d.protoValue(inner, base+i, depth) {
				return false
			}
			r.dropNulls = d.options.Nulls == DropNulls
			continue
		}
		before := len(r.out)
		if r.member(inner.protoMember, base+i, depth) != nil {
			return false
		}
		if inner.atTop && len(r.out) > before {
			p.topCount++
		}
	}
	r.dropNulls = false
	r.slots, r.spans = r.slots[:base], r.spans[:spans]
	return len(r.out) <= r.limit
}

// protoNumbers handles the leading steps that are numbers, appends their fields, and returns how many steps these are. The fields
// take at most room bytes. base is the slot of the first step.
func (d *Decoder) protoNumbers(numbers []protoNumber, base, room int) (done int) {
	r := &d.proto
	slots, end := r.slots[base:base+len(numbers)], len(r.out)
	r.out = slices.Grow(r.out, room)
	out := r.out[:cap(r.out)]
	for ; done < len(numbers) && done < len(slots); done++ {
		n, found := &numbers[done], &slots[done]
		if n.size == 0 {
			break
		}
		if !found.isSet && n.hasPresence {
			continue
		}
		element := out[end : end+24] // the number and later fields overwrite the bytes behind the header
		binary.LittleEndian.PutUint64(element, n.header[0])
		binary.LittleEndian.PutUint64(element[8:], n.header[1])
		bits, size := found.value, n.width
		if size == 0 {
			var kind bson.Type
			kind, bits, size = n.kind.number(bits)
			element[0] = byte(kind)
		}
		binary.LittleEndian.PutUint64(element[n.size:], bits)
		end += n.size + size
		d.protoPlan.topCount += n.top
	}
	r.out = out[:end]
	return done
}

// protoValue reads a member into which or to which paths lead.
func (d *Decoder) protoValue(s *protoStep, slot, depth int) bool {
	p, r := &d.protoPlan.plan, &d.proto
	found := r.slots[slot]
	if !found.isSet && s.hasPresence {
		return !s.isRoot // protoReader reports a missing root
	}
	switch {
	case s.steps != nil:
		return d.protoObject(s, found.first, depth+1)
	case s.isRoot && s.use == asWay:
		return false // the root is not an object, which is an error or a tombstone
	case s.use == asMeta:
		return d.protoPart(s, found, depth)
	}
	if s.use == asTime && s.kind == protoTimestamp && !s.isList && len(d.paths.times) == 1 {
		millis, err := r.timestamp(s.message, found.first, depth)
		p.taken++
		p.when, p.hasTime = readingOf(millis), err == nil
		return p.hasTime
	}
	start := len(r.out)
	kind, err := r.content(s.protoMember, found, depth+1)
	if err != nil {
		return false
	}
	value := r.out[start:]
	r.out = r.out[:start]
	switch s.use {
	case asTime:
		return d.plannedTime(p, s.part, kind, value)
	case asDrop:
		p.taken++
	}
	r.limit -= len(value)
	return true
}

// protoObject reads a message into which paths lead, either as a field or outside of the stored object.
func (d *Decoder) protoObject(s *protoStep, first int32, depth int) bool {
	p, r := &d.protoPlan.plan, &d.proto
	if s.use != asField {
		return d.protoSteps(s, first, depth)
	}
	start, taken := len(r.out), p.taken
	r.out = append(append(r.out, s.header...), 0, 0, 0, 0)
	r.out[start] = byte(bson.TypeEmbeddedDocument)
	if !d.protoSteps(s, first, depth) {
		return false
	}
	r.out = p.endObject(r.out, start, s.header, taken, s.atTop)
	return true
}

// protoPart appends a part of meta. If its type allows it, it writes the part's normal form directly into meta.
func (d *Decoder) protoPart(s *protoStep, found protoSlot, depth int) bool {
	p, r := &d.protoPlan.plan, &d.proto
	if !s.isNormal {
		start := len(r.out)
		kind, err := r.content(s.protoMember, found, depth+1)
		if err != nil || r.isOdd {
			return false
		}
		value := r.out[start:]
		r.out = r.out[:start]
		return d.plannedPart(p, s.part, false, kind, value)
	}
	if s.isTexts && d.protoTexts(s, found.first) {
		return true
	}
	start := len(p.metas)
	r.out, p.metas, r.sorted = p.metas, r.out, true
	kind, err := r.content(s.protoMember, found, depth+1)
	r.out, p.metas, r.sorted = p.metas, r.out, false
	if err != nil {
		return false
	}
	p.taken++
	p.parts[s.part] = metaSpan{kind, start, len(p.metas)}
	return true
}

// protoTexts appends a part of meta that is a message of texts. False means that the message is wrong or unusual, and that nothing
// was appended.
func (d *Decoder) protoTexts(s *protoStep, first int32) bool {
	p, r, t := d.protoPlan, &d.proto, s.message
	if first == 0 || r.spans[first-1].next != 0 {
		return false
	}
	var places [mostMembers]uint64 // zero means that the text is absent
	place := r.spans[first-1].value
	text := r.text[:uint32(place)]
	for at, next := int(place>>32), 0; at < len(text); next++ {
		for next < len(t.tags) && t.tags[next] != text[at] {
			next++ // an absent member
		}
		if next == len(t.tags) {
			return false // an unknown member, or another order
		}
		if places[next], at = shortScalar(text, at); at == 0 {
			return false
		}
		if value := r.at(places[next]); !isShortASCII(value) && !utf8.Valid(value) {
			return false
		}
	}
	start := len(p.metas)
	out := append(p.metas, 0, 0, 0, 0)
	for _, i := range t.sorted {
		if m := &t.members[i]; places[i] != 0 || !m.hasPresence {
			out = appendText(out, m.header, r.at(places[i]))
		}
	}
	p.metas = rawbson.EndDocument(out, start)
	p.taken++
	p.parts[s.part] = metaSpan{bson.TypeEmbeddedDocument, start, len(p.metas)}
	return true
}
