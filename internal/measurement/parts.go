package measurement

import (
	"bytes"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// maxDeadLetters bounds the bytes that are made for the errors of one record, and not cut out of it. Each error repeats the fields
// outside of its list.
const maxDeadLetters = 8 << 20

// decodeTexts decodes a record of several events. They are the elements of an array, or several texts one after another. If too
// many events are bad, it only checks that the rest is JSON.
func (d *Decoder) decodeTexts() *DecodeError {
	d.json.begin(d.text)
	for more := true; more; more = d.json.more() {
		decode := d.decodePart
		if d.json.next() == '[' {
			decode = d.decodeArray
		}
		if err := decode(); err != nil {
			return err
		}
	}
	if err := d.json.end(); err != nil {
		return err
	}
	if d.parts == 0 && d.skipped == 0 {
		return newError(Empty, "", "the array has no elements: do not send empty arrays")
	}
	return d.tooManyBad()
}

// decodeArray decodes the elements of an array.
func (d *Decoder) decodeArray() *DecodeError {
	if err := d.json.enter(); err != nil {
		return err
	}
	for d.json.next() != ']' {
		if err := d.decodePart(); err != nil {
			return err
		}
	}
	return d.json.leave()
}

// isTooBad reports whether the record is refused as a whole because too many of its events are bad. None of it is then stored, so
// the whole record can be produced again after a repair.
func (d *Decoder) isTooBad() bool { return d.badParts > maxBadParts || d.deadLetters > maxDeadLetters }

// tooManyBad is the error of a record that is refused as a whole.
func (d *Decoder) tooManyBad() *DecodeError {
	if !d.isTooBad() {
		return nil
	}
	for i := range d.results {
		switch bad := d.results[i].Err; {
		case bad == nil:
		case d.badParts > maxBadParts:
			return newError(BadElements, "", "more than %d of the record's %d elements cannot be stored, so none of them is stored; element %d: %s",
				maxBadParts, d.parts, bad.Part, bad)
		default:
			return newError(BadElements, "", "%d of the record's elements cannot be stored. Their dead letters (each has the fields outside the list) would take more than %d MiB, so no element is stored; element %d: %s",
				d.badParts, maxDeadLetters>>20, bad.Part, bad)
		}
	}
	return nil
}

// decodePart decodes a part of the record, that is, an element of an array or one of several texts. Its error concerns the whole
// record, because the text is not JSON or has too many parts.
func (d *Decoder) decodePart() *DecodeError {
	if d.parts == timeseries.MaxParts {
		return newError(TooLarge, "", "the record has more than %d elements: send several records", timeseries.MaxParts)
	}
	if d.isTooBad() {
		d.parts++
		return d.json.skipValue()
	}
	start := d.json.offset()
	err := d.readPart()
	if d.json.broken {
		return err
	}
	if err != nil {
		if broken := d.json.skip(); broken != nil {
			return broken
		}
	}
	text := bytes.TrimLeft(d.text[start:d.json.offset()], ", \t\r\n")
	return d.decodeDocument(d.json.out, d.json.dotted, err, text)
}

// decodeDocument decodes one of the record's documents, or adds the error err that reading it gave. text is the document's text
// in the record. The returned error concerns the whole record.
func (d *Decoder) decodeDocument(document []byte, dotted bool, err *DecodeError, text []byte) *DecodeError {
	if err == nil && d.stages.active {
		if err = d.stages.open(document, dotted); err == nil {
			return d.decodeEvents(text)
		}
	}
	var m Measurement
	if err == nil && d.walked(document, &m) {
		d.addPart(m, nil)
		return nil
	}
	if written := len(d.out); err == nil {
		if err = d.shapePart(document, dotted, &m); err != nil {
			d.out = d.out[:written]
		}
	}
	if err != nil {
		err.Value = d.wrapped(d.wrap, text)
	}
	d.addPart(m, err)
	return nil
}

// readPart reads a part as BSON.
func (d *Decoder) readPart() *DecodeError {
	if d.json.next() != '{' {
		start := d.json.offset()
		if err := d.json.skipValue(); err != nil {
			return err
		}
		return notObject(bytes.TrimLeft(d.text[start:d.json.offset()], ", \t\r\n"))
	}
	d.json.clear()
	_, err := d.json.object(1)
	return err
}

// shapePart is shape for one of several events. It returns an error if the root is null, because only a whole record can be a
// tombstone.
func (d *Decoder) shapePart(event []byte, dotted bool, m *Measurement) *DecodeError {
	if err := d.shape(event, dotted, m); err != nil || !d.nullRoot {
		return err
	}
	return newError(NotObject, d.paths.root, "null is not an object, but EVENT_ROOT expects one: leave the element out of the array")
}

// addPart adds the result of the next event.
func (d *Decoder) addPart(m Measurement, err *DecodeError) {
	part := int32(d.parts)
	d.parts++
	if err != nil {
		d.badParts++
		err.Part = part
		m = Measurement{}
	}
	m.Position = timeseries.Position{Offset: d.record.Offset, Part: part}
	d.results = append(d.results, Result{Measurement: m, Err: err})
}

// decodeEvents decodes the events of the open document. text is the document's text in the record, or nil if the record has no
// other document.
func (d *Decoder) decodeEvents(text []byte) *DecodeError {
	s := d.stages
	n := s.events()
	if n > timeseries.MaxParts-d.parts {
		return newError(TooLarge, "", "the record has more than %d elements: send several records", timeseries.MaxParts)
	}
	if n == 0 {
		d.skipped++
	}
	for i := range n {
		if d.isTooBad() {
			d.parts += n - i
			break
		}
		if err := d.decodeEvent(i, text); err != nil {
			return err
		}
	}
	if text != nil {
		return nil
	}
	return d.tooManyBad()
}

// decodeEvent decodes one event of the open document. Its error concerns the whole record.
func (d *Decoder) decodeEvent(i int, text []byte) *DecodeError {
	var m Measurement
	written := len(d.out)
	event, dotted, skip, err := d.stages.event(i)
	if skip {
		d.parts++ // later events keep the positions that they have without the setting
		d.skipped++
		return nil
	}
	if err == nil {
		err = d.shapePart(event, dotted, &m)
	}
	if err == nil {
		d.addPart(m, nil)
		return nil
	}
	d.out = d.out[:written]
	if err.Value = d.wrapped(d.wrap, text); !d.stages.whole {
		value, failed := d.aloneIn(d.wrap, i)
		if failed != nil {
			return failed
		}
		err.Value = value
		d.deadLetters += len(value)
	}
	d.addPart(m, err)
	return nil
}

// aloneIn returns the open document with only one element of its lists, as the value of a record.
func (d *Decoder) aloneIn(w wrapping, i int) ([]byte, *DecodeError) {
	document, err := d.stages.alone(i)
	if err != nil {
		return nil, err
	}
	if d.options.Format == BSON {
		return d.wrapped(w, document), nil
	}
	text, failed := bson.MarshalExtJSON(bson.Raw(document), d.options.Format == ExtJSON, false)
	if failed != nil {
		return nil, newError(InternalError, "", "the element %d of the record cannot be written as a dead letter: %v", i, failed)
	}
	return d.wrapped(w, text), nil
}

// Element returns one of several events of a record as a value of its own, in the record's compression and frame if it has them.
// The event's bytes stand as they do in the record, and may alias the record's value. For a list that is taken apart, the value
// is the document with this element alone. Element returns false if the record is one event or has no such part.
func (d *Decoder) Element(r record.Record, part int32) ([]byte, bool) {
	if part < 0 {
		return nil, false
	}
	wrap, text, err := d.unwrap(r.Value)
	if err != nil {
		return nil, false
	}
	switch d.options.Format {
	case OTLP, OTLPJSON:
		return d.pointOf(text, int(part), wrap)
	case Avro, Protobuf:
		return nil, false
	case Influx:
		line, ok := d.lineOf(text, int(part))
		return d.wrapped(wrap, line), ok
	case BSON:
		if len(d.stages.lists) == 0 || d.bson.check(text) != nil || d.stages.open(text, d.bson.dotted) != nil || int(part) >= d.stages.events() {
			return nil, false
		}
		value, err := d.aloneIn(wrap, int(part))
		return value, err == nil && !d.stages.whole
	}
	finder := partFinder{Decoder: d, wrap: wrap, left: int(part), tokens: newJSONTokens()}
	finder.tokens.begin(text)
	return finder.find()
}

// partFinder looks for a part in a record of JSON.
type partFinder struct {
	*Decoder
	tokens jsonTokens
	wrap   wrapping
	left   int // number of parts before the wanted one
	value  []byte
	found  bool
}

// find goes through the texts of the record.
func (f *partFinder) find() ([]byte, bool) {
	j := &f.tokens
	several := j.next() == '['
	for more := true; more; more = j.more() {
		switch j.next() {
		case '{':
			text, err := j.raw()
			if several = several || j.more(); err != nil || f.look(text, several) {
				return f.value, f.found
			}
		case '[':
			if j.enter() != nil {
				return nil, false
			}
			for j.next() != ']' {
				if text, err := j.raw(); err != nil || f.look(text, true) {
					return f.value, f.found
				}
			}
			if j.leave() != nil {
				return nil, false
			}
		default:
			return nil, false
		}
	}
	return nil, false
}

// look reports whether the part is the text or lies in it. several means that the record has other texts.
func (f *partFinder) look(text []byte, several bool) bool {
	n, isList := 1, false
	if f.stages.active && text[0] == '{' {
		n, isList = f.open(text)
	}
	if f.left >= n {
		f.left -= n
		return false
	}
	switch {
	case isList:
		value, err := f.aloneIn(f.wrap, f.left)
		f.value, f.found = value, err == nil
	case several:
		f.value, f.found = f.wrapped(f.wrap, text), true
	}
	return true
}

// open opens a document. It returns how many events the document has, and whether they are elements of lists.
func (f *partFinder) open(text []byte) (n int, isList bool) {
	j := newJSONReader(f.options.Format == ExtJSON)
	j.begin(text)
	if _, err := j.object(1); err != nil {
		return 1, false
	}
	if f.stages.open(j.out, j.dotted) != nil {
		return 1, false
	}
	return f.stages.events(), !f.stages.whole
}

// Events returns the events of a record as the stages make them, each as a BSON document. Commands show them, or propose settings
// from them. Events that cannot be read are left out.
func (d *Decoder) Events(r record.Record) (events [][]byte) {
	_, text, err := d.unwrap(r.Value)
	if err != nil {
		return nil
	}
	switch d.options.Format {
	case OTLP, OTLPJSON:
		return d.pointsOf(text)
	case Avro, Protobuf:
		return d.schemaEvents(&r, text)
	case Influx:
		return d.linesOf(text, &r)
	case BSON:
		if d.bson.check(text) == nil {
			events = d.appendEvents(events, text, d.bson.dotted)
		}
		return events
	}
	tokens, reader := newJSONTokens(), newJSONReader(d.options.Format == ExtJSON)
	tokens.begin(text)
	for {
		switch next := tokens.next(); {
		case next == '[' && tokens.event == 0:
			if tokens.enter() != nil {
				return events
			}
			continue
		case next == ']' && tokens.event == 1:
			if tokens.leave() != nil {
				return events
			}
			continue
		case next == 0:
			return events
		}
		value, err := tokens.raw()
		if err != nil {
			return events
		}
		reader.begin(value)
		reader.clear()
		if value[0] != '{' {
			continue
		}
		if _, err := reader.object(1); err == nil {
			events = d.appendEvents(events, reader.out, reader.dotted)
		}
	}
}

// appendEvents appends the events of a document.
func (d *Decoder) appendEvents(events [][]byte, document []byte, dotted bool) [][]byte {
	if d.stages.open(document, dotted) != nil {
		return events
	}
	for i := range d.stages.events() {
		if event, _, skip, err := d.stages.event(i); err == nil && !skip {
			events = append(events, bytes.Clone(event))
		}
	}
	return events
}
