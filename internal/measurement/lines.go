package measurement

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// decodeLines decodes a record of lines.
func (d *Decoder) decodeLines() *DecodeError {
	l := &d.lines
	l.begin(d.text)
	if !l.more() {
		return newError(Empty, "", "the value has only blank lines and comments: for a tombstone send a null value")
	}
	for several := false; ; several = true {
		if d.parts == timeseries.MaxParts {
			return newError(TooLarge, "", "the record has more than %d lines: send several records", timeseries.MaxParts)
		}
		var m Measurement
		var event, line []byte
		var err *DecodeError
		isQuick := d.quickLines != nil && !d.isTooBad() && d.readLineQuickly(&m)
		if !isQuick {
			event, err = l.read(d.record.Timestamp)
			line = l.line()
		}
		switch more := l.more(); {
		case more || several:
			if isQuick {
				d.addPart(m, nil)
			} else if d.isTooBad() {
				d.parts++
			} else if err = d.decodeDocument(event, d.lines.dotted, err, line); err != nil {
				return err
			}
			if !more {
				return d.tooManyBad()
			}
		case isQuick:
			d.add(m)
			return nil
		case err != nil:
			return d.notInflux(err)
		default:
			return d.document(event, d.lines.dotted)
		}
	}
}

// notInflux explains why a record of one line is not line protocol. err is the reader's error.
func (d *Decoder) notInflux(err *DecodeError) *DecodeError {
	switch form := d.formOf(d.text); {
	case err.Reason != NotInflux:
		return err
	case isJSONStart(d.text):
		return newError(NotInflux, "", "the value begins as JSON does: set EVENT_FORMAT=json, or data_format = \"influx\" in Telegraf's output")
	case form != "" && !isLineProtocol(d.text):
		return newError(NotInflux, "", "the value %s", form)
	}
	return err
}

// lineOf returns one of several lines of a text. False means that the text has only one line, or no such line.
func (d *Decoder) lineOf(text []byte, part int) ([]byte, bool) {
	var l lineReader
	l.begin(text)
	for i := 0; l.more(); i++ {
		_, _ = l.read(0) // The end of a line does not depend on the line's errors.
		if i == part {
			line := l.line()
			return line, i > 0 || l.more()
		}
		l.out = l.out[:0]
	}
	return nil, false
}

// linesOf returns the events of a text's lines. It leaves out the lines that cannot be read.
func (d *Decoder) linesOf(text []byte, r *record.Record) (events [][]byte) {
	var l lineReader
	l.begin(text)
	for l.more() {
		if event, err := l.read(r.Timestamp); err == nil {
			events = d.appendEvents(events, bytes.Clone(event), l.dotted)
		}
	}
	return events
}

// quickLines makes measurements of lines without making their events. The meta must be the name with the tags, and the fields
// must be stored. It remembers the names of tags and fields and their order, so that a known name needs no check. It leaves wrong
// and unusual lines to lineReader and shape, which report what is wrong.
type quickLines struct {
	tags, fields lineNames
	line         uint64 // counts lines, so that marks of earlier lines need not be cleared
}

// lineNames are the names of tags or of fields.
type lineNames struct {
	first  lineName // stands before the first name of a line
	byName map[string]*lineName
}

// lineName is a known name.
type lineName struct {
	text   []byte // the name and its equals sign, as in lines
	header []byte // header of the BSON element
	usual  bool   // the name is stored as it is
	rises  bool   // the next name is greater in the order of bytes
	next   *lineName
	seen   uint64 // the last line that has the name
}

// newQuickLines makes the reader for a decoder. Nil means that the options do not allow reading lines quickly.
func newQuickLines(d *Decoder) *quickLines {
	o := &d.options
	if o.Format != Influx || d.stages.active || o.TimeField != lineTime || !slices.Equal(o.MetaFields, lineMeta) || o.Fields != lineFields ||
		o.Root != "" || len(o.Drop) > 0 || o.TimeExact != "" || o.Numbers != NumbersInJSON {
		return nil
	}
	q := &quickLines{}
	q.forget()
	return q
}

// forget forgets the names.
func (q *quickLines) forget() {
	q.tags, q.fields = lineNames{byName: map[string]*lineName{}}, lineNames{byName: map[string]*lineName{}}
}

// readLineQuickly makes the measurement of the reader's next line, and moves behind the line. False means that the reader has not
// moved.
func (d *Decoder) readLineQuickly(m *Measurement) bool {
	l, q := &d.lines, d.quickLines
	l.start, l.i, l.seen = l.at, l.at, 0
	q.line++
	start := len(l.out)
	if !d.measureLine(m) || !utf8.Valid(l.text[l.start:l.i]) {
		l.out = l.out[:start]
		if len(q.tags.byName)+len(q.fields.byName) > maxPlaces {
			q.forget()
		}
		return false
	}
	l.at = l.i
	return true
}

// measureLine appends meta and fields, and sets the measurement.
func (d *Decoder) measureLine(m *Measurement) bool {
	l, start := &d.lines, len(d.lines.out)
	l.out = append(l.out, 0, 0, 0, 0, byte(bson.TypeString))
	l.out = append(l.out, "name\x00\x00\x00\x00\x00"...)
	if l.string(endsName) == 0 || !d.quickTags() {
		return false
	}
	l.out = rawbson.EndDocument(l.out, start)
	middle := len(l.out)
	fields := d.quickFields()
	if fields == 0 || middle-start > maxMetaBytes || !fitsDocument(len(l.out)-middle, fields) {
		return false
	}
	kind, nanos, err := l.time()
	if err != nil {
		return false
	}
	timestamp := d.record.Timestamp
	when := readingOf(timestamp)
	if ok := kind != 0 || timestamp >= 0; kind != 0 {
		if when, ok = d.time.parseInteger(nanos); !ok {
			return false
		}
	} else if !ok {
		return false
	}
	m.Time = when.millis
	m.Meta = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: l.out[start:middle:middle]}
	m.Elements = l.out[middle:len(l.out):len(l.out)]
	return d.options.side(when.millis, timestamp) == 0
}

// quickTags appends the tags, which must stand in the order of their names.
func (d *Decoder) quickTags() bool {
	l, q := &d.lines, d.quickLines
	l.out = append(l.out, byte(bson.TypeEmbeddedDocument))
	l.out = append(l.out, "tags\x00\x00\x00\x00\x00"...)
	start := len(l.out) - 4
	for name := &q.tags.first; l.is(','); {
		l.i++
		before := name
		if name = d.nameOf(&q.tags, before); name == nil || before != &q.tags.first && !before.rises {
			return false
		}
		l.out = append(l.out, name.header...)
		l.out = append(l.out, 0, 0, 0, 0)
		if l.string(endsKey) == 0 {
			return false
		}
	}
	l.out = rawbson.EndDocument(l.out, start)
	return l.blank()
}

// quickFields appends the fields, and returns their number. Zero means that the line has an unusual or wrong field.
func (d *Decoder) quickFields() (n int) {
	l, q := &d.lines, d.quickLines
	for name := &q.fields.first; ; l.i++ {
		if name = d.nameOf(&q.fields, name); name == nil || name.seen == q.line {
			return 0
		}
		name.seen = q.line
		at := len(l.out)
		l.out = append(l.out, name.header...)
		kind, err := l.value()
		if err != nil {
			return 0
		}
		l.out[at] = byte(kind)
		if n++; !l.is(',') {
			return n
		}
	}
}

// nameOf reads a name and its equals sign. Nil means that the name cannot be stored as it is.
func (d *Decoder) nameOf(names *lineNames, before *lineName) *lineName {
	l := &d.lines
	name := before.next
	if rest := l.text[l.i:]; name == nil || len(rest) < len(name.text) || string(rest[:len(name.text)]) != string(name.text) {
		end := bytes.IndexByte(rest, '=')
		if end <= 0 {
			return nil
		}
		text := rest[:end+1]
		if name = names.byName[string(text)]; name == nil {
			if end > maxLiteral {
				return nil
			}
			name = d.newLineName(text, names == &d.quickLines.fields)
			names.byName[string(name.text)] = name
		}
		before.next, before.rises = name, bytes.Compare(before.header, name.header) < 0
	}
	if !name.usual {
		return nil
	}
	l.i += len(name.text)
	return name
}

// newLineName makes the entry of a name.
func (d *Decoder) newLineName(text []byte, isField bool) *lineName {
	name := text[:len(text)-1]
	usual := isUsualName(name) && utf8.Valid(name) && !(isField && d.options.isReserved(name))
	for _, c := range name {
		usual = usual && lineClasses[c] == 0
	}
	return &lineName{text: bytes.Clone(text), header: rawbson.AppendHeader(nil, bson.TypeString, name), usual: usual}
}
