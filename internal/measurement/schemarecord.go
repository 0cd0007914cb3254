package measurement

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"waterwheel/internal/record"
)

// schemaReader is the common part of the readers of Avro and Protobuf, which append BSON.
type schemaReader struct {
	text     []byte
	out      []byte
	limit    int // largest size of out in bytes
	maxBytes int // as EVENT_MAX_BYTES
	decimals Decimals
	dotted   bool // a name in a map has a dot

	// For values that go straight into a measurement:
	dropNulls bool // fields that are null are left out
	isOdd     bool // a map has a name that the rules of names must judge
}

func newSchemaReader(o *Options) schemaReader {
	return schemaReader{maxBytes: o.MaxBytes, decimals: o.Decimals}
}

// begin begins a record's value.
func (r *schemaReader) begin(text []byte) {
	r.text, r.out, r.limit = text, r.out[:0], maxGrowth*r.maxBytes
	r.dotted, r.dropNulls, r.isOdd = false, false, false
}

// grown refuses an event that becomes too large as BSON. In Avro, types that take no bytes can repeat without end. In Protobuf,
// absent fields are written as zeros, and numbers take less room than in BSON.
func (r *schemaReader) grown() *DecodeError {
	if len(r.out) > r.limit {
		return newError(TooLarge, "", "the event takes more than %d bytes as BSON, which is %d times EVENT_MAX_BYTES: split the event", r.limit, maxGrowth)
	}
	return nil
}

// noteName checks a name in a map, and notes whether it is unusual.
func (r *schemaReader) noteName(name []byte) *DecodeError {
	switch {
	case bytes.IndexByte(name, 0) >= 0:
		return newError(BadFieldName, "", "%s contains a zero byte, which BSON does not allow in names: rename the field", quoteText(name))
	case !utf8.Valid(name):
		return badText("", name)
	}
	hasDot := bytes.IndexByte(name, '.') >= 0
	r.dotted = r.dotted || hasDot
	r.isOdd = r.isOdd || hasDot || !isUsualName(name)
	return nil
}

// chooseSchema chooses the record's schema by its header or frame, and leaves the event in d.text. Most records have the frame of
// the previous record, whose schema is already chosen.
func (d *Decoder) chooseSchema() *DecodeError {
	if len(d.frame) > 0 && bytes.HasPrefix(d.value, d.frame) && lastHeader(d.record.Headers, schemaHeader) == nil {
		d.text = d.value[len(d.frame):]
		return nil
	}
	d.frame = d.frame[:0]
	header, err := d.chooseNamed()
	if err == nil && header == "" {
		d.frame = append(d.frame, d.value[:len(d.value)-len(d.text)]...)
	}
	return err
}

// chooseNamed chooses the schema that the record names, and returns the header that names it. The header is empty if a frame
// names it.
func (d *Decoder) chooseNamed() (header string, err *DecodeError) {
	f, err := d.frameOf(schemaHeader, d.value)
	if err != nil {
		return "", err
	}
	known, err := d.known(f.id)
	if err == nil {
		err = again(known.isNone)
	}
	if err != nil {
		return "", err
	}
	if known.format == Protobuf {
		return f.header, d.chooseMessage(known.proto, f)
	}
	d.text, err = f.end(NotAvro)
	d.avroRoot, d.avroPlan = known.avro, known.plan
	return f.header, err
}

// decodeBySchema decodes a record with one event in Avro or Protobuf.
func (d *Decoder) decodeBySchema() *DecodeError {
	if d.schemas != nil {
		if err := d.chooseSchema(); err != nil {
			return err
		}
	}
	if d.options.Format == Avro {
		return d.decodeAvro()
	}
	return d.decodeProto()
}

// schemaEvents returns the event of a value in Avro or Protobuf, for Events.
func (d *Decoder) schemaEvents(r *record.Record, text []byte) [][]byte {
	if d.schemas != nil {
		d.record, d.value = *r, text
		if d.chooseSchema() != nil {
			return nil
		}
		text = d.text
	}
	if d.options.Format == Avro {
		reader := newAvroReader(&d.options)
		if event, err := d.avroEvent(&reader, text); err == nil && event != nil {
			return d.appendEvents(nil, event, reader.dotted)
		}
		return nil
	}
	reader := newProtoReader(&d.options)
	if reader.reads(d.protoRoot, text) {
		return d.appendEvents(nil, reader.out, reader.dotted)
	}
	return nil
}

// decodeAvro decodes the event in Avro.
func (d *Decoder) decodeAvro() *DecodeError {
	if d.avroPlan != nil && d.readPlanned(&d.avroPlan.plan, d.measureAvro) {
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
	r.begin(text, d.localClock())
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
	r := newAvroReader(&d.options)
	_, err := d.avroEvent(&r, text[frameBytes:])
	return err == nil
}

// decodeProto decodes the event in Protobuf.
func (d *Decoder) decodeProto() *DecodeError {
	if d.protoPlan != nil && d.readPlanned(&d.protoPlan.plan, d.measureProto) {
		return nil
	}
	d.proto.begin(d.text)
	if err := d.proto.event(d.protoRoot); err != nil {
		return d.notProto(err)
	}
	return d.document(d.proto.out, d.proto.dotted)
}

// readsProto reports whether a text is an event of the message.
func (d *Decoder) readsProto(text []byte) bool {
	r := newProtoReader(&d.options)
	return r.reads(d.protoRoot, text)
}

// notProto explains why a value is not of the message. err is the reader's error.
func (d *Decoder) notProto(err *DecodeError) *DecodeError {
	text := d.text
	size, n := binary.Uvarint(text)
	switch {
	case err.Reason != NotProtobuf && err.Reason != BadUTF8:
		return err
	case isJSONStart(text):
		return newError(NotProtobuf, "", "the value begins as JSON does: set EVENT_FORMAT=json")
	case hasFrame(text) && d.schemas == nil:
		return newError(NotProtobuf, "", "the value begins with a zero byte, like the frame of a schema registry and unlike any message: set SCHEMA_REGISTRY_URL instead of EVENT_PROTOBUF_FILE, or have its producer send the message without the frame")
	case n > 0 && size == uint64(len(text)-n) && d.readsProto(text[n:]):
		return newError(NotProtobuf, "", "the value begins with the length of the message, as in a stream of messages: have its producer send only the message, in Java with toByteArray")
	}
	return err
}
