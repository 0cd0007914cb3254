package bucketer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/measurement"
	"waterwheel/timeseries"
	"waterwheel/timeseries/rawbson"
)

// Settled is what a bucket that was made of segments says of that.
type Settled struct {
	By   [16]byte // the settling, a UUID
	From int64    // when the bucket is shown, in milliseconds since 1970
	// Attempt is the attempt number of the buckets' _ids, while there is no document in their way.
	Attempt int32
}

// append appends control.settled.
func (s *Settled) append(dst []byte) []byte {
	dst, start := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldSettled)
	dst = appendDateNamed(dst, timeseries.FieldFrom, s.From)
	dst = rawbson.AppendHeader(dst, bson.TypeBinary, timeseries.FieldBy)
	dst = append(append(dst, byte(len(s.By)), 0, 0, 0, uuidSubtype), s.By[:]...)
	return rawbson.EndDocument(dst, start)
}

// SegmentError tells of a segment that cannot be settled: something else has edited it.
type SegmentError struct {
	ID  bson.ObjectID
	Err error
}

// Error names the segment.
func (e *SegmentError) Error() string { return fmt.Sprintf("the segment %s: %v", e.ID.Hex(), e.Err) }

// Unwrap is what is wrong with it.
func (e *SegmentError) Unwrap() error { return e.Err }

// Settle makes the buckets of what is in segments: an insert of each, all measurements of a series in the order of their times,
// those of each combination of types in buckets of their own (settledKinds).
// The flush is not to be finished: the buckets are no catalog's. The error is a *SegmentError.
func Settle(o Options, by Settled, segments []bson.Raw) (*Flush, error) {
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
	o.Settled, o.Reopen, o.DenseFrom, o.DeltaMax, o.FlushWrites, o.Limits.CacheBytes = &by, false, 0, 0, 0, 0
	c := New(o)
	for i := range all {
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

// segmented is a measurement and the segment that it is in.
type segmented struct {
	measurement.Measurement
	segment bson.Raw
}

// appendMeasurements unpacks a segment. The metas are those of the document.
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
