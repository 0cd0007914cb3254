package bucketer

import (
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
	"waterwheel/timeseries/rawbson"
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
	if rawbson.DocumentSize(document) != len(document) {
		return d, false
	}
	id, ok := readMember(document, timeseries.FieldID)
	if !ok || id.Kind != bson.TypeObjectID {
		return d, false
	}
	copy(d.id[:], id.Value)
	if meta, ok := readMember(document, timeseries.FieldMeta); ok {
		d.key = append([]byte{byte(meta.Kind)}, meta.Value...)
	}
	control, ok := readMember(document, timeseries.FieldControl)
	if !ok || control.Kind != bson.TypeEmbeddedDocument || !c.readControl(&d, control.Value) {
		return d, false
	}
	if candidate.Size > 0 {
		d.size = candidate.Size
	}
	return d, true
}

func (c *Catalog) readControl(d *stored, control []byte) bool {
	for rest := rawbson.Content(control); len(rest) > 0; {
		e, after, ok := rawbson.Read(rest)
		if !ok {
			return false
		}
		rest = after
		switch string(e.Name) {
		case timeseries.FieldVersion:
			d.version = integer(e)
		case timeseries.FieldClosed:
			d.closed = e.Kind != bson.TypeBoolean || e.Value[0] != 0
		case timeseries.FieldCount:
			d.count = clampInt32(integer(e))
		case timeseries.FieldSize:
			d.size = clampInt32(integer(e))
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
func (c *Catalog) readBound(bound rawbson.Element) (fields []byte, time int64, ok bool) {
	if bound.Kind != bson.TypeEmbeddedDocument {
		return nil, 0, false
	}
	hasTime := false
	for rest := rawbson.Content(bound.Value); len(rest) > 0; {
		e, after, ok := rawbson.Read(rest)
		if !ok {
			return nil, 0, false
		}
		if string(e.Name) != c.options.Collection.TimeField {
			fields = append(fields, rest[:len(rest)-len(after)]...)
		} else if e.Kind == bson.TypeDateTime {
			time, hasTime = int64(binary.LittleEndian.Uint64(e.Value)), true
		}
		rest = after
	}
	return fields, time, hasTime
}

func (d *stored) readSource(source rawbson.Element) bool {
	if source.Kind != bson.TypeEmbeddedDocument {
		return false
	}
	for rest := rawbson.Content(source.Value); len(rest) > 0; {
		e, after, ok := rawbson.Read(rest)
		if !ok {
			return false
		}
		rest = after
		switch string(e.Name) {
		case timeseries.FieldTopicID:
			if e.Kind != bson.TypeBinary || len(e.Value) != 4+1+len(d.topicID) {
				return false
			}
			copy(d.topicID[:], e.Value[5:])
		case timeseries.FieldPartition:
			d.partition = clampInt32(integer(e))
		case timeseries.FieldOffsets:
			if e.Kind != bson.TypeArray {
				return false
			}
			d.offsets = rawbson.Content(e.Value)
		}
	}
	return true
}

// countsPositions reports whether the positions are as many as the measurements.
func (d *stored) countsPositions() bool {
	total := 0
	for rest := d.offsets; len(rest) > 0; {
		e, after, ok := rawbson.Read(rest)
		if !ok || e.Kind != bson.TypeBinary {
			return false
		}
		rest = after
		n, err := timeseries.CountPositions(e.Value[5:])
		if err != nil {
			return false
		}
		total += n
	}
	return total == int(d.count)
}

// readMember returns the first member of a document with this name.
func readMember(document []byte, name string) (rawbson.Element, bool) {
	for rest := rawbson.Content(document); len(rest) > 0; {
		e, after, ok := rawbson.Read(rest)
		if !ok {
			break
		}
		if string(e.Name) == name {
			return e, true
		}
		rest = after
	}
	return rawbson.Element{}, false
}

// integer is the element as a number, 0 when it is none or has a fraction. Other clients and people may write a bucket's
// integers as another type.
func integer(e rawbson.Element) int64 {
	switch e.Kind {
	case bson.TypeInt32:
		return int64(int32(binary.LittleEndian.Uint32(e.Value)))
	case bson.TypeInt64:
		return int64(binary.LittleEndian.Uint64(e.Value))
	case bson.TypeDouble:
		f := math.Float64frombits(binary.LittleEndian.Uint64(e.Value))
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f)
		}
	}
	return 0
}

// clampInt32 brings a number that no bucket has near one that none has either.
func clampInt32(v int64) int32 { return int32(min(max(v, math.MinInt32), math.MaxInt32)) }
