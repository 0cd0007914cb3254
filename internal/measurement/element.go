package measurement

import (
	"bytes"

	"waterwheel/internal/record"
)

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
	if d.options.Format == OTLP || d.options.Format == OTLPJSON {
		return d.pointOf(text, int(part), wrap)
	}
	if d.options.Format == Avro || d.options.Format == Protobuf {
		return nil, false
	}
	if d.options.Format == Influx {
		line, ok := d.lineOf(text, int(part))
		return d.wrapped(wrap, line), ok
	}
	if d.options.Format == BSON {
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
	if d.options.Format == OTLP || d.options.Format == OTLPJSON {
		return d.pointsOf(text)
	}
	if d.options.Format == Avro {
		return d.avroEvents(&r, text)
	}
	if d.options.Format == Protobuf {
		return d.protoEvents(&r, text)
	}
	if d.options.Format == Influx {
		return d.linesOf(text, &r)
	}
	if d.options.Format == BSON {
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
