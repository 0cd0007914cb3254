package measurement

import (
	"bytes"

	"waterwheel/internal/record"
)

// decodeAvro decodes a record with one event in Avro.
func (d *Decoder) decodeAvro() *DecodeError {
	if d.schemas != nil {
		if err := d.chooseSchema(); err != nil {
			return err
		}
	}
	if d.avroPlan != nil && d.readAvroQuickly() {
		return nil
	}
	event, err := d.avroEvent(&d.avro, d.text)
	if err != nil {
		return d.notAvro(err)
	}
	if event == nil {
		d.tombstones++
		return nil
	}
	return d.document(event, d.avro.dotted)
}

// avroEvent returns the event of a value as a document. Nil means that the value is null.
func (d *Decoder) avroEvent(r *avroReader, text []byte) ([]byte, *DecodeError) {
	r.begin(text, d.options.MaxBytes, d.localClock())
	isNull, err := r.event(d.avroRoot)
	if err != nil || isNull {
		return nil, err
	}
	return r.out, nil
}

// localClock returns what reads times without a zone. Nil means that EVENT_TIME_ZONE is not set.
func (d *Decoder) localClock() *timeParser {
	if d.options.TimeZone == "" {
		return nil
	}
	return &d.time
}

// notAvro explains why a value is not of the schema. err is the reader's error.
func (d *Decoder) notAvro(err *DecodeError) *DecodeError {
	switch text := d.text; {
	case err.Reason != NotAvro && err.Reason != BadUTF8:
		return err
	case isJSONStart(text):
		return newError(NotAvro, "", "the value begins as JSON does: set EVENT_FORMAT=json")
	case bytes.HasPrefix(text, []byte("Obj\x01")):
		return newError(NotAvro, "", "the value is an Avro file with a schema and blocks of events: send each event in its own record")
	case bytes.HasPrefix(text, []byte("\xc3\x01")):
		return newError(NotAvro, "", "the value begins like Avro's single-object encoding, with the fingerprint of a schema, which is not supported: have its producer send only the event")
	case hasFrame(text) && d.schemas == nil && d.readsBehindFrame(text):
		return newError(NotAvro, "", "the value begins with the frame of a schema registry, and an event of the schema follows: set SCHEMA_REGISTRY_URL instead of EVENT_SCHEMA, or have its producer send the event without the frame")
	}
	return err
}

// readsBehindFrame reports whether an event of the schema stands behind a frame.
func (d *Decoder) readsBehindFrame(text []byte) bool {
	var r avroReader
	_, err := d.avroEvent(&r, text[frameBytes:])
	return err == nil
}

// avroEvents returns the events of a value, for Events.
func (d *Decoder) avroEvents(r *record.Record, text []byte) (events [][]byte) {
	if d.schemas != nil {
		d.record, d.value = *r, text
		if d.chooseSchema() != nil {
			return nil
		}
		text = d.text
	}
	var reader avroReader
	if event, err := d.avroEvent(&reader, text); err == nil && event != nil {
		events = d.appendEvents(events, event, reader.dotted)
	}
	return events
}
