package measurement

import (
	"bytes"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/record"
	"waterwheel/timeseries"
	"waterwheel/timeseries/rawbson"
)

const (
	// maxDepth bounds how deep an event may be nested; the event itself is the first level. MongoDB stops at 200, a
	// bucket adds three.
	maxDepth = 100
	// maxBadParts is how many elements of one record may be bad, each for itself. Their errors, and what is made of them with
	// the record's key and headers, would otherwise take many thousand times the record's own bytes.
	maxBadParts = 100
	// keptBytes is how much of a large record's buffers is kept for the next records.
	keptBytes = 4 << 20
)

// Decoder turns records into measurements by one set of options. It is not for concurrent use.
type Decoder struct {
	options Options
	time    timeParser
	paths   paths
	json    *jsonReader
	bson    bsonChecker
	walker  *bsonWalker // of the format BSON
	nester  nester
	quick   quick

	results  []Result
	out      []byte // elements and meta of the results
	badParts int    // results that are errors

	// Of the record being decoded:
	record  record.Record
	frame   []byte // of the value, what stands before its text
	text    []byte // the rest of the value
	keyText []byte // a BSON string
	keyMeta bson.RawValue

	// Of the event being decoded:
	names       [][]byte          // of the objects that are open, for the search of duplicates
	fields      []rawbson.Element // of the objects of meta that are open, for sorting
	foundTime   rawbson.Element   // kind 0: not seen
	foundMeta   []rawbson.Element // by the parts of meta; kind 0: not seen
	foundRoot   []byte            // the document that paths are relative to; nil: not seen
	foundStored bool              // what is stored was seen, where it is not the event itself
	nullRoot    bool              // the root is null: there is no measurement
	dotted      bool              // a name may hold a dot
	taken       int               // how often something was taken out
	topCount    int               // fields at the top level, without what was taken out
}

// Result is what became of one element of a record: a measurement, or an error when Err is not nil.
type Result struct {
	Measurement Measurement
	Err         *DecodeError
}

// New makes a Decoder, or says what is wrong with the options.
func New(options Options) (*Decoder, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("options of decoding: %w", err)
	}
	d := &Decoder{
		options: options, json: newJSONReader(options.Format == ExtJSON), time: newTimeParser(options.TimeFormat),
		paths: newPaths(&options),
	}
	d.foundMeta = make([]rawbson.Element, len(d.paths.meta))
	if options.Format == BSON {
		d.walker = newBSONWalker(d)
	}
	d.quick = newQuick(d)
	return d, nil
}

// Decode returns the measurements of a record: one for an object, one for each element of an array, none for a
// tombstone and for an object whose root is null. The error, always a *DecodeError, is of the record as a whole. The results and all they refer to are valid
// until the next Decode; so long the record's bytes must not change.
func (d *Decoder) Decode(r record.Record) ([]Result, error) {
	if r.Value == nil {
		return nil, nil
	}
	d.reset(r)
	if err := d.decode(); err != nil {
		return nil, err
	}
	return d.results, nil
}

// Element returns one element of an array record as a value of its own: the bytes as they stand in it, behind the record's
// frame if it has one; false when the record is not an array or has no such element. They may alias the record's value.
func (d *Decoder) Element(r record.Record, part int32) ([]byte, bool) {
	if d.options.Format == BSON {
		return nil, false
	}
	frame, text := d.cutFrame(r.Value)
	element, ok := d.json.element(text, part)
	return framed(frame, element), ok
}

// reset drops what belongs to the record before.
func (d *Decoder) reset(r record.Record) {
	if d.bufferBytes() > keptBytes {
		d.out, d.results, d.names, d.fields = nil, nil, nil, nil
		d.json.out, d.json.wrapped, d.nester = nil, nil, nester{}
		d.quick.drop()
	}
	d.record, d.results, d.out, d.badParts = r, d.results[:0], d.out[:0], 0
}

// bufferBytes is what the buffers that a large record makes large take, nearly.
func (d *Decoder) bufferBytes() int {
	const resultBytes, viewBytes = 112, 56
	return cap(d.out) + cap(d.json.out) + cap(d.json.wrapped) + cap(d.nester.out) + resultBytes*cap(d.results) + d.quick.bufferBytes() +
		viewBytes*(cap(d.names)+cap(d.fields)+cap(d.nester.entries))
}

// decode fills the results. Its error is of the whole record.
func (d *Decoder) decode() *DecodeError {
	if n := d.record.Cut; n > 0 {
		return newError(TooLarge, "", "the record has %d bytes, more than are read of one: only its beginning is here (EVENT_MAX_BYTES = %d)", n, d.options.MaxBytes)
	}
	if n := len(d.record.Value); n > d.options.MaxBytes {
		return newError(TooLarge, "", "the value has %d bytes, more than EVENT_MAX_BYTES = %d", n, d.options.MaxBytes)
	}
	if len(d.record.Value) == 0 {
		return newError(Empty, "", "the value has 0 bytes: send a null value where a tombstone is meant")
	}
	if d.options.MetaFrom == MetaFromKey {
		if err := d.readKey(); err != nil {
			return err
		}
	}
	if d.options.Format == BSON {
		return d.decodeBSON()
	}
	return d.decodeJSON()
}

func (d *Decoder) decodeBSON() *DecodeError {
	if d.walker != nil {
		var m Measurement
		if d.walker.decode(d.record.Value, &m) {
			d.add(m)
			return nil
		}
	}
	if err := d.bson.check(d.record.Value); err != nil {
		return err
	}
	return d.single(d.record.Value, d.bson.dotted)
}

func (d *Decoder) decodeJSON() *DecodeError {
	d.frame, d.text = d.cutFrame(d.record.Value)
	if err := d.checkFrame(); err != nil {
		return err
	}
	if d.decodeQuickly() {
		return nil
	}
	d.json.begin(d.text)
	switch d.json.next() {
	case '{':
		d.json.clear()
		if _, err := d.json.object(1); err != nil {
			return err
		}
		if err := d.json.end(); err != nil {
			return err
		}
		return d.single(d.json.out, d.json.dotted)
	case '[':
		return d.decodeArray()
	}
	if len(bytes.TrimSpace(d.text)) == 0 {
		return d.nothing()
	}
	if err := d.json.skipValue(); err != nil {
		return d.notJSON(err)
	}
	return notObject(bytes.TrimSpace(d.text))
}

// nothing is the error of a record without an event.
func (d *Decoder) nothing() *DecodeError {
	if len(d.frame) > 0 && len(d.text) == 0 {
		return newError(Empty, "", "nothing follows the frame of EVENT_FRAMING=confluent: send a null value where a tombstone is meant")
	}
	return newError(Empty, "", "the value is white space: send a null value where a tombstone is meant")
}

// decodeArray decodes every element of an array record, to the array's end. When too many are bad the rest is only read as
// JSON.
func (d *Decoder) decodeArray() *DecodeError {
	if err := d.json.enter(); err != nil {
		return err
	}
	parts := 0
	for ; d.json.next() != ']'; parts++ {
		if parts == timeseries.MaxParts {
			return newError(TooLarge, "", "the array has more than %d elements: send several records", timeseries.MaxParts)
		}
		read := d.decodePart
		if d.badParts > maxBadParts {
			read = d.skipPart
		}
		if err := read(int32(parts)); err != nil {
			return err
		}
	}
	if err := d.json.leave(); err != nil {
		return err
	}
	if parts == 0 {
		return newError(Empty, "", "the array has no elements: send no record instead")
	}
	if err := d.json.end(); err != nil {
		return err
	}
	if d.badParts > maxBadParts {
		return d.tooManyBad(parts)
	}
	return nil
}

// tooManyBad is the error of a record with so many bad elements that it is refused as a whole: none of it is stored, so that
// the record can go back whole when it is repaired.
func (d *Decoder) tooManyBad(parts int) *DecodeError {
	for i := range d.results {
		if bad := d.results[i].Err; bad != nil {
			return newError(BadElements, "", "more than %d of its %d elements cannot be stored, so none is; element %d: %s",
				maxBadParts, parts, bad.Part, bad)
		}
	}
	return nil
}

// skipPart reads one element of an array record as JSON.
func (d *Decoder) skipPart(int32) *DecodeError { return d.json.skipValue() }

// decodePart decodes one element of an array record. Its error is of the whole record: the text is not JSON.
func (d *Decoder) decodePart(part int32) *DecodeError {
	start, written := d.json.offset(), len(d.out)
	var m Measurement
	err := d.readPart(&m)
	if d.json.broken {
		return err
	}
	if err != nil {
		d.badParts++
		if broken := d.json.skip(); broken != nil {
			return broken
		}
		d.out = d.out[:written]
		err.Part = part
		err.Value = framed(d.frame, bytes.TrimLeft(d.text[start:d.json.offset()], ", \t\r\n"))
	}
	m.Position = timeseries.Position{Offset: d.record.Offset, Part: part}
	d.results = append(d.results, Result{Measurement: m, Err: err})
	return nil
}

func (d *Decoder) readPart(m *Measurement) *DecodeError {
	if d.json.next() != '{' {
		start := d.json.offset()
		if err := d.json.skipValue(); err != nil {
			return err
		}
		return notObject(bytes.TrimLeft(d.text[start:d.json.offset()], ", \t\r\n"))
	}
	d.json.clear()
	if _, err := d.json.object(1); err != nil {
		return err
	}
	if err := d.shape(d.json.out, d.json.dotted, m); err != nil {
		return err
	}
	if d.nullRoot { // only a whole record is skipped: the elements of an array have their places
		return newError(NotObject, d.paths.root, "null is no object, and EVENT_ROOT leads to it: leave the element out of the array")
	}
	return nil
}

// single makes the result of a record with one event.
func (d *Decoder) single(event []byte, dotted bool) *DecodeError {
	var m Measurement
	if err := d.shape(event, dotted, &m); err != nil || d.nullRoot {
		return err
	}
	d.add(m)
	return nil
}

// add makes the measurement the only one of the record.
func (d *Decoder) add(m Measurement) {
	m.Position = timeseries.Position{Offset: d.record.Offset}
	d.results = append(d.results, Result{Measurement: m})
}

func notObject(value []byte) *DecodeError {
	return newError(NotObject, "", "%s is no object: an event is an object, or several in an array", quoteText(value))
}
