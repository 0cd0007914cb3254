package measurement

import (
	"bytes"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// maxLetters bounds the bytes that are made for the errors of one record, and not cut out of it. Each error repeats the fields
// outside of its list.
const maxLetters = 8 << 20

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
func (d *Decoder) isTooBad() bool { return d.badParts > maxBadParts || d.letters > maxLetters }

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
				d.badParts, maxLetters>>20, bad.Part, bad)
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
		d.letters += len(value)
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
