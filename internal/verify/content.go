package verify

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// suspect is a stored measurement that differs from its record. It is kept until the record is read again.
type suspect struct {
	bucket  string
	segment bool // bucket is a segment
	index   int  // in the bucket
	stored  timeseries.Unpacked
}

// compare compares each measurement of a bucket with the fingerprint of its record. It skips measurements without a fingerprint,
// which are another finding. Measurements that differ only in the meta are judged after all buckets were read.
func (w *window) compare(b *listing) {
	w.compareEach(b, func(index int, m *timeseries.Unpacked, onlyMeta bool) {
		if onlyMeta {
			w.renamed.add(m.Position)
		} else {
			w.suspect(b, index, m)
		}
	})
}

// compareEach calls use for each measurement of a bucket that differs from its record.
func (w *window) compareEach(b *listing, use func(index int, m *timeseries.Unpacked, onlyMeta bool)) {
	index := -1
	_ = w.unpack(b, func(m timeseries.Unpacked) { // checkContent reports the error
		index++
		if !w.holds(m.Position) || !w.valid.has(m.Position) {
			return
		}
		if is, was := w.hash.sum(m.Time, m.Meta, m.Elements), w.contents.of(m.Position); is != was {
			use(index, &m, is.values == was.values)
		}
	})
}

// suspect counts a measurement that differs from its record, and keeps the first ones.
func (w *window) suspect(b *listing, index int, m *timeseries.Unpacked) {
	if len(w.suspects) == w.Examples {
		w.found.Different.Count++
		return
	}
	kept := *m
	kept.Meta.Value, kept.Elements = bytes.Clone(m.Meta.Value), bytes.Clone(m.Elements)
	w.suspects = append(w.suspects, suspect{b.id(), b.segment, index, kept})
}

// judgeRenamed separates metas that a command has changed from metas that differ without a reason. For the latter it reads the
// buckets once more.
func (w *window) judgeRenamed(ctx context.Context) error {
	different, err := w.withoutNoted(ctx, w.renamed, Notes.Changed, &w.found.MetaChanged)
	if err != nil || different.count() == 0 {
		return err
	}
	from, to := different.span()
	return w.scan(ctx, from, to, true, func(b *listing) error {
		if counts, _ := w.compactions.judge(b); counts {
			w.compareEach(b, func(index int, m *timeseries.Unpacked, onlyMeta bool) {
				if onlyMeta && different.has(m.Position) {
					w.suspect(b, index, m)
				}
			})
		}
		return nil
	})
}

// explain reads the records of the suspects again to find out where they differ.
func (w *window) explain(ctx context.Context) error {
	for i := range w.suspects {
		s := &w.suspects[i]
		position := s.stored.Position
		path, text := "", "differs from its record, which could not be read again"
		_, err := w.Log.Scan(ctx, w.rng.partition(), position.Offset, position.Offset+1, func(r *record.Record) error {
			results, err := w.Decoder.TryDecode(*r)
			i := slices.IndexFunc(results, func(r measurement.Result) bool { return r.Measurement.Position == position })
			if err == nil && i >= 0 {
				path, text = s.difference(w.Collection, &results[i].Measurement)
			}
			return nil
		})
		if err != nil {
			return err
		}
		w.found.Different.add(Fault{Bucket: s.bucket, Position: &position, Path: path, Text: text}, w.Examples)
	}
	return nil
}

// difference returns the path in the bucket at which the measurement first differs from its record, and a text about it.
func (s *suspect) difference(o timeseries.Options, m *measurement.Measurement) (path, text string) {
	at := func(field string) string { return fmt.Sprintf("%s.%d", timeseries.DataPath(field), s.index) }
	say := func(stored, record string) string { return fmt.Sprintf("is %s, but the record has %s", stored, record) }
	if s.stored.Time != m.Time {
		return at(o.TimeField), say(showTime(s.stored.Time), showTime(m.Time))
	}
	if !s.stored.Meta.Equal(m.Meta) {
		path := timeseries.FieldMeta
		if s.segment {
			path = at(o.MetaField)
		}
		return path, say(show(s.stored.Meta), show(m.Meta))
	}
	for e := range elementsIn(m.Elements) {
		if stored := find(elementsIn(s.stored.Elements), string(e.name)); !stored.Equal(e.value) {
			return at(string(e.name)), say(show(stored), show(e.value))
		}
	}
	for e := range elementsIn(s.stored.Elements) {
		if record := find(elementsIn(m.Elements), string(e.name)); record.Type == 0 {
			return at(string(e.name)), say(show(e.value), show(record))
		}
	}
	return "", "differed from its record at the first reading, but not at the second"
}

func showTime(ms int64) string {
	return bson.DateTime(ms).Time().UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// checkContent checks a bucket against its own columns: the values' indexes, count, min, max and size.
func (w *window) checkContent(b *listing) {
	var metas timeseries.Bloom
	if err := w.unpack(b, func(m timeseries.Unpacked) {
		if b.segment {
			metas.Add(nil, m.Meta)
		}
	}); err != nil {
		w.damaged(b, "", "%v", err)
		return
	}
	made := account(lookup(b.document, timeseries.FieldData).Value, w.Collection.TimeField)
	if path, text := made.disagrees(b.document); path != "" {
		w.damaged(b, path, "%s", text)
	} else if b.segment {
		w.checkSegment(b, &metas)
	}
}

// unpack calls use for each measurement of a bucket. It returns an error if the bucket cannot be unpacked, or contradicts itself.
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

// fingerprint is a pair of 64-bit hashes of a measurement: of its meta, and of its time and fields.
type fingerprint struct{ meta, values uint64 }

// fingerprints are the fingerprints of the measurements of a window. Buckets come in another order than records. With
// fingerprints they can be compared without keeping either in memory.
type fingerprints struct {
	start int64
	whole []fingerprint // those of part 0, by offset − start
	parts []partFingerprint
}

type partFingerprint struct {
	position timeseries.Position
	of       fingerprint
}

// add adds the fingerprint of a measurement. Measurements come in the order of their positions.
func (f *fingerprints) add(p timeseries.Position, of fingerprint) {
	if p.Part != 0 {
		f.parts = append(f.parts, partFingerprint{p, of})
		return
	}
	at := int(p.Offset - f.start)
	if grow := at + 1 - len(f.whole); grow > 0 {
		f.whole = slices.Grow(f.whole, grow)[:at+1]
	}
	f.whole[at] = of
}

// of returns the fingerprint of a position that was added.
func (f *fingerprints) of(p timeseries.Position) fingerprint {
	if p.Part == 0 {
		return f.whole[p.Offset-f.start]
	}
	at, _ := slices.BinarySearchFunc(f.parts, p, func(e partFingerprint, p timeseries.Position) int {
		return e.position.Compare(p)
	})
	return f.parts[at].of
}

// hasher computes fingerprints of measurements. They do not depend on the order of fields, which differs in columns. Each hasher
// has another seed, so that two runs do not miss the same change.
type hasher struct {
	seed maphash.Seed
	head []byte
}

func newHasher() *hasher { return &hasher{seed: maphash.MakeSeed()} }

func (h *hasher) sum(time int64, meta bson.RawValue, elements []byte) fingerprint {
	h.head = append(append(h.head[:0], byte(meta.Type)), meta.Value...)
	of := fingerprint{meta: maphash.Bytes(h.seed, h.head)}
	h.head = binary.LittleEndian.AppendUint64(h.head[:0], uint64(time))
	of.values = maphash.Bytes(h.seed, h.head)
	for e := range elementsIn(elements) {
		of.values += maphash.Bytes(h.seed, e.whole)
	}
	return of
}
