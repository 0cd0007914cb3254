package bucketer

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// CompactionMark is the mark of a bucket that was made of segments.
type CompactionMark struct {
	ID          [16]byte // of the compaction, a UUID
	VisibleFrom int64    // when queries see the bucket, in milliseconds since 1970
}

// attempt is the attempt number in the buckets' _ids. It comes from the compaction's id, so the buckets of two compactions do not
// collide.
func (c *CompactionMark) attempt() int32 {
	return int32(binary.BigEndian.Uint32(c.ID[:]) & math.MaxInt32)
}

// append appends control.compaction.
func (c *CompactionMark) append(dst []byte) []byte {
	dst, start := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldCompaction)
	dst = appendDateNamed(dst, timeseries.FieldVisibleFrom, c.VisibleFrom)
	dst = bsoncore.AppendBinaryElement(dst, timeseries.FieldCompactionID, uuidSubtype, c.ID[:])
	return rawbson.EndDocument(dst, start)
}

// SegmentError means that a segment cannot be compacted, because something else has edited it.
type SegmentError struct {
	ID  bson.ObjectID
	Err error
}

// Error names the segment.
func (e *SegmentError) Error() string { return fmt.Sprintf("the segment %s: %v", e.ID.Hex(), e.Err) }

// Unwrap returns the cause.
func (e *SegmentError) Unwrap() error { return e.Err }

// Compact makes buckets of segments, with one insert for each bucket. A series' measurements go in by time, and each
// combination of types gets buckets of its own (compactedKinds). If several segments list the same position, one measurement is
// taken. The flush must not be finished, because its buckets belong to no catalog. The error is a *SegmentError.
func Compact(o Options, by CompactionMark, segments []bson.Raw) (*Flush, error) {
	var all []segmented
	for _, segment := range segments {
		var err error
		if all, err = appendMeasurements(all, o.Collection, segment); err != nil {
			return nil, segmentError(segment, err)
		}
	}
	slices.SortFunc(all, func(a, b segmented) int {
		return cmp.Or(cmp.Compare(a.Meta.Type, b.Meta.Type), bytes.Compare(a.Meta.Value, b.Meta.Value),
			cmp.Compare(a.Time, b.Time), a.Position.Compare(b.Position))
	})
	o.Compaction, o.Reopen, o.DenseFrom, o.DeltaMax, o.FlushWrites, o.Limits.CacheBytes = &by, false, 0, 0, 0, 0
	c := New(o)
	for i := range all {
		if i > 0 && all[i].Position == all[i-1].Position && all[i].Time == all[i-1].Time && all[i].Meta.Equal(all[i-1].Meta) {
			continue
		}
		if err := c.Insert(&all[i].Measurement); err != nil {
			return nil, segmentError(all[i].segment, err)
		}
	}
	flush := c.Prepare(0)
	if flush == nil {
		flush = &Flush{}
	}
	return flush, nil
}

// segmented is a measurement and its segment.
type segmented struct {
	measurement.Measurement
	segment bson.Raw
}

// appendMeasurements unpacks a segment. The metas point into the document.
func appendMeasurements(all []segmented, o timeseries.Options, segment bson.Raw) ([]segmented, error) {
	u := timeseries.NewUnpacker(o)
	if err := u.Reset(segment); err != nil {
		return all, err
	}
	var arena []byte // of their elements
	for m := (timeseries.Unpacked{}); u.Next(&m); {
		if cap(arena)-len(arena) < len(m.Elements) {
			arena = make([]byte, 0, max(len(segment), len(m.Elements)))
		}
		start := len(arena)
		arena = append(arena, m.Elements...)
		all = append(all, segmented{segment: segment, Measurement: measurement.Measurement{
			Position: m.Position, Time: m.Time, Meta: m.Meta, Elements: arena[start:len(arena):len(arena)],
		}})
	}
	return all, cmp.Or(u.Err(), u.Mismatch())
}

func segmentError(segment bson.Raw, err error) error {
	id, _ := segment.Lookup(timeseries.FieldID).ObjectIDOK()
	return &SegmentError{ID: id, Err: err}
}

// maxKeptOut bounds the series that are kept out of segments.
const maxKeptOut = 10_000

// keptOut are the keys of series that are kept out of segments, because MongoDB has refused a bucket of theirs. An index or a
// validator on the meta refuses a bucket, but accepts the same measurements in a segment, whose meta belongs to no series.
type keptOut struct {
	keys map[string]struct{}
	text int64 // bytes of the keys
}

// bytes is the memory of the keys and their map.
func (k *keptOut) bytes() int64 {
	if k.keys == nil {
		return 0
	}
	return k.text + mapBytes(len(k.keys), knownSlot)
}

// KeepOut keeps a series out of segments until MongoDB accepts a bucket of it. Its measurements are written into buckets at
// once, so refused ones become dead letters. A meta of type 0 means the series without a meta. KeepOut does nothing beyond
// maxKeptOut series.
func (c *Catalog) KeepOut(meta bson.RawValue) {
	k := &c.keptOut
	key := appendKey(nil, meta)
	if _, known := k.keys[string(key)]; known || len(k.keys) == maxKeptOut {
		return
	}
	if k.keys == nil {
		k.keys = map[string]struct{}{}
	}
	k.keys[string(key)] = struct{}{}
	k.text += classBytes(len(key))
}

// has reports whether a series is kept out of segments.
func (k *keptOut) has(key string) bool {
	_, out := k.keys[key]
	return out
}

// accept lets a series into segments again after MongoDB has accepted a bucket of it.
func (k *keptOut) accept(key string) {
	if !k.has(key) {
		return
	}
	k.text -= classBytes(len(key))
	if delete(k.keys, key); len(k.keys) == 0 {
		*k = keptOut{}
	}
}

// HoldsSeries reports whether a segment has measurements of one of these series. A meta of type 0 means the series without a
// meta.
func HoldsSeries(o timeseries.Options, segment bson.Raw, metas []bson.RawValue) (bool, error) {
	u := timeseries.NewUnpacker(o)
	if err := u.Reset(segment); err != nil {
		return false, err
	}
	for m := (timeseries.Unpacked{}); u.Next(&m); {
		if slices.ContainsFunc(metas, m.Meta.Equal) {
			return true, nil
		}
	}
	return false, cmp.Or(u.Err(), u.Mismatch())
}

// appendKey appends the key of a series: the type and the value of its meta. The series without a meta has an empty key.
func appendKey(dst []byte, meta bson.RawValue) []byte {
	if meta.Type == 0 {
		return dst
	}
	return append(append(dst, byte(meta.Type)), meta.Value...)
}
