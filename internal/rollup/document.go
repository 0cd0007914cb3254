package rollup

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// FieldRevision is the field of control that counts how often a document was replaced, from 1.
const FieldRevision = "rev"

// PathRevision is the dotted path of FieldRevision.
const PathRevision = timeseries.FieldControl + "." + FieldRevision

// Stored is a row in its stored form. Fields equals Row.Document.
type Stored struct {
	// Time is the start of the window, in milliseconds since 1970.
	Time int64
	// Fields holds the count and the totals.
	Fields bson.Raw
}

// Within returns the rows whose windows begin in [from, to). The rows must be in order.
func Within(rows []Stored, from, to int64) []Stored {
	at := func(ms int64) int {
		i, _ := slices.BinarySearchFunc(rows, ms, func(s Stored, ms int64) int { return cmp.Compare(s.Time, ms) })
		return i
	}
	return rows[at(from):at(to)]
}

// Count returns the number of measurements of the row. column is the name of the column with the count.
func (s Stored) Count(column string) int64 {
	n, _ := s.Fields.Lookup(column).AsInt64OK()
	return n
}

// Document holds the rows of one series and one period.
type Document struct {
	// ID is the _id. It is derived from level, series and period, unless the document belonged to another meta before.
	ID bson.ObjectID
	// Meta is the identity of the series. Type 0 means that it has none.
	Meta bson.RawValue
	// From is the start of the period, in milliseconds since 1970.
	From int64
	// Revision counts the replacements. A document is replaced only if it still has the revision that was read before its
	// sources.
	Revision int64
	// Rows are in the order of their times. After update-meta several may have the same time, and readers fold them.
	Rows []Stored
}

// ID derives the _id of the document with the rows of a series in a period. from is the start of the period. Two processes that
// insert the same document therefore collide. The _id begins with the seconds of the period, as the _id of every bucket does.
func (l Level) ID(meta bson.RawValue, from int64) bson.ObjectID {
	key := append([]byte("rollup\x00"+l.Name+"\x00"), byte(meta.Type))
	key = binary.BigEndian.AppendUint64(append(key, meta.Value...), uint64(from))
	sum := sha256.Sum256(key)
	return timeseries.BucketIDOf(from, sum[:8])
}

// Replace replaces all rows whose windows begin in [from, to).
func (d *Document) Replace(from, to int64, rows []Stored) {
	kept := slices.DeleteFunc(d.Rows, func(s Stored) bool { return s.Time >= from && s.Time < to })
	d.Rows = append(kept, rows...)
	slices.SortStableFunc(d.Rows, func(a, b Stored) int { return cmp.Compare(a.Time, b.Time) })
}

// Contents returns control and data of the document as it is stored. The stored document is a closed bucket without a source and
// with a revision. A document without rows keeps its time column, empty, because the document holds its revision.
func (d *Document) Contents(o timeseries.Options) (control, data bson.Raw) {
	data = d.data(o)
	content := o.ContentOf(data)
	begin := binary.LittleEndian.AppendUint64(nil, uint64(d.From))
	if len(d.Rows) == 0 {
		content.Latest = d.From
	}
	least := content.Min(o.TimeField, bson.RawValue{Type: bson.TypeDateTime, Value: begin})
	control = append(control, 0, 0, 0, 0)
	control = rawbson.AppendInt32(control, timeseries.FieldVersion, timeseries.Version)
	control = append(rawbson.AppendHeader(control, bson.TypeEmbeddedDocument, timeseries.FieldMin), least...)
	control = append(rawbson.AppendHeader(control, bson.TypeEmbeddedDocument, timeseries.FieldMax), content.Max(o.TimeField)...)
	control = rawbson.AppendInt32(control, timeseries.FieldCount, int32(len(d.Rows)))
	control = rawbson.AppendInt32(control, timeseries.FieldSize, content.Size)
	control = append(rawbson.AppendHeader(control, bson.TypeBoolean, timeseries.FieldClosed), 1)
	control = rawbson.AppendInt64(control, FieldRevision, d.Revision)
	return rawbson.EndDocument(control, 0), data
}

// Encode returns the whole document as it is stored.
func (d *Document) Encode(o timeseries.Options) bson.Raw {
	control, data := d.Contents(o)
	dst := append(rawbson.AppendHeader([]byte{0, 0, 0, 0}, bson.TypeObjectID, timeseries.FieldID), d.ID[:]...)
	dst = append(rawbson.AppendHeader(dst, bson.TypeEmbeddedDocument, timeseries.FieldControl), control...)
	if d.Meta.Type != 0 {
		dst = append(rawbson.AppendHeader(dst, d.Meta.Type, timeseries.FieldMeta), d.Meta.Value...)
	}
	dst = append(rawbson.AppendHeader(dst, bson.TypeEmbeddedDocument, timeseries.FieldData), data...)
	return rawbson.EndDocument(dst, 0)
}

// column collects the values of one field of the rows.
type column struct {
	name string
	list []byte
}

// data makes the columns of the rows. The time comes first, then the fields in the order in which rows have them.
func (d *Document) data(o timeseries.Options) bson.Raw {
	const header = 1 + 2 + 1 // of an item with an index below 100
	times := &column{name: o.TimeField, list: make([]byte, 0, len(d.Rows)*(header+8))}
	columns, size := []*column{times}, 0
	at := map[string]*column{}
	for i, row := range d.Rows {
		index := strconv.Itoa(i)
		times.list = rawbson.AppendDate(times.list, index, row.Time)
		place := 1 // index of the column, if the rows have the same fields in the same order
		for e := range rawbson.All(rawbson.Content(row.Fields)) {
			var c *column
			if place < len(columns) && columns[place].name == string(e.Name) {
				c = columns[place]
			} else {
				c = at[string(e.Name)]
			}
			if c == nil {
				c = &column{name: string(e.Name), list: make([]byte, 0, (len(d.Rows)-i)*(header+len(e.Value)))}
				at[c.name] = c
				columns = append(columns, c)
			}
			c.list = append(rawbson.AppendHeader(c.list, e.Kind, index), e.Value...)
			place++
		}
	}
	for _, c := range columns {
		size += header + len(c.name) + len(c.list) + rawbson.Empty
	}
	dst := append(make([]byte, 0, size+rawbson.Empty), 0, 0, 0, 0)
	for _, c := range columns {
		dst = rawbson.AppendHeader(dst, bson.TypeEmbeddedDocument, c.name)
		start := len(dst)
		dst = append(append(dst, 0, 0, 0, 0), c.list...)
		dst = rawbson.EndDocument(dst, start)
	}
	return rawbson.EndDocument(dst, 0)
}

// Decode reads a stored document as all buckets are read. It keeps no bytes of the document.
func Decode(raw bson.Raw, o timeseries.Options) (d Document, err error) {
	damaged := func(err error) (Document, error) {
		return Document{}, fmt.Errorf("the rollup document %v is damaged: %w; delete the document, and run `waterwheel rollup build`", raw.Lookup(timeseries.FieldID), err)
	}
	u := timeseries.NewUnpacker(o)
	if err := u.Reset(raw); err != nil {
		return damaged(err)
	}
	d.ID, _ = raw.Lookup(timeseries.FieldID).ObjectIDOK()
	d.Meta = timeseries.Clone(u.Meta())
	d.Revision, _ = raw.Lookup(timeseries.FieldControl, FieldRevision).AsInt64OK()
	d.From, _ = raw.Lookup(timeseries.FieldControl, timeseries.FieldMin, o.TimeField).DateTimeOK()
	var m timeseries.Unpacked
	for u.Next(&m) {
		d.Rows = append(d.Rows, Stored{Time: m.Time, Fields: bytes.Clone(m.Fields)})
	}
	if err := u.Err(); err != nil {
		return damaged(err)
	}
	// The document lists no positions, so that difference is no error.
	if m, ok := errors.AsType[*timeseries.Mismatch](u.Mismatch()); ok && (m.Count != int64(m.Times) || m.Lost != "") {
		return damaged(m)
	}
	return d, nil
}
