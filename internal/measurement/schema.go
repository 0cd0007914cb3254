package measurement

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// schemaHeader is the header of a record that names the schema of its value, which then has no frame.
const schemaHeader = "__value_schema_id"

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
	// Text is the schema as JSON. References are the schemas whose types it names, each behind those that it refers to itself.
	Text       string
	References []string
	// Reason, where it is set, is why records of the schema cannot be read, and Detail explains it. Text is empty then.
	Reason Reason
	Detail string
}

// avroSchema is a schema that the decoder knows.
type avroSchema struct {
	root  *avroType
	plan  *avroPlan
	wrong *DecodeError // of each record. Nil means that records can be read.
}

// Learn tells the decoder a schema. Those that it was told before are forgotten once they are too many.
func (d *Decoder) Learn(id SchemaID, s Schema) {
	known := &avroSchema{}
	if s.Reason != "" {
		known.wrong = newError(s.Reason, "", "schema %s: %s", id, s.Detail)
	} else if root, err := compileAvro(s.Text, s.References...); err != nil {
		known.wrong = newError(BadSchema, "", "schema %s: %v", id, err)
	} else {
		known.root, known.plan = root, newAvroPlan(d, root)
	}
	if len(d.schemas) >= maxKnownSchemas {
		clear(d.schemas)
	}
	d.schemas[id] = known
}

// Forget makes the decoder ask for a schema again.
func (d *Decoder) Forget(id SchemaID) { delete(d.schemas, id) }

// chooseSchema chooses the schema of the record by its header or frame, and leaves the event in the text. It sets what is needed
// where the schema is not known.
func (d *Decoder) chooseSchema() *DecodeError {
	id, text, err := schemaOf(d.record.Headers, d.value)
	if err != nil {
		return err
	}
	known := d.schemas[id]
	var cause error
	if known == nil && d.options.Ask != nil {
		var s Schema
		if s, cause = d.options.Ask(id); cause == nil {
			d.Learn(id, s)
			known = d.schemas[id]
		}
	}
	if known == nil {
		d.need = &NeedSchemaError{id, cause}
		return newError(UnknownSchema, "", "%v", d.need)
	}
	if known.wrong != nil {
		wrong := *known.wrong
		return &wrong
	}
	d.text, d.avroRoot, d.avroPlan = text, known.root, known.plan
	return nil
}

// schemaOf reads which schema a value has. The last header of its name counts, else the frame.
func schemaOf(headers, value []byte) (id SchemaID, text []byte, err *DecodeError) {
	if named := lastHeader(headers, schemaHeader); named != nil {
		switch {
		case len(named) == 1+4 && named[0] == 0:
			return SchemaID{Number: binary.BigEndian.Uint32(named[1:])}, value, nil
		case len(named) == 1+guidBytes && named[0] == 1:
			return SchemaID{GUID: [guidBytes]byte(named[1:]), IsGUID: true}, value, nil
		}
		return id, nil, newError(NotAvro, "", "the header %s is %s, and names no schema: a zero byte and four bytes are an id, a byte 1 and sixteen bytes a GUID", schemaHeader, quoteText(named))
	}
	if !hasFrame(value) {
		return id, nil, newError(NotAvro, "", "%s begins with no frame of a schema registry, a zero byte and the four bytes of a schema's id, and no header %s names a schema: "+
			"send it by a serializer of the registry, or set EVENT_SCHEMA_FILE to the schema of all events", quoteText(value), schemaHeader)
	}
	return SchemaID{Number: binary.BigEndian.Uint32(value[1:])}, value[frameBytes:], nil
}
