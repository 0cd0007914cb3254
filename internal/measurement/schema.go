package measurement

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Headers of a record that name the schemas of its value and of its key. A value or key whose schema a header names has no frame.
const (
	schemaHeader    = "__value_schema_id"
	keySchemaHeader = "__key_schema_id"
)

// NamesSchema reports whether a header of this name names the schema of a record's value or key.
func NamesSchema(header string) bool { return header == schemaHeader || header == keySchemaHeader }

const (
	// guidBytes is the length of a schema's GUID in bytes.
	guidBytes = 16
	// maxKnownSchemas bounds the compiled schemas that a decoder keeps.
	maxKnownSchemas = 1000
)

// SchemaID names a schema of a registry by a number, or by a GUID if IsGUID is set.
type SchemaID struct {
	Number uint32
	GUID   [guidBytes]byte
	IsGUID bool
}

// String returns the number in decimal, or the GUID as registries write it.
func (id SchemaID) String() string {
	if !id.IsGUID {
		return strconv.FormatUint(uint64(id.Number), 10)
	}
	text := hex.EncodeToString(id.GUID[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// NeedSchemaError is the error of a record whose schema the decoder does not know. After Learn the record can be decoded again.
type NeedSchemaError struct {
	ID SchemaID
	// Cause is the error of Ask. Nil means that Ask was not called.
	Cause error
}

// Error says which schema is missing.
func (e *NeedSchemaError) Error() string {
	if e.Cause != nil {
		return "the schema " + e.ID.String() + " cannot be read now: " + e.Cause.Error()
	}
	return "the schema " + e.ID.String() + " is not known yet"
}

// Unwrap returns the cause.
func (e *NeedSchemaError) Unwrap() error { return e.Cause }

// Schema is what a registry has under an id.
type Schema struct {
	// Format is Avro, Protobuf, or JSON for a JSON Schema. Empty means Avro.
	Format Format
	// Text is an Avro schema as JSON, or the descriptors of a Protobuf schema. The last file in the set of descriptors is the
	// schema's own.
	Text string
	// References are the Avro schemas whose types the schema uses. Each follows the schemas to which it refers itself.
	References []string
	// Reason says why records of the schema cannot be read, and Detail explains it. Empty means that they can be read. Text is
	// empty if Reason is set.
	Reason Reason
	Detail string
}

// knownSchema is a schema that the decoder knows, compiled.
type knownSchema struct {
	format Format
	wrong  *DecodeError   // the error of every value and key of the schema. Nil means that the schema can be used.
	avro   *avroType      // the type of an Avro schema
	plan   *avroPlan      // the plan of its events
	isNone *DecodeError   // why its values are no events. Nil means that they are.
	proto  *protoMessages // the messages of a Protobuf schema
}

// Learn tells the decoder a schema. When the decoder knows too many schemas, it forgets all earlier ones.
func (d *Decoder) Learn(id SchemaID, s Schema) { d.learn(id, s) }

// learn is Learn, and returns the compiled schema.
func (d *Decoder) learn(id SchemaID, s Schema) *knownSchema {
	known := &knownSchema{format: cmp.Or(s.Format, Avro)}
	bad := func(format string, args ...any) *DecodeError {
		return newError(BadSchema, "", "schema %s: %s", id, fmt.Sprintf(format, args...))
	}
	if known.format != d.options.Format {
		known.isNone = bad("its type is %s, but EVENT_FORMAT=%s reads %s: set %s for this topic", languages[known.format], d.options.Format, languages[d.options.Format], wayOutOf[known.format])
	}
	var err error
	switch {
	case s.Reason != "":
		known.wrong = newError(s.Reason, "", "schema %s: %s", id, s.Detail)
	case known.format == Avro:
		if known.avro, err = compileAvroType(s.Text, s.References...); err != nil {
			known.wrong = bad("%v", err)
		} else if known.isNone == nil && !known.avro.isEvent() {
			known.isNone = bad("%v", errNoRecord)
		} else if known.isNone == nil {
			known.plan = newAvroPlan(d, known.avro)
		}
	case known.format == Protobuf:
		if known.proto, err = newProtoMessages(s.Text); err != nil {
			known.wrong = bad("%v", err)
		}
	}
	if len(d.schemas) >= maxKnownSchemas {
		clear(d.schemas)
	}
	d.schemas[id], d.frame = known, d.frame[:0]
	return known
}

// languages and wayOutOf hold the languages of schemas, and the settings that read events of such schemas.
var (
	languages = map[Format]string{Avro: "Avro", Protobuf: "Protobuf", JSON: "JSON Schema"}
	wayOutOf  = map[Format]string{Avro: "EVENT_FORMAT=avro", Protobuf: "EVENT_FORMAT=protobuf", JSON: "EVENT_FORMAT=json and EVENT_FRAMING=confluent"}
)

// Forget makes the decoder forget a schema, so that it asks for the schema again.
func (d *Decoder) Forget(id SchemaID) {
	delete(d.schemas, id)
	d.frame = d.frame[:0]
}

// known returns the schema of an id, and asks for it if necessary. It sets d.need if the schema is still unknown.
func (d *Decoder) known(id SchemaID) (*knownSchema, *DecodeError) {
	known := d.schemas[id]
	var cause error
	if known == nil && d.options.Ask != nil {
		var s Schema
		if s, cause = d.options.Ask(id); cause == nil {
			known = d.learn(id, s)
		}
	}
	if known == nil {
		d.need = &NeedSchemaError{id, cause}
		return nil, newError(UnknownSchema, "", "%v", d.need)
	}
	return known, again(known.wrong)
}

// again copies an error that many records share, so that the error of one record can get a path. It returns nil for nil.
func again(err *DecodeError) *DecodeError {
	if err == nil {
		return nil
	}
	one := *err
	return &one
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

// schemaFrame says which schema a value or key has, by a header or by the frame before it.
type schemaFrame struct {
	id     SchemaID
	header string // Empty means that a frame names the schema.
	rest   []byte // the bytes behind the id, in the header or in the value
	value  []byte // the whole value, with its frame
}

// frameOf reads which schema a value or key has. The last header of the given name counts. Without one, the frame counts.
func (d *Decoder) frameOf(header string, value []byte) (f schemaFrame, err *DecodeError) {
	if named := lastHeader(d.record.Headers, header); named != nil {
		f = schemaFrame{header: header, value: value}
		switch {
		case len(named) >= 1+4 && named[0] == 0:
			f.id.Number, f.rest = binary.BigEndian.Uint32(named[1:]), named[1+4:]
			return f, nil
		case len(named) >= 1+guidBytes && named[0] == 1:
			f.id, f.rest = SchemaID{GUID: [guidBytes]byte(named[1:]), IsGUID: true}, named[1+guidBytes:]
			return f, nil
		}
		return f, newError(d.notRead(), "", "the header %s is %s, which names no schema: send an id (a zero byte and four bytes) or a GUID (a byte 1 and sixteen bytes)", header, quoteText(named))
	}
	if !hasFrame(value) {
		return f, newError(d.notRead(), "", "%s does not begin with the frame of a schema registry (a zero byte and the four bytes of a schema's id), and no header %s names a schema: "+
			"send it with a serializer of the registry, or set %s", quoteText(value), header, map[Format]string{
			Avro: "EVENT_SCHEMA_FILE to the schema of all events", Protobuf: "EVENT_PROTOBUF_FILE to the descriptors of all events",
		}[d.options.Format])
	}
	return schemaFrame{id: SchemaID{Number: binary.BigEndian.Uint32(value[1:])}, rest: value[frameBytes:], value: value}, nil
}

// end returns the bytes behind the frame. If a header names the schema, nothing may follow the id in it, and end returns the
// whole value.
func (f *schemaFrame) end(reason Reason) ([]byte, *DecodeError) {
	switch {
	case f.header == "":
		return f.rest, nil
	case len(f.rest) > 0:
		return nil, newError(reason, "", "the header %s has %d extra bytes after the id of the schema %s", f.header, len(f.rest), f.id)
	}
	return f.value, nil
}

// notRead is the reason for a value that is not in the format.
func (d *Decoder) notRead() Reason {
	if d.options.Format == Protobuf {
		return NotProtobuf
	}
	return NotAvro
}
