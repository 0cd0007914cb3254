package sink_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// These describe the buckets of madeUp. The records of a topic belong to its series in turns.
const (
	madeUpSeries = 1000
	madeUpCount  = 1000 // measurements per bucket
	// resetHeap bounds the growth of the heap while the stored positions are read, for a reset of any distance.
	resetHeap = 64 << 20
)

// madeUp is a Collection of buckets that are generated when they are read. They list two of every three offsets below total. The
// window of stored positions is then as large as possible, with a bit per offset.
type madeUp struct {
	mongodb.Editable
	total int64
	parts int32 // elements of each record. 1 means no arrays.
	// looked is called before every thousandth bucket.
	looked func()
}

// holds reports whether a bucket lists an offset.
func (m *madeUp) holds(offset int64) bool { return offset < m.total && offset%3 != 2 }

// Find implements mongodb.Collection. It returns every bucket, also those that a server would leave out.
func (m *madeUp) Find(_ context.Context, _ mongodb.Query, each func(bson.Raw) error) error {
	const block = madeUpSeries * madeUpCount
	var bucket []byte
	var positions []timeseries.Position
	made := 0
	for first := int64(0); first < m.total; first += block {
		for series := range int64(madeUpSeries) {
			positions = positions[:0]
			for offset := first + series; offset < first+block; offset += madeUpSeries {
				if m.holds(offset) {
					for part := range m.parts {
						positions = append(positions, timeseries.Position{Offset: offset, Part: part})
					}
				}
			}
			if made++; made%1000 == 0 {
				m.looked()
			}
			bucket = appendListing(bucket[:0], positions)
			if err := each(bucket); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendListing appends the fields of a bucket from which stored positions are read: its number of measurements and their positions.
func appendListing(dst []byte, positions []timeseries.Position) []byte {
	offsets := bsoncore.NewArrayBuilder().AppendBinary(bson.TypeBinaryGeneric, timeseries.AppendPositions(nil, positions)).Build()
	source := bsoncore.NewDocumentBuilder().AppendArray(timeseries.FieldOffsets, offsets).Build()
	control := bsoncore.NewDocumentBuilder().AppendInt32(timeseries.FieldCount, int32(len(positions))).
		AppendDocument(timeseries.FieldSource, source).Build()
	return append(dst, bsoncore.NewDocumentBuilder().AppendDocument(timeseries.FieldControl, control).Build()...)
}

// nothing is a Collection without documents.
type nothing struct{ mongodb.Editable }

// Find implements mongodb.Collection.
func (nothing) Find(context.Context, mongodb.Query, func(bson.Raw) error) error { return nil }

// resetCost is the cost of reading the stored positions after a reset to offset 0.
type resetCost struct {
	took    time.Duration
	largest int64 // memory of the stored positions, by its own count
	grown   int64 // growth of the heap, with garbage
	windows int
}

// reset reads the stored positions window by window, as after a reset to offset 0, and looks up each offset.
func reset(t testing.TB, m *madeUp, storedBytes int64) (cost resetCost) {
	t.Helper()
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	runtime.GC()
	before := heap()
	m.looked = func() { cost.grown = max(cost.grown, heap()-before) }
	store := sink.NewStore(collection.Ready{Ports: collection.Ports{Buckets: m, Options: nothing{}}}, sink.StoreOptions{WriteTimeout: time.Second, StoredBytes: storedBytes})
	p := store.Partition(source, "cluster", "group", "host")
	for next := int64(0); next < m.total; cost.windows++ {
		start := time.Now()
		d, err := p.Stored(t.Context(), next, next+1<<28)
		cost.took += time.Since(start)
		if err != nil {
			t.Fatal(err)
		}
		m.looked()
		cost.largest = max(cost.largest, d.Bytes())
		begin, end := d.Window()
		if begin != next || end <= next {
			t.Fatalf("the window that begins at %d is %d to %d", next, begin, end)
		}
		m.compare(t, d)
		next = end
	}
	return cost
}

// compare looks up positions that the stored positions must hold in its window, and others that it must not.
func (m *madeUp) compare(t testing.TB, d *timeseries.PositionSet) {
	t.Helper()
	begin, end := d.Window()
	step := max(1, (min(end, m.total)-begin)/100_003) // about 100,003 offsets, with all remainders modulo three
	for offset := begin; offset < min(end, m.total+10); offset += step {
		for _, part := range []int32{0, m.parts - 1} {
			if got := d.Contains(timeseries.Position{Offset: offset, Part: part}); got != m.holds(offset) {
				t.Fatalf("D of %d to %d tells %v of %d.%d", begin, end, got, offset, part)
			}
		}
		if d.Contains(timeseries.Position{Offset: offset, Part: m.parts}) {
			t.Fatalf("D holds part %d of %d", m.parts, offset)
		}
	}
}

func TestResetTakesABitAnOffset(t *testing.T) {
	const total = 1_000_000
	cost := reset(t, &madeUp{total: total, parts: 1}, 0)
	t.Logf("%d offsets: %+v", total, cost)
	if cost.windows != 1 || cost.largest > total/8*5/4 || cost.grown > resetHeap {
		t.Errorf("%d offsets: %+v", total, cost)
	}
}

// TestResetOfArraysComesInWindows checks this because elements of arrays need more than a bit, so the stored positions do not fit.
func TestResetOfArraysComesInWindows(t *testing.T) {
	const limit = 1 << 20
	cost := reset(t, &madeUp{total: 50_000, parts: 6}, limit)
	t.Logf("%+v", cost)
	if cost.windows < 3 || cost.windows > 20 || cost.largest > limit {
		t.Errorf("%+v", cost)
	}
}

// TestOneRecordAlwaysFits checks that a window of the stored positions holds at least one offset, for any size.
func TestOneRecordAlwaysFits(t *testing.T) {
	if cost := reset(t, &madeUp{total: 4, parts: 100_000}, 1); cost.windows > 4 {
		t.Errorf("%+v", cost)
	}
}

// BenchmarkReset100M reads the stored positions after a reset by 100 million offsets. It fails if the heap grows by more than 64
// MiB.
func BenchmarkReset100M(b *testing.B) {
	const total = 100_000_000
	for b.Loop() {
		cost := reset(b, &madeUp{total: total, parts: 1}, 0)
		if cost.grown > resetHeap {
			b.Fatalf("%+v", cost)
		}
		b.ReportMetric(float64(cost.took.Nanoseconds())/total, "ns/offset")
		b.ReportMetric(float64(cost.largest)/(1<<20), "MiB-of-D")
		b.ReportMetric(float64(cost.grown)/(1<<20), "MiB-heap-growth")
	}
}
