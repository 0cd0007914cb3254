package timeseries

import (
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// Error codes that MongoDB's unpacking stage returns.
const (
	codeDataEmpty      int32 = 5346509
	codeBucketEmpty    int32 = 5346510
	codeNoTimeColumn   int32 = 5346700
	codeMetaUndefined  int32 = 5369600
	codeMetaUnexpected int32 = 5369601
	codeBadVersion     int32 = 5857900
	codeNoControl      int32 = 5857902
	codeNoVersion      int32 = 5857903
)

// Unlisted is the offset of a measurement for which its bucket lists no position.
const Unlisted int64 = -1

// Unpacked is one measurement of a stored bucket. Its bytes belong to the Unpacker and the bucket, and are valid until
// the Unpacker's next call.
type Unpacked struct {
	// Position is where the measurement came from. Its offset is Unlisted if the bucket lists no position for the measurement.
	Position Position
	// Time is the measurement's time in milliseconds since 1970.
	Time int64
	// Meta is the identity of the measurement's series. It is the bucket's meta or, in a segment, the measurement's own. Type 0
	// means absent.
	Meta bson.RawValue
	// Elements are the other fields as BSON elements one after the other, in the order of the bucket's columns.
	Elements []byte
	// Fields is the document of the same Elements.
	Fields bson.Raw
}

// Unpacker turns stored buckets into their measurements, by the rule of MongoDB's own stage. A column's current value belongs to
// the current measurement if their indexes have the same name. An Unpacker is made for reuse:
//
//	if err := u.Reset(bucket); err != nil { … }
//	for u.Next(&m) { … }
//	if err := u.Err(); err != nil { … }
//
// Nothing in a bucket makes it panic.
type Unpacker struct {
	options Options

	meta    bson.RawValue
	time    cursor
	metas   column // metas of a segment
	columns []column
	segment bool
	state   Mismatch // what was found so far
	listed  []Position
	source  Source
	buffer  []byte
	err     error
}

// column holds one field's values. waiting means that Next has not returned the cursor's current value yet.
type column struct {
	name    []byte
	values  cursor
	waiting bool
}

// NewUnpacker makes an Unpacker for buckets of a collection.
func NewUnpacker(o Options) *Unpacker { return &Unpacker{options: o} }

// Reset starts with a bucket, which must stay unchanged until its last measurement is read. A bucket that MongoDB would not
// unpack gives an *Error with MongoDB's code. Broken BSON gives an *Error without a code.
func (u *Unpacker) Reset(bucket bson.Raw) error {
	*u = Unpacker{
		options: u.options, columns: u.columns[:0], listed: u.listed[:0], buffer: u.buffer[:0], source: Source{Topic: u.source.Topic},
	}
	u.err = u.open(bucket)
	return u.err
}

// Next puts the next measurement into m. False means that the last one was read, or that Err is set.
func (u *Unpacker) Next(m *Unpacked) bool {
	if u.err != nil {
		return false
	}
	if !u.time.next() {
		u.finish()
		return false
	}
	if u.time.kind != bson.TypeDateTime {
		u.err = refuse(0, "%s.%s is a %s: the time column must hold dates", DataPath(u.options.TimeField), u.time.key, u.time.kind)
		return false
	}
	m.Position = Position{Offset: Unlisted}
	if u.state.Times < len(u.listed) {
		m.Position = u.listed[u.state.Times]
	}
	u.state.Times++
	m.Time, m.Meta = int64(word(u.time.body)), u.meta
	if u.segment {
		m.Meta = u.metas.takeValue(u.time.key)
	}
	u.buffer = append(u.buffer[:0], 0, 0, 0, 0)
	for i := range u.columns {
		u.buffer = u.columns[i].take(u.buffer, u.time.key)
	}
	u.buffer = rawbson.EndDocument(u.buffer, 0)
	m.Elements, m.Fields = rawbson.Content(u.buffer), u.buffer
	return true
}

// IsSegment reports whether the document is a segment, in which each measurement has a meta of its own.
func (u *Unpacker) IsSegment() bool { return u.segment }

// Meta returns the bucket's identity. Type 0 means that it has none, or that the document is a segment.
func (u *Unpacker) Meta() bson.RawValue { return u.meta }

// Source returns the partition from which the bucket's measurements come. It is zero if the bucket does not say. Its text belongs
// to the caller.
func (u *Unpacker) Source() Source { return u.source }

// InOrder reports whether the measurements that Next has not returned yet are in the order of their times. Those with equal times
// must be in the order of their positions. InOrder reads only the time column.
func (u *Unpacker) InOrder() bool {
	times, at := u.time, u.state.Times
	last, position := int64(math.MinInt64), Position{Offset: Unlisted, Part: -1}
	for ; times.next(); at++ {
		if times.kind != bson.TypeDateTime {
			return true // Next reports the error
		}
		p := Position{Offset: Unlisted}
		if at < len(u.listed) {
			p = u.listed[at]
		}
		now := int64(word(times.body))
		if now < last || now == last && p.Compare(position) < 0 {
			return false
		}
		last, position = now, p
	}
	return true
}

// take appends the column's current value as an element if its index is the given one, and moves on.
func (c *column) take(dst, index []byte) []byte {
	v := &c.values
	if !c.waiting || string(v.key) != string(index) {
		return dst
	}
	dst = append(append(dst, byte(v.kind)), c.name[:len(c.name)+1]...) // with its NUL
	dst = append(dst, v.body...)
	c.waiting = v.next()
	return dst
}

// takeValue returns the column's current value if its index is the given one, and moves on. Otherwise it returns Type 0.
func (c *column) takeValue(index []byte) bson.RawValue {
	if !c.waiting || string(c.values.key) != string(index) {
		return bson.RawValue{}
	}
	v := c.values.value()
	c.waiting = c.values.next()
	return v
}

// Err returns the error that ended the measurements early. It is nil after the last measurement.
func (u *Unpacker) Err() error { return u.err }

// Mismatch returns, after Next has returned false, how the bucket contradicts itself. Either control.count or
// control.source.offsets does not match the time column, or a column has values that belong to no measurement. Another program
// edited or made the bucket. The error is a *Mismatch, valid until Reset. Nil means that the bucket agrees with itself.
func (u *Unpacker) Mismatch() error {
	if u.err != nil || u.state.agrees() {
		return nil //nolint:nilerr // Err tells that one
	}
	return &u.state
}

// finish checks the rest of the columns after the last time.
func (u *Unpacker) finish() {
	if u.time.err != nil {
		u.err = refuse(0, "%s is %v", DataPath(u.options.TimeField), u.time.err)
		return
	}
	columns := u.columns
	if u.segment {
		columns = append(columns, u.metas)
	}
	for i := range columns {
		switch c := &columns[i]; {
		case c.values.err != nil:
			u.err = refuse(0, "%s is %v", DataPath(string(c.name)), c.values.err)
			return
		case c.waiting && u.state.Lost == "":
			u.state.Lost = fmt.Sprintf("%s.%s", DataPath(string(c.name)), c.values.key)
		}
	}
}
