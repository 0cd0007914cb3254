package measurement

import (
	"encoding/binary"

	"waterwheel/internal/record"
)

// decodeProto decodes a record with one event in Protobuf.
func (d *Decoder) decodeProto() *DecodeError {
	if d.schemas != nil {
		if err := d.chooseSchema(); err != nil {
			return err
		}
	}
	if d.protoPlan != nil && d.readProtoQuickly() {
		return nil
	}
	d.proto.begin(d.text, d.options.MaxBytes)
	if err := d.proto.event(d.protoRoot); err != nil {
		return d.notProto(err)
	}
	return d.document(d.proto.out, d.proto.dotted)
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
	case n > 0 && size == uint64(len(text)-n) && new(protoReader).reads(d.protoRoot, text[n:], d.options.MaxBytes):
		return newError(NotProtobuf, "", "the value begins with the length of the message, as in a stream of messages: have its producer send only the message, in Java with toByteArray")
	}
	return err
}

// protoEvents returns the events of a value, for Events.
func (d *Decoder) protoEvents(r *record.Record, text []byte) (events [][]byte) {
	if d.schemas != nil {
		d.record, d.value = *r, text
		if d.chooseSchema() != nil {
			return nil
		}
		text = d.text
	}
	var reader protoReader
	if reader.reads(d.protoRoot, text, d.options.MaxBytes) {
		events = d.appendEvents(events, reader.out, reader.dotted)
	}
	return events
}
