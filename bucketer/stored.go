package bucketer

import (
	"cmp"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// stored is the content of a candidate, as far as it is readable.
type stored struct {
	id               bson.ObjectID
	key              []byte // of its series
	version          int64
	closed           bool
	minTime, maxTime int64
	lower, upper     []byte // elements of control.min and control.max, without the time
	count, size      int32
	topicID          []byte
	partition        int64
	offsets          bson.RawArray // of binaries
}

// readStored reads a candidate. False means that it is not a bucket.
func (c *Catalog) readStored(candidate Candidate) (d stored, ok bool) {
	document := candidate.Document
	if document.Validate() != nil { // Lookup needs a valid document
		return d, false
	}
	control, _ := document.Lookup(timeseries.FieldControl).DocumentOK()
	d.version = integer(control.Lookup(timeseries.FieldVersion))
	d.count = clampInt32(integer(control.Lookup(timeseries.FieldCount)))
	d.size = cmp.Or(candidate.Size, clampInt32(integer(control.Lookup(timeseries.FieldSize))))
	if closed := control.Lookup(timeseries.FieldClosed); closed.Type != 0 {
		value, isBool := closed.BooleanOK()
		d.closed = value || !isBool
	}
	if meta := document.Lookup(timeseries.FieldMeta); meta.Type != 0 {
		d.key = append([]byte{byte(meta.Type)}, meta.Value...)
	}
	source, _ := control.Lookup(timeseries.FieldSource).DocumentOK()
	_, d.topicID, _ = source.Lookup(timeseries.FieldTopicID).BinaryOK()
	d.partition = integer(source.Lookup(timeseries.FieldPartition))
	d.offsets, _ = source.Lookup(timeseries.FieldOffsets).ArrayOK()
	var isID, isLower, isUpper bool
	d.id, isID = document.Lookup(timeseries.FieldID).ObjectIDOK()
	d.lower, d.minTime, isLower = c.readBound(control, timeseries.FieldMin)
	d.upper, d.maxTime, isUpper = c.readBound(control, timeseries.FieldMax)
	return d, isID && isLower && isUpper
}

// readBound reads control.min or control.max, and separates the time from the other elements.
func (c *Catalog) readBound(control bson.Raw, name string) (fields []byte, time int64, ok bool) {
	bound, _ := control.Lookup(name).DocumentOK()
	elements, _ := bound.Elements()
	for _, e := range elements {
		if e.Key() == c.options.Collection.TimeField {
			time, ok = e.Value().DateTimeOK()
		} else {
			fields = append(fields, e...)
		}
	}
	return fields, time, ok
}

// countsPositions reports whether there are as many positions as measurements.
func (d *stored) countsPositions() bool {
	total := 0
	elements, _ := d.offsets.Values()
	for _, element := range elements {
		_, encoded, ok := element.BinaryOK()
		n, err := timeseries.CountPositions(encoded)
		if !ok || err != nil {
			return false
		}
		total += n
	}
	return total == int(d.count)
}

// integer returns a value as an integer. Zero also means that it is no number or has a fraction. Other clients and people may
// write a bucket's integers with another type.
func integer(v bson.RawValue) int64 {
	if f, ok := v.DoubleOK(); ok && (f != math.Trunc(f) || math.Abs(f) >= 1<<53) {
		return 0
	}
	n, _ := v.AsInt64OK()
	return n
}

// clampInt32 limits a number to the range of int32. No bucket has numbers near these limits.
func clampInt32(v int64) int32 { return int32(min(max(v, math.MinInt32), math.MaxInt32)) }
