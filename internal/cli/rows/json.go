package rows

import (
	"fmt"
	"io"

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
	if j.o.Fields == nil {
		elements, _ := r.Fields.Elements()
		for _, e := range elements {
			d = append(d, e...)
		}
	}
	for _, path := range j.o.Fields {
		if v, ok := lookup(r.Fields, path); ok {
			d = appendElement(d, path, v)
		}
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
