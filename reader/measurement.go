package reader

import (
	"bytes"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// Measurement is one measurement. Its Meta and Fields are valid until the iterator's next step.
type Measurement struct {
	// Time is in UTC, in whole milliseconds.
	Time time.Time
	// Meta is the identity of the series. Type 0 means that it has none, which is another series than null.
	Meta bson.RawValue
	// Fields is a document of all fields except time and meta.
	Fields bson.Raw
	// Source is the Kafka partition that the measurement came from, and Position its place there. The Offset is
	// timeseries.Unlisted if the bucket does not record it.
	Source   timeseries.Source
	Position timeseries.Position

	options *timeseries.Options
}

// Clone returns the measurement with bytes of its own.
func (m Measurement) Clone() Measurement {
	m.Meta.Value, m.Fields = bytes.Clone(m.Meta.Value), bytes.Clone(m.Fields)
	return m
}

// AppendDocument appends the measurement as one BSON document to dst, as the view shows it: time, meta, then the fields.
func (m Measurement) AppendDocument(dst []byte) []byte {
	if m.options == nil { // not from an iterator
		return append(dst, rawbson.Empty, 0, 0, 0, 0)
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = rawbson.AppendDate(dst, m.options.TimeField, m.Time.UnixMilli())
	if m.Meta.Type != 0 {
		dst = append(rawbson.AppendHeader(dst, m.Meta.Type, m.options.MetaField), m.Meta.Value...)
	}
	if len(m.Fields) > rawbson.Empty {
		dst = append(dst, rawbson.Content(m.Fields)...)
	}
	return rawbson.EndDocument(dst, start)
}

// Document returns the measurement as a new document: time, meta, then the fields, under the names they are stored under.
func (m Measurement) Document() bson.Raw { return m.AppendDocument(nil) }

// Decode fills v, a pointer to a struct or a map, from the Document. Struct fields are matched by their bson tags. Time and meta
// have the names under which they are stored.
func (m Measurement) Decode(v any) error {
	if err := bson.Unmarshal(m.Document(), v); err != nil {
		return fmt.Errorf("decoding the measurement of %s: %w", m.Time.Format(time.RFC3339Nano), err)
	}
	return nil
}
