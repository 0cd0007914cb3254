package measurement

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// avroPlan makes measurements of events of one schema in one pass, without their documents: what becomes of each field of the
// schema is known before the first event. What it does not take, wrong or unusual, is for avroReader and shape, which say what is
// wrong. An event that is not taken was read in vain, so the plan rests the longer the more of them come, as a bsonWalker does.
type avroPlan struct {
	top        avroStep
	rest, lost int

	// Of the event:
	metas    []byte              // the values of meta
	parts    []metaSpan          // A kind of zero means that the part was not seen.
	spans    [mostMembers][2]int // of the texts of a part, in the record
	when     reading
	hasTime  bool
	rank     int // of the path to the time that was found; -1 means that none was
	isStored bool
	taken    int
	topCount int
}

// avroStep is what becomes of a value at a place of the events.
type avroStep struct {
	*avroType
	header   []byte // of a field
	use      use
	part     int        // of meta: which part; of time: its rank
	steps    []avroStep // of the fields of a record that paths lead into
	room     int        // that these fields take as numbers
	branches []avroStep // of a union with such a record
	isPlain  bool       // a field that no path leads into
	isNormal bool       // of meta: values are in their normal form as they are written
	order    []int      // of meta: the fields of a record of texts, by their names
	atTop    bool
	isFields bool // the members of the object are stored
	isRoot   bool // an object must be found here, or on the way to it
}

// newAvroPlan makes the plan of a decoder. Nil means that its options store events otherwise.
func newAvroPlan(d *Decoder, root *avroType) *avroPlan {
	o := &d.options
	if d.stages.active || d.paths.inHeader || o.Numbers != NumbersInJSON || o.TimeExact != "" {
		return nil
	}
	p := &avroPlan{parts: make([]metaSpan, len(d.paths.meta))}
	top, ok := o.avroStep(newTop(&d.paths), root, 1)
	p.top = top
	if !ok {
		return nil
	}
	return p
}

// avroStep plans for a value at a place. False means that its values are unknown before the events.
func (o *Options) avroStep(p *place, t *avroType, depth int) (s avroStep, ok bool) {
	s = avroStep{avroType: t, header: p.header, use: p.use, part: p.part, atTop: p.atTop, isFields: p.node != nil && p.node.isStored}
	s.isRoot = p.node != nil && (p.node.onRoot || p.node.isRoot || p.node.isStored)
	leadsOn := p.node != nil && p.node.role == through
	switch {
	case depth > maxDepth || p.reserved && (p.use == asField):
		return s, false
	case p.use == asMeta:
		s.isNormal = t.isNormal(map[*avroType]bool{})
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
	return s, t.kind != avroMap
}

// isNormal reports whether values of a type are written in the normal form of meta: fields in the order of their names, and no
// maps, whose names are not known before.
func (t *avroType) isNormal(known map[*avroType]bool) bool {
	if normal, found := known[t]; found {
		return normal // A record in itself is taken for none.
	}
	known[t] = false
	normal := true
	switch t.kind {
	case avroRecord:
		for i := range t.fields {
			normal = normal && (i == 0 || bytes.Compare(t.fields[i-1].name(), t.fields[i].name()) < 0) && t.fields[i].isNormal(known)
		}
	case avroUnion:
		normal = !slices.ContainsFunc(t.branches, func(branch *avroType) bool { return !branch.isNormal(known) })
	case avroArray:
		normal = t.items.isNormal(known)
	case avroMap:
		normal = false
	}
	known[t] = normal
	return normal
}

// readAvroQuickly makes the result of the record's event. False means nothing but that someone else must read it.
func (d *Decoder) readAvroQuickly() bool {
	p := d.avroPlan
	if p.rest > 0 {
		p.rest--
		return false
	}
	d.results = slices.Grow(d.results[:0], 1)[:1]
	result := &d.results[0]
	result.Measurement.Position, result.Err = timeseries.Position{Offset: d.record.Offset}, nil
	if d.measureAvro(&result.Measurement) {
		p.lost = 0
		return true
	}
	d.results = d.results[:0]
	p.rest = 1<<p.lost - 1
	p.lost = min(p.lost+1, mostLost)
	return false
}

// measureAvro reads the event, and sets the measurement.
func (d *Decoder) measureAvro(m *Measurement) bool {
	p, r := d.avroPlan, &d.avro
	r.begin(d.text, d.options.MaxBytes)
	r.limit /= 2 // Values that are dropped count otherwise than in a document, so what comes near the limit is for that to judge.
	r.decimals = d.options.Decimals
	p.begin(d)
	if !d.avroValue(&p.top, 1) || r.at < len(r.text) || r.isOdd || !p.isStored {
		return false
	}
	timestamp := d.record.Timestamp
	if len(d.paths.times) == 0 {
		p.when, p.hasTime = readingOf(timestamp), timestamp >= 0
	}
	if !p.hasTime || d.options.side(p.when.millis, timestamp) != 0 || !fitsDocument(len(r.out), p.topCount) {
		return false
	}
	m.Time, m.Elements = p.when.millis, r.out[:len(r.out):len(r.out)]
	return d.avroMeta(&m.Meta)
}

// begin forgets the event before.
func (p *avroPlan) begin(d *Decoder) {
	p.metas, p.hasTime, p.rank, p.isStored, p.taken, p.topCount = p.metas[:0], false, -1, p.top.isFields, 0, 0
	clear(p.parts)
	if d.paths.ofRecord {
		for i, e := range d.recordMeta {
			start := len(p.metas)
			p.metas = append(p.metas, e.Value...)
			p.parts[i] = metaSpan{e.Kind, start, len(p.metas)}
		}
	}
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
		d.avroPlan.taken++
		return d.avroTime(s, kind, value)
	case asMeta:
		d.avroPlan.taken++
		return d.avroPart(s, kind, value)
	case asDrop:
		d.avroPlan.taken++
	}
	r.limit -= len(value)
	return true
}

// avroNumbers appends fields that are usual numbers, and returns how many there are until another value comes. The fields take no
// more room than is given.
func (d *Decoder) avroNumbers(steps []avroStep, room int) (done int) {
	r := &d.avro
	text, at, end := r.text, r.at, len(r.out)
	r.out = slices.Grow(r.out, room)
	out := r.out[:cap(r.out)]
fields:
	for ; done < len(steps); done++ {
		s := &steps[done]
		t, next := s.avroType, at
		if !s.isPlain || at >= len(text) {
			break
		}
		if t.kind == avroUnion { // with a branch of one byte, which is the number of a branch twice
			branch := int(text[at])
			if branch&1 != 0 || branch >= 2*len(t.branches) || branch >= 0x80 {
				break
			}
			t, next = t.branches[branch/2], at+1
		}
		var value uint64
		size := 8
		switch t.kind {
		case avroDouble:
			if len(text)-next < 8 {
				break fields
			}
			value = binary.LittleEndian.Uint64(text[next:])
			next += 8
		case avroInt, avroLong, avroMillis:
			bits, n := binary.Uvarint(text[next:])
			if n <= 0 || t.kind == avroInt && (bits > math.MaxUint32 || n > binary.MaxVarintLen32) {
				break fields
			}
			next += n
			if value = bits>>1 ^ -(bits & 1); t.kind == avroInt {
				size = 4
			}
		default:
			break fields
		}
		putHeader(out[end:], s.header) // the value and later fields overwrite the bytes behind it
		out[end] = byte(avroTypes[t.kind])
		end += len(s.header)
		binary.LittleEndian.PutUint64(out[end:], value)
		end, at = end+size, next
	}
	r.at, r.out = at, out[:end]
	if done > 0 && steps[0].atTop {
		d.avroPlan.topCount += done
	}
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

// avroObject reads a record that paths lead into.
func (d *Decoder) avroObject(s *avroStep, depth int) bool {
	p, r, start := d.avroPlan, &d.avro, len(d.avro.out)
	taken, isField := p.taken, s.use == asField
	if isField {
		r.out = append(append(r.out, s.header...), 0, 0, 0, 0)
		r.out[start] = byte(bson.TypeEmbeddedDocument)
	}
	p.isStored = p.isStored || s.isFields
	for rest := s.steps; ; rest = rest[1:] {
		if rest = rest[d.avroNumbers(rest, s.room):]; len(rest) == 0 {
			break
		}
		if !d.avroValue(&rest[0], depth+1) {
			return false
		}
	}
	if !isField {
		return true
	}
	r.out = rawbson.EndDocument(r.out, start+len(s.header))
	if p.taken > taken && len(r.out)-start == len(s.header)+rawbson.Empty {
		r.out = r.out[:start] // it held what was taken out and nothing else
	} else if s.atTop {
		p.topCount++
	}
	return true
}

// avroTime reads a time. Of several paths the first counts whose value is not null.
func (d *Decoder) avroTime(s *avroStep, kind bson.Type, value []byte) bool {
	p := d.avroPlan
	if len(d.paths.times) > 1 && (kind == bson.TypeNull || p.rank >= 0 && p.rank < s.part) {
		return true
	}
	p.rank = s.part
	var err *DecodeError
	p.when, err = d.time.parse(kind, value)
	p.hasTime = err == nil
	return p.hasTime
}

// avroPart appends a part of meta in its normal form.
func (d *Decoder) avroPart(s *avroStep, kind bson.Type, value []byte) bool {
	p := d.avroPlan
	if d.avro.isOdd {
		return false
	}
	start := len(p.metas)
	if s.isNormal {
		p.metas = append(p.metas, value...)
	} else {
		written := len(d.out)
		d.beginEvent(false)
		normal, err := d.normalize(kind, value)
		d.out = d.out[:written]
		if err != nil {
			return false
		}
		p.metas = append(p.metas, normal.Value...)
	}
	p.parts[s.part] = metaSpan{kind, start, len(p.metas)}
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

// avroMeta sets the meta of the event.
func (d *Decoder) avroMeta(meta *bson.RawValue) bool {
	switch d.options.MetaFrom {
	case MetaFromNone:
		*meta = bson.RawValue{}
		return true
	case MetaFromKey:
		*meta = d.keyMeta
		return true
	}
	p := d.avroPlan
	part := p.parts[0]
	if d.paths.joined {
		start := len(p.metas)
		out := append(p.metas, 0, 0, 0, 0)
		for i, part := range p.parts {
			if part.kind != 0 {
				out = rawbson.AppendHeader(out, part.kind, d.paths.meta[i].name)
				out = append(out, out[part.start:part.end]...)
			}
		}
		p.metas = rawbson.EndDocument(out, start)
		if part = (metaSpan{bson.TypeEmbeddedDocument, start, len(p.metas)}); part.end-start == rawbson.Empty {
			return false
		}
	}
	meta.Type, meta.Value = part.kind, p.metas[part.start:part.end:part.end]
	return part.kind != 0 && part.end-part.start <= maxMetaBytes
}
