package measurement

import (
	"bytes"
	"encoding/base64"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// appendParsed appends the content of a text to which a path of EVENT_PARSE leads. The content is JSON, or JSON in base64. The
// two cannot be confused. Other values stay as they are, so that a dead letter of an event that was already parsed can be read
// again.
func (s *stages) appendParsed(dst []byte, e rawbson.Element, at *edit) ([]byte, *DecodeError) {
	var text []byte
	switch e.Kind {
	case bson.TypeString:
		text = rawbson.Text(e.Value)
	case bson.TypeBinary:
		text = e.Value[5:]
	default:
		return s.appendWithin(dst, e, at)
	}
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if !isJSONStart(text) {
		decoded, ok := fromBase64(text)
		if !ok || !isJSONStart(decoded) {
			return nil, newError(NotJSON, "", "%s holds no JSON object or array, neither plain nor in base64, but EVENT_PARSE requires one: send one, or correct the setting", quoteText(text))
		}
		text = decoded
	}
	j := s.reader
	j.begin(text)
	j.out = j.out[:0]
	kind, err := j.value(1)
	if err == nil {
		err = j.endOf("the text holds more than one JSON value, but EVENT_PARSE reads one: %s follows at byte %d. Send an array of the values, or one text for each")
	}
	if err != nil {
		return nil, err
	}
	if len(at.children) == 0 {
		return rawbson.AppendElement(dst, kind, e.Name, j.out), nil
	}
	return s.appendWithin(dst, rawbson.Element{Kind: kind, Name: e.Name, Value: bytes.Clone(j.out)}, at) // the reader is needed for other texts
}

// fromBase64 decodes base64 in its usual or its URL alphabet, with or without padding.
func fromBase64(text []byte) ([]byte, bool) {
	text = bytes.TrimRight(bytes.TrimSpace(text), "=")
	encoding := base64.RawStdEncoding
	if bytes.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	decoded, err := encoding.AppendDecode(nil, text)
	return bytes.TrimPrefix(decoded, []byte(byteOrderMark)), err == nil && len(text) > 0
}
