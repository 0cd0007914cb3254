package bucketer

import (
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// stored is what a candidate says, as far as it could be read.
type stored struct {
	id               bson.ObjectID
	key              []byte // of its series
	version          int64
	closed           bool
	minTime, maxTime int64
	lower, upper     []byte // elements of control.min and control.max, without the time
	count, size      int32
	topicID          [16]byte
	partition        int32
	offsets          []byte // elements of an array of binaries
}

// readStored reads a candidate; false when it is not a bucket at all.
func (c *Catalog) readStored(candidate Candidate) (stored, bool) {
	var d stored
	document := []byte(candidate.Document)
	if documentSize(document) != len(document) {
		return d, false
	}
	id, ok := readMember(document, timeseries.FieldID)
	if !ok || id.kind != bson.TypeObjectID {
		return d, false
	}
	copy(d.id[:], id.value)
	if meta, ok := readMember(document, timeseries.FieldMeta); ok {
		d.key = append([]byte{byte(meta.kind)}, meta.value...)
	}
	control, ok := readMember(document, timeseries.FieldControl)
	if !ok || control.kind != bson.TypeEmbeddedDocument || !c.readControl(&d, control.value) {
		return d, false
	}
	if candidate.Size > 0 {
		d.size = candidate.Size
	}
	return d, true
}

func (c *Catalog) readControl(d *stored, control []byte) bool {
	for rest := content(control); len(rest) > 0; {
		e, after, ok := readElement(rest)
		if !ok {
			return false
		}
		rest = after
		switch string(e.name) {
		case timeseries.FieldVersion:
			d.version = e.integer()
		case timeseries.FieldClosed:
			d.closed = e.kind != bson.TypeBoolean || e.value[0] != 0
		case timeseries.FieldCount:
			d.count = clampInt32(e.integer())
		case timeseries.FieldSize:
			d.size = clampInt32(e.integer())
		case timeseries.FieldMin:
			d.lower, d.minTime, ok = c.readBound(e)
		case timeseries.FieldMax:
			d.upper, d.maxTime, ok = c.readBound(e)
		case timeseries.FieldSource:
			ok = d.readSource(e)
		}
		if !ok {
			return false
		}
	}
	return true
}

// readBound reads control.min or control.max: the time, and the elements beside it.
func (c *Catalog) readBound(bound element) (fields []byte, time int64, ok bool) {
	if bound.kind != bson.TypeEmbeddedDocument {
		return nil, 0, false
	}
	hasTime := false
	for rest := content(bound.value); len(rest) > 0; {
		e, after, ok := readElement(rest)
		if !ok {
			return nil, 0, false
		}
		if string(e.name) != c.options.Collection.TimeField {
			fields = append(fields, rest[:len(rest)-len(after)]...)
		} else if e.kind == bson.TypeDateTime {
			time, hasTime = int64(binary.LittleEndian.Uint64(e.value)), true
		}
		rest = after
	}
	return fields, time, hasTime
}

func (d *stored) readSource(source element) bool {
	if source.kind != bson.TypeEmbeddedDocument {
		return false
	}
	for rest := content(source.value); len(rest) > 0; {
		e, after, ok := readElement(rest)
		if !ok {
			return false
		}
		rest = after
		switch string(e.name) {
		case timeseries.FieldTopicID:
			if e.kind != bson.TypeBinary || len(e.value) != 4+1+len(d.topicID) {
				return false
			}
			copy(d.topicID[:], e.value[5:])
		case timeseries.FieldPartition:
			d.partition = clampInt32(e.integer())
		case timeseries.FieldOffsets:
			if e.kind != bson.TypeArray {
				return false
			}
			d.offsets = content(e.value)
		}
	}
	return true
}

// countsPositions reports whether the positions are as many as the measurements.
func (d *stored) countsPositions() bool {
	total := 0
	for rest := d.offsets; len(rest) > 0; {
		e, after, ok := readElement(rest)
		if !ok || e.kind != bson.TypeBinary {
			return false
		}
		rest = after
		n, err := timeseries.CountPositions(e.value[5:])
		if err != nil {
			return false
		}
		total += n
	}
	return total == int(d.count)
}

// readMember returns the first member of a document with this name.
func readMember(document []byte, name string) (element, bool) {
	for rest := content(document); len(rest) > 0; {
		e, after, ok := readElement(rest)
		if !ok {
			break
		}
		if string(e.name) == name {
			return e, true
		}
		rest = after
	}
	return element{}, false
}

// integer is the element as a number, 0 when it is none or has a fraction. Other clients and people may write a bucket's
// integers as another type.
func (e element) integer() int64 {
	switch e.kind {
	case bson.TypeInt32:
		return int64(int32(binary.LittleEndian.Uint32(e.value)))
	case bson.TypeInt64:
		return int64(binary.LittleEndian.Uint64(e.value))
	case bson.TypeDouble:
		f := math.Float64frombits(binary.LittleEndian.Uint64(e.value))
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f)
		}
	}
	return 0
}

// clampInt32 brings a number that no bucket has near one that none has either.
func clampInt32(v int64) int32 { return int32(min(max(v, math.MinInt32), math.MaxInt32)) }
