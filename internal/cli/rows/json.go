package rows

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// jsonWriter writes a line of relaxed Extended JSON for each row, with the names under which its parts are stored.
type jsonWriter struct {
	o        Options
	w        io.Writer
	document []byte
}

// NewJSON returns a Writer of lines of relaxed Extended JSON.
func NewJSON(w io.Writer, o Options) Writer { return &jsonWriter{o: o, w: w} }

// Write implements Writer.
func (j *jsonWriter) Write(r Row) error {
	start, d := bsoncore.AppendDocumentStart(j.document[:0])
	d = bsoncore.AppendDateTimeElement(d, j.o.TimeField, r.Time.UnixMilli())
	if r.Meta.Type != 0 {
		d = appendElement(d, j.o.MetaField, r.Meta)
	}
	for name, v := range j.o.fields(r) {
		d = appendElement(d, name, v)
	}
	d, err := bsoncore.AppendDocumentEnd(d, start)
	if err != nil {
		return fmt.Errorf("assembling a measurement: %w", err)
	}
	j.document = d
	line, err := bson.MarshalExtJSON(bson.Raw(d), false, false)
	if err != nil {
		return fmt.Errorf("writing a measurement as JSON: %w", err)
	}
	_, err = j.w.Write(append(line, '\n'))
	return err
}

func appendElement(d []byte, name string, v bson.RawValue) []byte {
	return append(bsoncore.AppendHeader(d, bsoncore.Type(v.Type), name), v.Value...)
}

// Flush implements Writer.
func (j *jsonWriter) Flush() error { return nil }

// Omitted implements Writer.
func (j *jsonWriter) Omitted() ([]string, int64) { return nil, 0 }

// AppendFlat appends a row as one flat JSON object. The time is in ISO 8601. The parts of the meta and nested fields have their
// dotted paths as names. Other programs can read it as a row of a table. Bytes become base64. A number that JSON cannot represent
// (NaN, infinity) becomes null.
func (o *Options) AppendFlat(dst []byte, r Row) []byte {
	dst = append(dst, '{')
	dst = appendName(dst, o.TimeField)
	dst = appendString(dst, Time(r.Time, o.Location))
	if r.Meta.Type != 0 {
		dst = appendFlat(dst, o.MetaField, r.Meta)
	}
	for name, v := range o.fields(r) {
		dst = appendFlat(dst, name, v)
	}
	return append(dst, '}')
}

// AppendFlatMeta appends only the parts of a meta, in the form of AppendFlat.
func (o *Options) AppendFlatMeta(dst []byte, meta bson.RawValue) []byte {
	dst = append(dst, '{')
	if meta.Type != 0 {
		dst = appendFlat(dst, o.MetaField, meta)
	}
	return append(dst, '}')
}

// appendFlat appends a value under its path. An object becomes several values.
func appendFlat(dst []byte, path string, v bson.RawValue) []byte {
	if object, ok := v.DocumentOK(); ok {
		elements, _ := object.Elements()
		for _, e := range elements {
			dst = appendFlat(dst, path+"."+e.Key(), e.Value())
		}
		if len(elements) > 0 {
			return dst
		}
	}
	return appendPlain(appendName(dst, path), v)
}

// appendPlain appends a value as plain JSON.
func appendPlain(dst []byte, v bson.RawValue) []byte {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return strconv.AppendInt(dst, v.AsInt64(), 10)
	case bson.TypeDouble:
		f := v.Double()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return append(dst, "null"...)
		}
		return append(dst, float(f)...)
	case bson.TypeDecimal128:
		if text := v.Decimal128().String(); json.Valid([]byte(text)) {
			return append(dst, text...)
		}
		return append(dst, "null"...)
	case bson.TypeBoolean:
		return strconv.AppendBool(dst, v.Boolean())
	case bson.TypeNull, bson.TypeUndefined:
		return append(dst, "null"...)
	case bson.TypeArray:
		elements, _ := v.Array().Values()
		dst = append(dst, '[')
		for i, e := range elements {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendPlain(dst, e)
		}
		return append(dst, ']')
	case bson.TypeEmbeddedDocument:
		elements, _ := v.Document().Elements()
		dst = append(dst, '{')
		for _, e := range elements {
			dst = appendPlain(appendName(dst, e.Key()), e.Value())
		}
		return append(dst, '}')
	}
	return appendString(dst, Text(v, nil))
}

// appendName starts the next member of an object.
func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(appendString(dst, name), ':')
}

// appendString appends a text. Bytes that are not valid UTF-8 become U+FFFD, because JSON cannot represent them.
func appendString(dst []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // never fails for a string
	return append(dst, quoted...)
}
