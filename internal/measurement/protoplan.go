package measurement

import (
	"encoding/binary"
	"slices"

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
	use      use
	part     int         // for meta, the index of its part; for the time, the rank of its path
	steps    []protoStep // for the members of a message into which paths lead
	isPlain  bool        // a field that no path leads into
	isNormal bool        // for meta: values can be written in their normal form
	atTop    bool
	isFields bool // the members of the object are stored
	isRoot   bool // the value must be an object, because the root or the stored object lies here or below
}

// newProtoPlan makes the plan of a decoder. Nil means that no plan fits the options and the message.
func newProtoPlan(d *Decoder, root *protoMember) *protoPlan {
	if !d.takesPlans() {
		return nil
	}
	p := &protoPlan{plan: newPlan(d)}
	top, ok := d.options.protoStep(newTop(&d.paths), root, 1)
	p.top = top
	if !ok {
		return nil
	}
	return p
}

// protoStep plans for a member at a place. False means that the message alone does not tell what becomes of its values.
func (o *Options) protoStep(p *place, m *protoMember, depth int) (s protoStep, ok bool) {
	s = protoStep{protoMember: m, use: p.use, part: p.part, atTop: p.atTop, isFields: p.node != nil && p.node.isStored}
	s.isRoot = p.node != nil && (p.node.onRoot || p.node.isRoot || p.node.isStored)
	switch leadsOn := p.node != nil && p.node.role == through; {
	case depth > maxDepth || p.reserved && p.use == asField:
		return s, false
	case p.use == asMeta:
		s.isNormal = !m.isMap && (m.message == nil || m.message.isNormal)
		return s, true
	case !leadsOn || m.isList:
		s.isPlain = p.use == asField
		return s, true
	case m.isMap || m.kind == protoOnly:
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
	}
	return s, true
}

// readProtoQuickly makes the result of the record's event. False means only that the slower reader must read the event.
func (d *Decoder) readProtoQuickly() bool {
	p := &d.protoPlan.plan
	m := d.beginPlanned(p)
	return m != nil && d.endPlanned(p, d.measureProto(m))
}

// measureProto reads the event, and sets the measurement.
func (d *Decoder) measureProto(m *Measurement) bool {
	p, r := d.protoPlan, &d.proto
	r.begin(d.text, d.options.MaxBytes)
	// Dropped values count differently here than in a document, so an event near the limit is left to protoReader.
	r.limit /= 2
	p.begin(d, p.top.isFields)
	return d.protoSteps(&p.top, 1, 1) && !r.isOdd && d.planned(&p.plan, r.out, m)
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
		if i += d.protoNumbers(s.steps[i:], base+i); i == len(s.steps) {
			break
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

// protoNumbers handles the leading steps that are numbers, appends their fields, and returns how many steps these are.
func (d *Decoder) protoNumbers(steps []protoStep, base int) (done int) {
	r := &d.proto
	slots := r.slots[base : base+len(steps)]
	out, end := r.out[:cap(r.out)], len(r.out)
	for ; done < len(steps); done++ {
		s, found := &steps[done], &slots[done]
		if !s.isPlain || !s.isNumber {
			break
		}
		if !found.isSet && s.hasPresence {
			continue
		}
		if len(out)-end < cap(s.header)+8 {
			out = slices.Grow(out[:end], cap(s.header)+8)
			out = out[:cap(out)]
		}
		putHeader(out[end:], s.header) // the number and later fields overwrite the bytes behind it
		bits, size := found.value, s.size
		if size == 0 {
			var kind bson.Type
			kind, bits, size = s.number(bits)
			out[end] = byte(kind)
		}
		end += len(s.header)
		binary.LittleEndian.PutUint64(out[end:], bits)
		if end += size; s.atTop {
			d.protoPlan.topCount++
		}
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
	r.out = rawbson.EndDocument(r.out, start+len(s.header))
	if p.taken > taken && len(r.out)-start == len(s.header)+rawbson.Empty {
		r.out = r.out[:start] // it held nothing but values that were taken out
	} else if s.atTop {
		p.topCount++
	}
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
