package timeseries

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// open reads everything of a bucket except the values of its columns. It makes the checks of MongoDB's stage in their order.
func (u *Unpacker) open(bucket bson.Raw) error {
	var top cursor
	var control, data bson.RawValue
	for top.open(bucket); top.next(); {
		switch string(top.key) {
		case FieldControl:
			control = top.value()
		case FieldMeta:
			u.meta = top.value()
		case FieldData:
			data = top.value()
		}
	}
	switch {
	case top.err != nil:
		return refuse(0, "the bucket is %v", top.err)
	case len(bucket) == 5:
		return refuse(codeBucketEmpty, "the bucket is an empty document")
	}
	if err := u.openData(data); err != nil {
		return err
	}
	if err := u.checkMeta(); err != nil && !IsSegmentMeta(u.meta) {
		return err
	}
	if err := u.openControl(control); err != nil {
		return err
	}
	if !u.segment {
		return u.checkMeta()
	}
	// The meta of a segment names no series.
	u.meta = bson.RawValue{}
	if u.options.MetaField != "" {
		u.takeMetas()
	}
	return nil
}

// takeMetas moves the column of a segment's metas out of the other columns.
func (u *Unpacker) takeMetas() {
	for i := range u.columns {
		if string(u.columns[i].name) == u.options.MetaField {
			u.metas = u.columns[i]
			u.columns = append(u.columns[:i], u.columns[i+1:]...)
			return
		}
	}
}

func (u *Unpacker) openData(data bson.RawValue) error {
	if data.Type != bson.TypeEmbeddedDocument {
		return refuse(codeNoTimeColumn, "the bucket's field %q is missing, or is not an object: it should hold the column %q", FieldData, u.options.TimeField)
	}
	if len(data.Value) == 5 {
		return refuse(codeDataEmpty, "%s is an empty object", FieldData)
	}
	var columns cursor
	timed := false
	for columns.open(data.Value); columns.next(); {
		if !rawbson.IsNested(columns.kind) {
			return refuse(0, "%s is a %s: a column must be an object", DataPath(string(columns.key)), columns.kind)
		}
		if !timed && string(columns.key) == u.options.TimeField {
			timed = true
			u.time.open(columns.body)
			continue
		}
		c := column{name: columns.key}
		c.values.open(columns.body)
		c.waiting = c.values.next()
		u.columns = append(u.columns, c)
	}
	switch {
	case columns.err != nil:
		return refuse(0, "%s is %v", FieldData, columns.err)
	case !timed:
		return refuse(codeNoTimeColumn, "%s has no column %s for the time", FieldData, u.options.TimeField)
	}
	return nil
}

func (u *Unpacker) checkMeta() error {
	switch {
	case u.options.MetaField == "" && u.meta.Type != 0:
		return refuse(codeMetaUnexpected, "the bucket has a %s, but the collection has no metaField", FieldMeta)
	case u.meta.Type == bson.TypeUndefined:
		return refuse(codeMetaUndefined, "the bucket's %s is undefined", FieldMeta)
	}
	return nil
}

func (u *Unpacker) openControl(value bson.RawValue) error {
	if value.Type != bson.TypeEmbeddedDocument {
		return refuse(codeNoControl, "the bucket's field %q is missing, or is not an object", FieldControl)
	}
	u.state.Count = -1 // absent
	var version, source bson.RawValue
	var fields cursor
	for fields.open(value.Value); fields.next(); {
		switch string(fields.key) {
		case FieldVersion:
			version = fields.value()
		case FieldCount:
			if n, ok := fields.integer(); ok {
				u.state.Count = n
			}
		case FieldSource:
			source = fields.value()
		case FieldSegment:
			u.segment = fields.kind == bson.TypeEmbeddedDocument
		}
	}
	offsets, err := u.openSource(source)
	switch {
	case fields.err != nil:
		return refuse(0, "%s is %v", FieldControl, fields.err)
	case err != nil:
		return err
	case version.Type == 0:
		return refuse(codeNoVersion, "the bucket has no %s", PathVersion)
	case Compare(version, versionValue) != 0:
		return refuse(codeBadVersion, "%s is %v: only buckets of version %d can be read; compressed buckets are not supported", PathVersion, version, Version)
	}
	return u.openOffsets(offsets)
}

// openSource reads control.source. It returns the array of offsets, or nil if there is none.
func (u *Unpacker) openSource(source bson.RawValue) (offsets []byte, err error) {
	topic := u.source.Topic
	u.source = Source{}
	if source.Type != bson.TypeEmbeddedDocument {
		return nil, nil
	}
	var fields cursor
	for fields.open(source.Value); fields.next(); {
		switch string(fields.key) {
		case FieldTopic:
			if fields.kind == bson.TypeString {
				if t := text(fields.body); string(t) != topic { // otherwise the string of the previous bucket is reused
					topic = string(t)
				}
				u.source.Topic = topic
			}
		case FieldTopicID:
			if _, id, ok := fields.value().BinaryOK(); ok && len(id) == len(u.source.TopicID) {
				copy(u.source.TopicID[:], id)
			}
		case FieldPartition:
			if n, ok := fields.integer(); ok {
				u.source.Partition = int32(n)
			}
		case FieldOffsets:
			if fields.kind == bson.TypeArray {
				offsets = fields.body
			}
		}
	}
	if fields.err != nil {
		return nil, refuse(0, "%s is %v", PathSource, fields.err)
	}
	return offsets, nil
}

// openOffsets decodes the positions. A list that cannot be decoded does not keep the measurements from being read.
func (u *Unpacker) openOffsets(array []byte) error {
	if array == nil {
		return nil
	}
	var elements cursor
	for elements.open(array); elements.next(); {
		if u.state.Malformed != nil {
			continue
		}
		if u.listed, u.state.Malformed = appendElement(u.listed, elements.value()); u.state.Malformed != nil {
			u.state.Malformed = fmt.Errorf("%s.%s: %w", PathOffsets, elements.key, u.state.Malformed)
		}
	}
	if elements.err != nil {
		return refuse(0, "%s is %v", PathOffsets, elements.err)
	}
	u.state.Positions = len(u.listed)
	return nil
}

func appendElement(dst []Position, v bson.RawValue) ([]Position, error) {
	subtype, encoded, ok := v.BinaryOK()
	if !ok || subtype != bson.TypeBinaryGeneric {
		return dst, fmt.Errorf("%w: not binary data of subtype 0", ErrPositions)
	}
	return DecodePositions(dst, encoded)
}

// versionValue is Version as a BSON value.
var versionValue = int32Value(Version)

// Mismatch holds the number of measurements by each account of a bucket. The accounts should agree.
type Mismatch struct { //nolint:errname // the bucket has a mismatch, which is an error only to some
	// Times is the number of values in the time column.
	Times int
	// Count is control.count, or -1 if it is absent.
	Count int64
	// Positions is the number of positions that control.source.offsets lists.
	Positions int
	// Malformed is why not all positions could be decoded. Nil means that all could. It wraps ErrPositions.
	Malformed error
	// Lost is the path of the first value that belongs to no measurement, because its column's indexes do not match the time
	// column's indexes. Empty means that every value belongs to a measurement.
	Lost string
}

func (m *Mismatch) agrees() bool {
	return m.Count == int64(m.Times) && m.Positions == m.Times && m.Malformed == nil && m.Lost == ""
}

// Error names every account.
func (m *Mismatch) Error() string {
	count := fmt.Sprint(m.Count)
	if m.Count < 0 {
		count = "absent"
	}
	text := fmt.Sprintf("the time column has %d measurements, %s is %s, %s lists %d positions",
		m.Times, PathCount, count, PathOffsets, m.Positions)
	if m.Malformed != nil {
		text += fmt.Sprintf(" (%v)", m.Malformed)
	}
	if m.Lost != "" {
		text += fmt.Sprintf(", and from %s on the values of this column belong to no measurement", m.Lost)
	}
	return text
}
