package measurement

import (
	"bytes"

	"waterwheel/internal/words"
)

// frameBytes is the size of a schema registry's frame, which is a zero byte and the schema's id.
const frameBytes = 5

// hasFrame reports whether a value begins with what may be a schema registry's frame.
func hasFrame(value []byte) bool { return len(value) >= frameBytes && value[0] == 0 }

// cutFrame splits a value into its frame and the rest. The frame is empty if the options announce none or the value has none. The
// rest has no byte order mark, which some producers write before it.
func (d *Decoder) cutFrame(value []byte) (frame, text []byte) {
	if d.options.Framing != NoFraming && hasFrame(value) {
		frame, value = value[:frameBytes], value[frameBytes:]
	}
	return frame, bytes.TrimPrefix(value, []byte(byteOrderMark))
}

// checkFrame refuses a record that lacks the announced frame, and a record with a frame that is not announced.
func (d *Decoder) checkFrame() *DecodeError {
	announced := d.options.Framing == Confluent
	if len(d.wrap.frame) > 0 || !announced && (len(d.text) == 0 || d.text[0] != 0) {
		return nil
	}
	switch form := d.formOf(d.text); {
	case form != "":
		return newError(NotJSON, "", "the value %s", form)
	case len(bytes.Trim(d.text, "\x00")) == 0 && len(d.text) > 0:
		return newError(NotJSON, "", "the value has only %s: have its producer leave out the zero byte that ends a string in C", words.Count(len(d.text), "zero byte"))
	case announced:
		return newError(NotJSON, "", "%s does not begin with a zero byte and a schema's id, but EVENT_FRAMING=confluent requires both: "+
			"send it with a serializer of a schema registry, or set EVENT_FRAMING=auto if only some records have such a frame", quoteText(d.text))
	case hasFrame(d.text) && isJSONStart(d.text[frameBytes:]):
		return newError(NotJSON, "", "%s begins with the frame of a schema registry, and JSON follows: set EVENT_FRAMING=confluent", quoteText(d.text))
	case hasLongFrame(d.text):
		return newError(NotJSON, "", "%s begins with the frame of a schema registry whose ids have %s", quoteText(d.text), longIDs)
	}
	return newError(NotJSON, "", "%s begins with a zero byte, like the frame of a schema registry, but no JSON follows: "+
		framedOther, quoteText(d.text))
}

// framedOther ends a sentence about a frame that something else than JSON follows.
const framedOther = "for Avro or Protobuf set SCHEMA_REGISTRY_URL and EVENT_FORMAT=avro or EVENT_FORMAT=protobuf, otherwise send JSON"

// longIDs ends a sentence about a frame with a longer id.
const longIDs = "eight bytes: let its serializer write ids of four bytes, as Confluent's does, and set EVENT_FRAMING=confluent"

// hasLongFrame reports whether JSON follows a frame whose schema id has eight bytes.
func hasLongFrame(value []byte) bool {
	return hasFrame(value) && len(value) > 2*frameBytes-1 && isJSONStart(value[2*frameBytes-1:])
}

// notJSON explains why a value does not begin as JSON. err is the reader's error.
func (d *Decoder) notJSON(err *DecodeError) *DecodeError {
	what := "the value "
	if len(d.wrap.frame) > 0 {
		what = "the text after the frame of EVENT_FRAMING=" + string(d.options.Framing) + " "
	}
	switch form := d.formOf(d.text); {
	case err.Reason != NotJSON:
		return err
	case form != "":
		return newError(NotJSON, "", "%s%s", what, form)
	case hasLongFrame(d.value):
		return newError(NotJSON, "", "the frame of EVENT_FRAMING=%s has an id that seems to have %s", d.options.Framing, longIDs)
	case len(d.wrap.frame) > 0:
		return newError(NotJSON, "", "%sis not JSON: %s; "+framedOther, what, quoteText(d.text))
	}
	return err
}

// isJSONStart reports whether a text begins as an object or an array does.
func isJSONStart(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}
