package verify

import (
	"bytes"
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/measurement"
	"waterwheel/record"
	"waterwheel/timeseries"
)

// suspect is a stored measurement that is not what its record says, kept until the record is read again.
type suspect struct {
	bucket   string
	index    int // in the bucket
	position timeseries.Position
	time     int64
	meta     bson.RawValue
	elements []byte
}

// compare compares each measurement of a bucket with the fingerprint of its record. Those that nothing is known about are
// passed over: another finding tells of them.
func (w *window) compare(b *listing) {
	index := -1
	_ = w.unpack(b, func(m timeseries.Unpacked) { // checkContent tells of an error
		index++
		if !w.holds(m.Position) || !w.valid.has(m.Position) ||
			w.contents.of(m.Position) == w.hash.sum(m.Time, m.Meta, m.Elements) {
			return
		}
		if len(w.suspects) == w.Examples {
			w.found.Different.Count++
			return
		}
		w.suspects = append(w.suspects, suspect{
			bucket: b.id(), index: index, position: m.Position, time: m.Time,
			meta:     bson.RawValue{Type: m.Meta.Type, Value: bytes.Clone(m.Meta.Value)},
			elements: bytes.Clone(m.Elements),
		})
	})
}

// explain reads the records of the first suspects again to tell where they differ.
func (w *window) explain(ctx context.Context) error {
	for i := range w.suspects {
		s := &w.suspects[i]
		path, text := "", "differs from a record that could not be read again"
		_, err := w.Log.Scan(ctx, w.rng.partition(), s.position.Offset, s.position.Offset+1, func(r *record.Record) error {
			results, err := w.Decoder.TryDecode(*r)
			if err == nil && int(s.position.Part) < len(results) {
				path, text = s.difference(w.Collection, &results[s.position.Part].Measurement)
			}
			return nil
		})
		if err != nil {
			return err
		}
		place := Place(s.position)
		w.found.Different.add(Fault{Bucket: s.bucket, Position: &place, Path: path, Text: text}, w.Examples)
	}
	return nil
}

// difference tells at which path of the bucket the measurement first differs from its record, and how.
func (s *suspect) difference(o timeseries.Options, m *measurement.Measurement) (path, text string) {
	at := func(field string) string { return fmt.Sprintf("%s.%d", timeseries.DataPath(field), s.index) }
	say := func(stored, record string) string { return fmt.Sprintf("is %s, the record says %s", stored, record) }
	if s.time != m.Time {
		return at(o.TimeField), say(showTime(s.time), showTime(m.Time))
	}
	if !same(s.meta, m.Meta) {
		return timeseries.FieldMeta, say(show(s.meta), show(m.Meta))
	}
	for e := range elementsIn(m.Elements) {
		if stored := find(s.elements, e.name); !same(stored, e.value) {
			return at(string(e.name)), say(show(stored), show(e.value))
		}
	}
	for e := range elementsIn(s.elements) {
		if record := find(m.Elements, e.name); record.Type == 0 {
			return at(string(e.name)), say(show(e.value), show(record))
		}
	}
	return "", "differed from its record when it was read first, and does not now"
}

func showTime(ms int64) string {
	return bson.DateTime(ms).Time().UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// checkContent looks whether a bucket agrees with its own columns: the values' indexes, count, min, max and size.
func (w *window) checkContent(b *listing) {
	damaged := func(path, format string, args ...any) {
		w.found.Damaged.add(b.fault(path, format, args...), w.Examples)
	}
	if err := w.unpack(b, func(timeseries.Unpacked) {}); err != nil {
		damaged("", "%v", err)
		return
	}
	made := account(lookup(b.document, timeseries.FieldData).Value, w.Collection.TimeField)
	if path, text := made.disagrees(b.document); path != "" {
		damaged(path, "%s", text)
	}
}

// unpack calls use for each measurement of a bucket. The error tells that the bucket cannot be unpacked, or contradicts
// itself.
func (w *window) unpack(b *listing, use func(timeseries.Unpacked)) error {
	if err := w.unpacker.Reset(b.document); err != nil {
		return fmt.Errorf("cannot be unpacked: %w", err)
	}
	var m timeseries.Unpacked
	for w.unpacker.Next(&m) {
		use(m)
	}
	if err := w.unpacker.Err(); err != nil {
		return fmt.Errorf("cannot be unpacked: %w", err)
	}
	return w.unpacker.Mismatch()
}
