package measurement

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// Measurement is one reading of one series, ready for a bucket. Its byte slices belong to the Decoder that made it and are valid
// until its next Decode. A caller that keeps a measurement must copy them.
type Measurement struct {
	Position timeseries.Position
	// Time is the measurement's time in milliseconds since 1970 (a BSON date).
	Time int64
	// Meta is the identity of the series in its normal form, that is, with the fields of objects sorted bytewise at every depth.
	// Type 0 means that meta is absent, which is another series than null.
	Meta bson.RawValue
	// Elements are the other fields as BSON elements one after the other (type byte, name, NUL, value). They have no document's
	// length and end, and exclude time and meta.
	Elements []byte
}
