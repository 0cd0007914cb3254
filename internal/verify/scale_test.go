package verify_test

import (
	"context"
	"flag"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
)

var scale = flag.Int64("scale", 120_000, "records of the test of memory, made up as they are read; a multiple of 4000")

// These are the shape of the generated data. A bucket holds every stride-th offset of a stretch.
const (
	perBucket = 20
	stride    = 200
	stretch   = perBucket * stride
)

// madeUp is a log with its buckets, generated when they are read. The bucket of the deleted offset is missing, and that of the
// doubled offset exists twice.
type madeUp struct {
	records          int64
	deleted, doubled int64
	value            []byte
	document         []byte
}

// Scan implements verify.Log.
func (m *madeUp) Scan(ctx context.Context, _ record.Partition, from, to int64, each func(*record.Record) error) (int64, error) {
	for offset := from; offset < min(to, m.records); offset++ {
		m.value = append(m.value[:0], `{"meta":1,"time":`...)
		m.value = strconv.AppendInt(m.value, noon+offset, 10)
		m.value = append(m.value, `,"x":`...)
		m.value = strconv.AppendInt(m.value, offset%97, 10)
		m.value = append(m.value, '}')
		if err := each(&record.Record{Offset: offset, Timestamp: noon + offset, Value: m.value}); err != nil {
			return from, err
		}
	}
	return from, ctx.Err()
}

// Claims implements verify.Claims.
func (m *madeUp) Claims(context.Context) ([]claim.Document, error) { return nil, nil }

// Find implements verify.Buckets.
func (m *madeUp) Find(_ context.Context, _ timeseries.Source, from, to int64, whole bool, each func(bson.Raw) error) error {
	for base := from / stretch * stretch; base < min(to, m.records); base += stretch {
		for first := base; first < base+stride; first++ {
			last := first + stretch - stride
			if first == m.deleted || last < from || first >= to {
				continue
			}
			if err := each(m.bucket(first, 0, whole)); err != nil {
				return err
			}
			if first == m.doubled {
				if err := each(m.bucket(first, 1, whole)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// bucket generates the bucket with this first offset. Copies have other ids.
func (m *madeUp) bucket(first int64, copied int32, whole bool) bson.Raw {
	positions := make([]timeseries.Position, perBucket)
	for i := range positions {
		positions[i].Offset = first + int64(i)*stride
	}
	last := positions[perBucket-1].Offset
	start, d := bsoncore.AppendDocumentStart(m.document[:0])
	d = bsoncore.AppendObjectIDElement(d, "_id", timeseries.BucketID(timeseries.Source{}, positions[0], copied, noon+first))
	control, d := bsoncore.AppendDocumentElementStart(d, "control")
	d = bsoncore.AppendInt32Element(d, "version", 1)
	if whole {
		d = appendBounds(d, "min", noon+first, positions, func(a, b int64) bool { return a < b })
		d = appendBounds(d, "max", noon+last, positions, func(a, b int64) bool { return a > b })
	}
	d = bsoncore.AppendInt32Element(d, "count", perBucket)
	d = bsoncore.AppendInt32Element(d, "size", 700)
	source, d := bsoncore.AppendDocumentElementStart(d, "source")
	d = bsoncore.AppendInt64Element(d, "first", first)
	d = bsoncore.AppendInt64Element(d, "last", last)
	offsets, d := bsoncore.AppendArrayElementStart(d, "offsets")
	d = bsoncore.AppendBinaryElement(d, "0", 0, timeseries.AppendPositions(nil, positions))
	d, _ = bsoncore.AppendArrayEnd(d, offsets)
	d, _ = bsoncore.AppendDocumentEnd(d, source)
	d, _ = bsoncore.AppendDocumentEnd(d, control)
	if whole {
		d = appendColumns(d, positions)
	}
	m.document, _ = bsoncore.AppendDocumentEnd(d, start)
	return m.document
}

func appendBounds(d []byte, name string, time int64, positions []timeseries.Position, better func(a, b int64) bool) []byte {
	x := positions[0].Offset % 97
	for _, p := range positions {
		if better(p.Offset%97, x) {
			x = p.Offset % 97
		}
	}
	at, d := bsoncore.AppendDocumentElementStart(d, name)
	d = bsoncore.AppendDateTimeElement(d, "time", time)
	d = bsoncore.AppendInt32Element(d, "x", int32(x))
	d, _ = bsoncore.AppendDocumentEnd(d, at)
	return d
}

func appendColumns(d []byte, positions []timeseries.Position) []byte {
	d = bsoncore.AppendInt32Element(d, "meta", 1)
	data, d := bsoncore.AppendDocumentElementStart(d, "data")
	times, d := bsoncore.AppendDocumentElementStart(d, "time")
	for i, p := range positions {
		d = bsoncore.AppendDateTimeElement(d, strconv.Itoa(i), noon+p.Offset)
	}
	d, _ = bsoncore.AppendDocumentEnd(d, times)
	values, d := bsoncore.AppendDocumentElementStart(d, "x")
	for i, p := range positions {
		d = bsoncore.AppendInt32Element(d, strconv.Itoa(i), int32(p.Offset%97))
	}
	d, _ = bsoncore.AppendDocumentEnd(d, values)
	d, _ = bsoncore.AppendDocumentEnd(d, data)
	return d
}

// Update implements verify.Buckets.
func (*madeUp) Update(context.Context, bson.Raw, bson.Raw) (bool, error) { return false, nil }

// Delete implements verify.Buckets.
func (*madeUp) Delete(context.Context, bson.Raw) (bool, error) { return true, nil }

// TestMemoryIsBounded verifies generated records with planted faults, and checks the memory of the process. With -scale=100000000
// there are a hundred million records.
func TestMemoryIsBounded(t *testing.T) {
	const bound = 256 << 20
	for name, content := range map[string]bool{"positions": false, "content": true} {
		t.Run(name, func(t *testing.T) {
			deleted := *scale / 2 / stretch * stretch
			m := &madeUp{records: *scale, deleted: deleted, doubled: deleted + 7}
			var highest uint64
			decoder, err := measurement.New(measurement.Options{TimeField: "time", MetaField: "meta", StoredTime: "time", StoredMeta: "meta"})
			if err != nil {
				t.Fatal(err)
			}
			v, err := verify.New(verify.Options{
				Collection: timeseries.Options{TimeField: "time", MetaField: "meta"}, Decoder: decoder, Log: m, Buckets: m, Claims: m, Content: content,
				Repair: verify.DryRun, Progress: func(verify.Progress) { highest = max(highest, memory()) },
			})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			r, err := v.Partition(t.Context(), verify.Range{To: *scale})
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(begin)
			t.Logf("%d records in %v (%.0f/s), %d MiB at most", r.Records, took.Round(time.Millisecond), float64(r.Records)/took.Seconds(), highest>>20)
			if r.Records != *scale || r.Missing.Count != perBucket || r.Doubled.Count != perBucket || r.StoredOnce != *scale-2*perBucket ||
				r.Missing.First[0].Offset != deleted || r.Doubled.First[1].Offset != deleted+7+stride || r.Damaged.Count+r.Different.Count > 0 ||
				r.Unknown.Count > 0 {
				t.Errorf("%+v", r)
			}
			if highest == 0 || highest > bound {
				t.Errorf("%d MiB of memory, more than %d MiB", highest>>20, bound>>20)
			}
		})
	}
}

// memory returns the number of bytes that the Go runtime holds.
func memory() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// Unfinished implements verify.Buckets.
func (*madeUp) Unfinished(context.Context) (map[claim.Token]bool, error) { return nil, nil }
