package measurement

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// source says where a path of time or meta begins.
type source uint8

const (
	fromEvent  source = iota
	fromKey           // "key:" is the record's key, "key:device" a member of a key that is a JSON object
	fromHeader        // "header:topic" is the record's last header with that name
)

const (
	keyPrefix    = "key:"
	headerPrefix = "header:"
)

// splitSource returns where a path begins, and the rest of the path.
func splitSource(path string) (source, string) {
	if rest, ok := strings.CutPrefix(path, keyPrefix); ok {
		return fromKey, rest
	}
	if rest, ok := strings.CutPrefix(path, headerPrefix); ok {
		return fromHeader, rest
	}
	return fromEvent, path
}

// isOfRecord reports whether a path leads to the record's key or headers, and not into the event.
func isOfRecord(path string) bool {
	s, _ := splitSource(path)
	return s != fromEvent
}

// checkSource returns why a path to the record's key or headers leads nowhere.
func checkSource(path string) error {
	switch s, rest := splitSource(path); {
	case s == fromHeader && rest == "":
		return errors.New("names no header: write header:name")
	case s == fromKey:
		return CheckPath(rest)
	}
	return nil
}

// readSources reads the values to which paths lead in the record itself, before its events are read.
func (d *Decoder) readSources() *DecodeError {
	clear(d.recordMeta)
	for i, part := range d.paths.meta {
		if part.source == fromEvent {
			continue
		}
		e, err := d.readSource(part.source, part.inRecord)
		if err == nil && e.Kind != 0 {
			d.fields = d.fields[:0]
			var meta bson.RawValue
			meta, err = d.normalize(e.Kind, e.Value)
			d.recordMeta[i] = rawbson.Element{Kind: meta.Type, Value: meta.Value}
		}
		if err != nil {
			err.Path = part.path
			return err
		}
	}
	d.recordTime, d.recordRank = rawbson.Element{}, 0
	for rank, path := range d.paths.times {
		if s, name := splitSource(path); s == fromHeader && d.recordTime.Kind == 0 {
			e, err := d.readSource(s, name)
			if err != nil {
				return err.within(path)
			}
			d.recordTime, d.recordRank = e, rank
		}
	}
	d.recordTime.Value = append([]byte(nil), d.recordTime.Value...)
	return nil
}

// readSource returns a value of the record. Kind 0 means that the record lacks it. The value is valid until the next one is read.
func (d *Decoder) readSource(s source, name string) (e rawbson.Element, err *DecodeError) {
	if s == fromHeader {
		value := lastHeader(d.record.Headers, name)
		if value == nil {
			return e, nil
		}
		return d.textKey(value)
	}
	if d.record.Key == nil {
		return e, nil
	}
	if e, err = d.parseKey(d.record.Key); err != nil || name == "" {
		return e, err
	}
	if e.Kind != bson.TypeEmbeddedDocument {
		return e, newError(BadMeta, "", "the record's key %s is not an object (in JSON or by a schema), but a path leads into it: send an object, or take the whole key with the path key:", quoteValue(e.Kind, e.Value))
	}
	return lookUp(e.Value, strings.Split(name, ".")), nil
}

// lastHeader returns the value of the last header of a name, or nil if there is none. The headers are encoded as in Kafka.
func lastHeader(raw []byte, name string) (value []byte) {
	count, rest, ok := cutVarint(raw)
	for ; ok && count > 0; count-- {
		var key, of []byte
		if key, rest, ok = cutBytes(rest); !ok {
			break
		}
		if of, rest, ok = cutBytes(rest); ok && string(key) == name {
			value = of
		}
	}
	return value
}

// cutBytes cuts bytes off, which follow their length. It returns nil if the length is negative.
func cutBytes(raw []byte) (value, rest []byte, ok bool) {
	n, rest, ok := cutVarint(raw)
	if !ok || n > int64(len(rest)) {
		return nil, nil, false
	}
	if n < 0 {
		return nil, rest, true
	}
	return rest[:n:n], rest[n:], true
}

// cutVarint cuts a number off, encoded as in Kafka's records, that is, as zigzag with seven bits per byte.
func cutVarint(raw []byte) (n int64, rest []byte, ok bool) {
	var bits uint64
	for i, c := range raw {
		if i == 10 {
			break
		}
		bits |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(bits>>1) ^ -int64(bits&1), raw[i+1:], true
		}
	}
	return 0, nil, false
}

// sourceName returns the name that a part of meta gets from a path to the record's key or headers.
func sourceName(path string) string {
	switch s, rest := splitSource(path); {
	case s == fromHeader:
		return rest
	case rest == "":
		return "key"
	default:
		return rest[strings.LastIndexByte(rest, '.')+1:]
	}
}

// validName reports whether a stored measurement can have a field of this name.
func validName(name string) bool {
	return name != "" && name[0] != '$' && !strings.ContainsAny(name, ".\x00") && utf8.ValidString(name)
}

// readKey makes meta of the record's key. It parses a key that is a JSON object or has a frame, and takes any other as text.
func (d *Decoder) readKey() *DecodeError {
	const path = "key"
	key := d.record.Key
	if key == nil {
		return newError(MissingMeta, path, "the record has no key: produce it with a key, or set EVENT_META_FROM to value or none")
	}
	d.fields = d.fields[:0]
	value, err := d.parseKey(key)
	if err == nil {
		d.keyMeta, err = d.normalize(value.Kind, value.Value)
	}
	if err != nil {
		return err.within(path)
	}
	return nil
}

// parseKey reads the key. Its error concerns a JSON object, a text or a framed value that cannot be stored.
func (d *Decoder) parseKey(key []byte) (value rawbson.Element, err *DecodeError) {
	if d.schemas != nil && (hasFrame(key) || lastHeader(d.record.Headers, keySchemaHeader) != nil) {
		return d.schemaKey(key)
	}
	if hasFrame(key) {
		return d.framedKey(key)
	}
	if !bytes.HasPrefix(bytes.TrimLeft(key, " \t\r\n"), []byte{'{'}) {
		return d.textKey(key)
	}
	if value, err = d.jsonKey(key); d.json.broken {
		return d.textKey(key)
	}
	return value, err
}

// framedKey reads a key that begins as with a schema registry's frame. The schema's id changes with the schema and names no
// series, so framedKey cuts it off. Behind the frame stands any JSON value, and a text is in quotes.
func (d *Decoder) framedKey(key []byte) (value rawbson.Element, err *DecodeError) {
	if d.options.Framing == NoFraming {
		wayOut := "have its producer write the key as text"
		if d.options.Format == Avro || d.options.Format == Protobuf {
			wayOut = "set SCHEMA_REGISTRY_URL for the schemas of keys and values, or " + wayOut
		}
		if d.options.Format != JSON && d.options.Format != ExtJSON {
			return value, newError(BadMeta, "", "%s begins with a zero byte, like the frame of a schema registry: %s", quoteText(key), wayOut)
		}
		return value, newError(BadMeta, "", "%s begins with a zero byte, like the frame of a schema registry: "+
			"set EVENT_FRAMING=confluent if the values have such a frame too, otherwise EVENT_FRAMING=auto, or %s", quoteText(key), wayOut)
	}
	text := key[frameBytes:]
	if value, err = d.jsonKey(text); d.json.broken {
		return value, newError(BadMeta, "", "the key after the frame of EVENT_FRAMING=%s is not JSON: %s; "+
			"keys in Avro and Protobuf are read only with values of the same format", d.options.Framing, quoteText(text))
	}
	return value, err
}

// jsonKey reads a key that is one JSON value. If the key is not JSON, the reader is broken and the error is of no use.
func (d *Decoder) jsonKey(text []byte) (value rawbson.Element, err *DecodeError) {
	j := d.json
	j.begin(text)
	j.clear()
	value.Kind, err = j.value(0)
	if !j.broken && j.skip() == nil {
		_ = j.end() // checks only whether the key is JSON
	}
	value.Value = j.out
	if err == nil {
		value, err = d.nestKey(value, j.dotted)
	}
	return value, err
}

// nestKey turns dotted names of a key into objects, if names are nested.
func (d *Decoder) nestKey(value rawbson.Element, dotted bool) (rawbson.Element, *DecodeError) {
	var err *DecodeError
	if d.dotted = dotted; value.Kind == bson.TypeEmbeddedDocument {
		value.Value, d.dotted, err = d.nester.undot(&d.options, value.Value, dotted)
	}
	return value, err
}

func (d *Decoder) textKey(key []byte) (value rawbson.Element, err *DecodeError) {
	if !utf8.Valid(key) {
		return value, badText("", key)
	}
	d.keyText = rawbson.AppendString(d.keyText[:0], key)
	return rawbson.Element{Kind: bson.TypeString, Value: d.keyText}, nil
}

// schemaKey reads a key by its schema, which may be in another language than the value's schema. The key may be any value: a
// text, a number or an object.
func (d *Decoder) schemaKey(key []byte) (value rawbson.Element, err *DecodeError) {
	f, err := d.frameOf(keySchemaHeader, key)
	if err != nil {
		return value, newError(BadMeta, "", "%s", err.Detail)
	}
	known, err := d.known(f.id)
	if err != nil {
		return value, err
	}
	switch known.format {
	case JSON:
		return d.jsonSchemaKey(&f)
	case Protobuf:
		return d.protoKey(known.proto, &f)
	}
	text, err := f.end(BadMeta)
	if err != nil {
		return value, err
	}
	d.avro.begin(text, d.localClock())
	kind, err := d.avro.value(known.avro, 1)
	switch left := len(text) - d.avro.at; {
	case err != nil:
		return value, newError(BadMeta, err.Path, "read with the schema %s: %s", f.id, err.Detail)
	case left > 0:
		return value, newError(BadMeta, "", "%d of the key's %d bytes remain after the key that the schema %s describes: was the key written with another schema?", left, len(text), f.id)
	}
	return d.nestKey(rawbson.Element{Kind: kind, Value: d.avro.out}, d.avro.dotted)
}

// jsonSchemaKey reads a key in JSON behind a frame.
func (d *Decoder) jsonSchemaKey(f *schemaFrame) (value rawbson.Element, err *DecodeError) {
	text, err := f.end(BadMeta)
	if err != nil {
		return value, err
	}
	if value, err = d.jsonKey(text); d.json.broken {
		return value, newError(BadMeta, "", "%s is not JSON, but the schema %s is a JSON Schema", quoteText(text), f.id)
	}
	return value, err
}

// protoKey reads a key in Protobuf.
func (d *Decoder) protoKey(file *protoMessages, f *schemaFrame) (value rawbson.Element, err *DecodeError) {
	c, err := d.choiceOf(file, f, "")
	if err != nil {
		return value, newError(BadMeta, "", "%s", err.Detail)
	}
	if wrong := c.compile(); wrong != nil {
		return value, newError(BadSchema, "", "schema %s: %v", f.id, wrong)
	}
	text, err := f.end(BadMeta)
	if err != nil {
		return value, err
	}
	d.proto.begin(text)
	kind, err := d.proto.value(c.root, protoSlot{first: 1}, 1)
	if err != nil {
		return value, newError(BadMeta, err.Path, "read with the schema %s: %s", f.id, err.Detail)
	}
	return d.nestKey(rawbson.Element{Kind: kind, Value: d.proto.out}, d.proto.dotted)
}
