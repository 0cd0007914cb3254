package measurement

import (
	"bytes"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
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
			} else if err = d.decodeLine(event, line, err); err != nil {
				return err
			}
			if !more {
				return d.tooManyBad()
			}
		case isQuick:
			d.add(m)
			return nil
		default:
			return d.onlyLine(event, err)
		}
	}
}

// onlyLine decodes the event of the record's only line, or the error of reading it.
func (d *Decoder) onlyLine(event []byte, err *DecodeError) *DecodeError {
	if err != nil {
		return d.notInflux(err)
	}
	return d.document(event, d.lines.dotted)
}

// decodeLine decodes the event of one of several lines, or adds the error of reading it. The returned error concerns the whole
// record.
func (d *Decoder) decodeLine(event, line []byte, err *DecodeError) *DecodeError {
	if d.isTooBad() {
		d.parts++
		return nil
	}
	var m Measurement
	if err == nil && d.walker != nil && d.walker.decode(event, &m) {
		d.addPart(m, nil)
		return nil
	}
	return d.decodeDocument(event, d.lines.dotted, err, line)
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
