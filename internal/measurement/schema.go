package measurement

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Headers of a record that name the schema of its value and of its key, which then have no frame.
const (
	schemaHeader    = "__value_schema_id"
	keySchemaHeader = "__key_schema_id"
)

const (
	// guidBytes is how long a schema's GUID is.
	guidBytes = 16
	// maxKnownSchemas bounds the compiled schemas that a decoder keeps.
	maxKnownSchemas = 1000
)

// SchemaID names a schema of a registry: a number, or a GUID where IsGUID is set.
type SchemaID struct {
	Number uint32
	GUID   [guidBytes]byte
	IsGUID bool
}

// String is the number in decimal, or the GUID as registries write it.
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
	// Cause is the error of Ask. Nil means that it was not asked.
	Cause error
}

// Error says which schema is missing.
func (e *NeedSchemaError) Error() string {
	if e.Cause != nil {
		return "the schema " + e.ID.String() + " cannot be known now: " + e.Cause.Error()
	}
	return "the schema " + e.ID.String() + " is not known yet"
}

// Unwrap is the cause.
func (e *NeedSchemaError) Unwrap() error { return e.Cause }

// Schema is what a registry has under an id.
type Schema struct {
	// Format is Avro, Protobuf, or JSON for a JSON Schema. Empty means Avro.
	Format Format
	// Text is an Avro schema as JSON; or the descriptors of a schema in Protobuf, a set whose last file is the schema's own.
	Text string
	// References are the Avro schemas whose types it names, each behind those that it refers to itself.
	References []string
	// Reason, where it is set, is why records of the schema cannot be read, and Detail explains it. Text is empty then.
	Reason Reason
	Detail string
}

// knownSchema is a schema that the decoder knows. What is needed of it is compiled once.
type knownSchema struct {
	format Format
	wrong  *DecodeError   // of each value and key. Nil means that it can be used.
	avro   *avroType      // of a schema in Avro
	plan   *avroPlan      // of its events
	isNone *DecodeError   // why it is no schema of events. Nil means that it is one.
	proto  *protoMessages // of a schema in Protobuf
}

// Learn tells the decoder a schema. Those that it was told before are forgotten once they are too many.
func (d *Decoder) Learn(id SchemaID, s Schema) { d.learn(id, s) }

// learn is Learn, and returns the schema.
func (d *Decoder) learn(id SchemaID, s Schema) *knownSchema {
	known := &knownSchema{format: cmp.Or(s.Format, Avro)}
	bad := func(format string, args ...any) *DecodeError {
		return newError(BadSchema, "", "schema %s: %s", id, fmt.Sprintf(format, args...))
	}
	if known.format != d.options.Format {
		known.isNone = bad("it is in %s, and EVENT_FORMAT=%s reads %s: set %s for its topic", languages[known.format], d.options.Format, languages[d.options.Format], wayOutOf[known.format])
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

// languages and wayOutOf have the languages of schemas, and the settings that read events of such schemas.
var (
	languages = map[Format]string{Avro: "Avro", Protobuf: "Protobuf", JSON: "JSON Schema"}
	wayOutOf  = map[Format]string{Avro: "EVENT_FORMAT=avro", Protobuf: "EVENT_FORMAT=protobuf", JSON: "EVENT_FORMAT=json and EVENT_FRAMING=confluent"}
)

// Forget makes the decoder ask for a schema again.
func (d *Decoder) Forget(id SchemaID) {
	delete(d.schemas, id)
	d.frame = d.frame[:0]
}

// known is the schema of an id. It sets what is needed where the schema is not known.
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

// again is an error of many records as that of one, which may get a path. It is nil for nil.
func again(err *DecodeError) *DecodeError {
	if err == nil {
		return nil
	}
	one := *err
	return &one
}

// chooseSchema chooses the schema of the record by its header or frame, and leaves the event in the text. Most records have the frame of
// the record before, and with it the schema that is chosen already.
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

// chooseNamed chooses the schema that the record names, and returns the header that names it, if it is one.
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

// schemaFrame is which schema a value or key has, by a header or by the frame before it.
type schemaFrame struct {
	id     SchemaID
	header string // Empty means that it is a frame.
	rest   []byte // behind the id: in the header or in the value
	value  []byte // the whole, with its frame
}

// frameOf reads which schema a value or key has. The last header of the name counts, else the frame.
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
		return f, newError(d.notRead(), "", "the header %s is %s, and names no schema: a zero byte and four bytes are an id, a byte 1 and sixteen bytes a GUID", header, quoteText(named))
	}
	if !hasFrame(value) {
		return f, newError(d.notRead(), "", "%s begins with no frame of a schema registry, a zero byte and the four bytes of a schema's id, and no header %s names a schema: "+
			"send it by a serializer of the registry, or set %s", quoteText(value), header, map[Format]string{
			Avro: "EVENT_SCHEMA_FILE to the schema of all events", Protobuf: "EVENT_PROTOBUF_FILE to the descriptors of all events",
		}[d.options.Format])
	}
	return schemaFrame{id: SchemaID{Number: binary.BigEndian.Uint32(value[1:])}, rest: value[frameBytes:], value: value}, nil
}

// end is what the frame is before: the rest of the value. Of a header nothing may be left, and the value is whole.
func (f *schemaFrame) end(reason Reason) ([]byte, *DecodeError) {
	switch {
	case f.header == "":
		return f.rest, nil
	case len(f.rest) > 0:
		return nil, newError(reason, "", "the header %s has %d bytes more than what names the schema %s", f.header, len(f.rest), f.id)
	}
	return f.value, nil
}

// notRead is the reason of a value that is not what the format says.
func (d *Decoder) notRead() Reason {
	if d.options.Format == Protobuf {
		return NotProtobuf
	}
	return NotAvro
}
