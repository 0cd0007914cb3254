package measurement

import "bytes"

// frameBytes is how long the frame of a schema registry is: a zero byte and the schema's id.
const frameBytes = 5

// hasFrame tells whether a value begins as with a schema registry's frame.
func hasFrame(value []byte) bool { return len(value) >= frameBytes && value[0] == 0 }

// cutFrame parts a value into the frame that the options announce, empty where it is not there, and the rest.
func (d *Decoder) cutFrame(value []byte) (frame, text []byte) {
	if d.options.Framing == Confluent && hasFrame(value) {
		return value[:frameBytes], value[frameBytes:]
	}
	return nil, value
}

// framed is an element of a record as a value of its own, so that it can go back to the record's topic.
func framed(frame, element []byte) []byte {
	if len(frame) == 0 || element == nil {
		return element
	}
	return append(bytes.Clone(frame), element...)
}

// checkFrame refuses a record without the frame that is announced, and one with a frame that is not.
func (d *Decoder) checkFrame() *DecodeError {
	switch announced := d.options.Framing == Confluent; {
	case announced && len(d.frame) == 0:
		return newError(NotJSON, "", "%s does not begin with a zero byte and a schema's id, as EVENT_FRAMING=confluent says: "+
			"send it by a serializer of a schema registry, or set EVENT_FRAMING=none", quoteText(d.text))
	case announced || len(d.text) == 0 || d.text[0] != 0:
		return nil
	case hasFrame(d.text) && isJSONStart(d.text[frameBytes:]):
		return newError(NotJSON, "", "%s begins with the frame of a schema registry, and JSON behind it: set EVENT_FRAMING=confluent", quoteText(d.text))
	}
	return newError(NotJSON, "", "%s begins with a zero byte, as the frame of a schema registry does, but no JSON follows: "+
		"send JSON; Avro and Protobuf are not read", quoteText(d.text))
}

// explainFrame says of what follows a frame and is not JSON what it may be.
func (d *Decoder) explainFrame(err *DecodeError) *DecodeError {
	if len(d.frame) == 0 || err.Reason != NotJSON {
		return err
	}
	return newError(NotJSON, "", "what follows the frame of EVENT_FRAMING=confluent is not JSON: %s; "+
		"Avro and Protobuf have the same frame and are not read", quoteText(d.text))
}

// isJSONStart tells whether a text begins as an object or an array does.
func isJSONStart(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}
