package measurement

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// avroPlan makes measurements of the events of one schema in one pass, without making their documents. The plan decides before
// the first event what becomes of each field of the schema. It leaves wrong and unusual events to avroReader and shape, which
// report what is wrong.
type avroPlan struct {
	plan
	top   avroStep
	spans [mostMembers][2]int // where the texts of a part of the event's meta lie in the record
}

// avroStep says what becomes of the value at one place of the events.
type avroStep struct {
	*avroType
	planStep
	header   []byte       // header of the field's BSON element
	steps    []avroStep   // for the fields of a record into which paths lead
	numbers  []avroNumber // for each of these fields
	branches []avroStep   // for the branches of a union into which paths lead
	order    []int        // for meta: the indexes of the fields of a record of texts, in the order of their names
}

// avroNumber is what avroNumbers has to know about a field, in few bytes.
type avroNumber struct {
	header [2]uint64   // header of the field's BSON element, and what follows it up to 16 bytes
	size   int         // bytes of the header. Zero means that the field is no number, or its name is long.
	kinds  [2]avroKind // of the number, or of the first two branches of a union
	union  bool
}

// number returns what avroNumbers has to know about a field.
func (s *avroStep) number() (n avroNumber) {
	if !s.isPlain || cap(s.header) > 16 {
		return n
	}
	n.size, n.kinds[0] = len(s.header), s.kind
	if n.union = s.kind == avroUnion; n.union {
		n.kinds[0] = avroUnion // no number
		n.kinds[1] = avroUnion
		for i, branch := range s.avroType.branches[:min(2, len(s.avroType.branches))] {
			n.kinds[i] = branch.kind
		}
	}
	n.header = wholeHeader(s.header)
	return n
}

// newAvroPlan makes the plan of a decoder. Nil means that no plan fits the options and the schema.
func newAvroPlan(d *Decoder, root *avroType) *avroPlan {
	if !d.takesPlans() {
		return nil
	}
	p := &avroPlan{plan: plan{draft: newDraft(d)}}
	top, ok := d.options.avroStep(newTop(&d.paths), root, 1)
	p.top = top
	if !ok {
		return nil
	}
	return p
}

// avroStep plans for the value at a place. False means that the schema alone does not tell what becomes of the value.
func (o *Options) avroStep(p *place, t *avroType, depth int) (s avroStep, ok bool) {
	if o.TimeZone == "" {
		t = t.withoutZone()
	}
	s = avroStep{avroType: t, planStep: newPlanStep(p), header: p.header}
	leadsOn := p.node != nil && p.node.role == through
	switch {
	case depth > maxDepth || p.reserved && (p.use == asField):
		return s, false
	case p.use == asMeta:
		s.isNormal = t.encodesNormally(map[*avroType]bool{})
		if t.kind == avroRecord && len(t.fields) <= mostMembers && !slices.ContainsFunc(t.fields, func(f avroField) bool { return f.kind != avroString }) {
			s.order = make([]int, len(t.fields))
			for i := range s.order {
				s.order[i] = i
			}
			slices.SortFunc(s.order, func(a, b int) int { return bytes.Compare(t.fields[a].name(), t.fields[b].name()) })
		}
		return s, true
	case !leadsOn:
		s.isPlain = p.use == asField
		return s, true
	}
	switch t.kind {
	case avroRecord:
		s.steps = make([]avroStep, len(t.fields))
		for i := range t.fields {
			f := &t.fields[i]
			if s.steps[i], ok = o.avroStep(o.newPlace(p, f.name()), f.avroType, depth+1); !ok {
				return s, false
			}
			s.room += cap(s.steps[i].header) + 16
		}
		s.numbers = make([]avroNumber, len(s.steps))
		for i := range s.steps {
			s.numbers[i] = s.steps[i].number()
		}
		return s, true
	case avroUnion:
		s.branches = make([]avroStep, len(t.branches))
		for i, branch := range t.branches {
			if s.branches[i], ok = o.avroStep(p, branch, depth); !ok {
				return s, false
			}
		}
		return s, true
	}
	s.isPlain = p.use == asField
	return s, t.kind != avroMap && !(t.kind == avroArray && p.node.toPart) // an array is in the way of the path
}

// encodesNormally reports whether the values of a type are encoded in the normal form of meta. Records need their fields in the
// order of their names. Maps are never normal, because their names are not known in advance.
func (t *avroType) encodesNormally(known map[*avroType]bool) bool {
	if normal, found := known[t]; found {
		return normal // a record that contains itself counts as not normal
	}
	known[t] = false
	normal := true
	switch t.kind {
	case avroRecord:
		for i := range t.fields {
			normal = normal && (i == 0 || bytes.Compare(t.fields[i-1].name(), t.fields[i].name()) < 0) && t.fields[i].encodesNormally(known)
		}
	case avroUnion:
		normal = !slices.ContainsFunc(t.branches, func(branch *avroType) bool { return !branch.encodesNormally(known) })
	case avroArray:
		normal = t.items.encodesNormally(known)
	case avroMap:
		normal = false
	}
	known[t] = normal
	return normal
}

// measureAvro reads the record's event, and adds its result.
func (d *Decoder) measureAvro() bool {
	p, r := d.avroPlan, &d.avro
	r.begin(d.text, d.localClock())
	// Dropped values count differently here than in a document, so an event near the limit is left to avroReader.
	r.limit /= 2
	p.beginEvent(p.top.isFields)
	return d.avroValue(&p.top, 1) && r.at == len(r.text) && !r.isOdd && d.finish(&p.draft, r.out, 0)
}

// avroValue reads the value of a step.
func (d *Decoder) avroValue(s *avroStep, depth int) bool {
	r := &d.avro
	switch {
	case s.branches != nil:
		branch, ok := r.long()
		return ok && branch >= 0 && branch < int64(len(s.branches)) && d.avroValue(&s.branches[branch], depth)
	case s.steps != nil:
		return d.avroObject(s, depth)
	case s.isPlain:
		return d.avroField(s, depth)
	case s.order != nil:
		return d.avroSorted(s, depth)
	case s.isRoot && s.use == asWay:
		return false // null is a tombstone there, and all else an error
	}
	if s.use == asTime && s.kind == avroMillis && len(d.paths.times) == 1 {
		millis, ok := r.long()
		d.avroPlan.taken++
		d.avroPlan.when, d.avroPlan.hasTime = readingOf(millis), ok
		return ok
	}
	start := len(r.out)
	kind, err := r.value(s.avroType, depth)
	if err != nil {
		return false
	}
	value := r.out[start:]
	r.out = r.out[:start]
	switch s.use {
	case asTime:
		return d.plannedTime(&d.avroPlan.plan, s.part, kind, value)
	case asMeta:
		return !r.isOdd && d.plannedPart(&d.avroPlan.plan, s.part, s.isNormal, kind, value)
	case asDrop:
		d.avroPlan.taken++
	}
	r.limit -= len(value)
	return true
}

// avroNumbers appends the leading fields that are usual numbers, and returns how many they are. The fields take at most room
// bytes.
func (d *Decoder) avroNumbers(numbers []avroNumber, room int) (done int) {
	r := &d.avro
	text, at, end := r.text, r.at, len(r.out)
	r.out = slices.Grow(r.out, room)
	out := r.out[:cap(r.out)]
fields:
	for ; done < len(numbers); done++ {
		n, next := &numbers[done], at
		if n.size == 0 || at >= len(text) {
			break
		}
		kind := n.kinds[0]
		if n.union { // the branch takes one byte, which is twice the number of the branch
			branch := text[at]
			if branch != 0 && branch != 2 {
				break
			}
			kind, next = n.kinds[branch>>1], at+1
		}
		var value uint64
		size := 8
		switch kind {
		case avroDouble:
			if len(text)-next < 8 {
				break fields
			}
			value = binary.LittleEndian.Uint64(text[next:])
			next += 8
		case avroInt, avroLong, avroMillis:
			bits, n := binary.Uvarint(text[next:])
			if n <= 0 || kind == avroInt && (bits > math.MaxUint32 || n > binary.MaxVarintLen32) {
				break fields
			}
			next += n
			if value = bits>>1 ^ -(bits & 1); kind == avroInt {
				size = 4
			}
		default:
			break fields
		}
		element := out[end : end+24] // the value and later fields overwrite the bytes behind the header
		binary.LittleEndian.PutUint64(element, n.header[0])
		binary.LittleEndian.PutUint64(element[8:], n.header[1])
		element[0] = byte(avroTypes[kind])
		binary.LittleEndian.PutUint64(element[n.size:], value)
		end, at = end+n.size+size, next
	}
	r.at, r.out = at, out[:end]
	return done
}

// avroField appends a field of any type.
func (d *Decoder) avroField(s *avroStep, depth int) bool {
	r, start := &d.avro, len(d.avro.out)
	if s.kind == avroString {
		text, ok := r.cutText()
		if r.out = appendText(r.out, s.header, text); s.atTop {
			d.avroPlan.topCount++
		}
		return ok
	}
	r.out = append(r.out, s.header...)
	r.dropNulls = d.options.Nulls == DropNulls
	kind, err := r.value(s.avroType, depth)
	r.dropNulls = false
	if err != nil {
		return false
	}
	r.out[start] = byte(kind)
	if kind == bson.TypeNull && d.options.Nulls == DropNulls {
		r.out = r.out[:start]
	} else if s.atTop {
		d.avroPlan.topCount++
	}
	return true
}

// avroObject reads a record into which paths lead.
func (d *Decoder) avroObject(s *avroStep, depth int) bool {
	p, r, start := d.avroPlan, &d.avro, len(d.avro.out)
	taken, isField := p.taken, s.use == asField
	if isField {
		r.out = append(append(r.out, s.header...), 0, 0, 0, 0)
		r.out[start] = byte(bson.TypeEmbeddedDocument)
	}
	p.isStored = p.isStored || s.isFields
	for i := 0; i < len(s.steps); i++ {
		if s.numbers[i].size > 0 {
			done := d.avroNumbers(s.numbers[i:], s.room)
			if s.steps[i].atTop {
				p.topCount += done
			}
			if i += done; i == len(s.steps) {
				break
			}
		}
		if !d.avroValue(&s.steps[i], depth+1) {
			return false
		}
	}
	if isField {
		r.out = p.endObject(r.out, start, s.header, taken, s.atTop)
	}
	return true
}

// avroSorted appends a part of meta that is a record of texts, with its fields in the order of their names.
func (d *Decoder) avroSorted(s *avroStep, depth int) bool {
	p, r := d.avroPlan, &d.avro
	at := len(p.metas)
	for i := range s.fields {
		text, ok := r.cutText()
		if !ok {
			return false
		}
		p.spans[i] = [2]int{r.at - len(text), r.at}
	}
	out := append(p.metas, 0, 0, 0, 0)
	for _, i := range s.order {
		out = appendText(out, s.fields[i].header, r.text[p.spans[i][0]:p.spans[i][1]])
	}
	p.metas = rawbson.EndDocument(out, at)
	p.taken++
	p.parts[s.part] = metaSpan{bson.TypeEmbeddedDocument, at, len(p.metas)}
	return depth < maxDepth
}
