package recordbatch

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"waterwheel/internal/record"
)

// serve returns a function that answers fetches from a log. If rnd is not nil, the last stable offset advances little by little,
// and some answers are empty.
func serve(l *fakeLog, rnd *rand.Rand) func(offset int64, most int) Set {
	stable := int64(0)
	return func(offset int64, most int) Set {
		if rnd == nil {
			return l.answer(offset, math.MaxInt64, most)
		}
		stable = min(l.end, max(stable, offset)+rnd.Int64N(800))
		if rnd.IntN(5) == 0 {
			return Set{Partition: of, From: offset, End: l.end}
		}
		return l.answer(offset, stable, most)
	}
}

// reading is one course of reads through a log.
type reading struct {
	memory  *Memory
	serve   func(offset int64, most int) Set
	reader  *Reader
	next    int64
	records []record.Record // copies
	idle    int
	lent    int // sets whose bytes are not free yet
}

// lend overwrites the bytes of a set once they are free.
func (r *reading) lend(s Set) Set {
	r.lent++
	s.Free = func() {
		r.lent--
		for i := range s.Bytes {
			s.Bytes[i] = byte(rand.Uint32()) // different bytes in each reading
		}
	}
	return s
}

// piece reads as the log of a partition does. It fetches a set only if the present one does not have the offset.
func (r *reading) piece(offset int64, most int, p Piece) (record.Batch, error) {
	if r.reader == nil || !r.reader.Has(offset) {
		if r.reader != nil {
			r.reader.Close()
		}
		r.reader = r.memory.NewReader(r.lend(r.serve(offset, most)))
	}
	return r.reader.Take(offset, p)
}

func (r *reading) take(b record.Batch, n int) {
	for _, one := range b.Records[:n] {
		one.Key, one.Value, one.Headers = bytes.Clone(one.Key), bytes.Clone(one.Value), bytes.Clone(one.Headers)
		if one.Unreadable != "" {
			one.Unreadable, _, _ = strings.Cut(one.Unreadable, ":") // the rest depends on the offset at which the read began
		}
		r.records = append(r.records, one)
	}
	r.idle++
	switch {
	case n < len(b.Records):
		r.next = b.Records[n].Offset
	case b.Next > r.next:
		r.idle = 0
		fallthrough
	default:
		r.next = b.Next
	}
	if n > 0 {
		r.idle = 0
	}
}

func release(b record.Batch) {
	if b.Release != nil {
		b.Release()
	}
}

// readWhole reads a log to its end in pieces that are larger than the log.
func readWhole(l *fakeLog, from int64, skip []record.Place) *reading {
	m := NewMemory(Options{PieceBytes: 64 << 20, RecordBytes: 64 << 20, SkipCorrupt: skip})
	r := &reading{memory: m, serve: serve(l, nil), next: from}
	for r.idle == 0 {
		b, err := r.piece(r.next, 64<<20, PieceOf(64<<20))
		if err != nil {
			r.records = append(r.records, record.Record{Offset: r.next, Unreadable: err.Error()})
			break
		}
		r.take(b, len(b.Records))
		release(b)
	}
	return r
}

// step takes a part of a small piece, or reads again a record that was taken before.
func (r *reading) step(t *testing.T, rnd *rand.Rand) (done bool) {
	offset := r.next
	again := len(r.records) > 0 && rnd.IntN(10) == 0
	want := record.Record{}
	if again {
		want = r.records[rnd.IntN(len(r.records))]
		offset = want.Offset
	}
	b, err := r.piece(offset, 1+rnd.IntN(100_000), Piece{1 + rnd.IntN(60_000), 1 + rnd.IntN(200)})
	if err != nil {
		r.records = append(r.records, record.Record{Offset: offset, Unreadable: err.Error()})
		return true
	}
	defer release(b)
	switch {
	case again && b.Next > offset && (len(b.Records) == 0 || b.Records[0].Offset != offset || !bytes.Equal(b.Records[0].Value, want.Value)):
		t.Fatalf("read again at %d: %d records, next %d", offset, len(b.Records), b.Next)
	case again:
	case rnd.IntN(3) == 0:
		r.take(b, rnd.IntN(len(b.Records)+1))
	default:
		r.take(b, len(b.Records))
	}
	return r.idle > 60
}

// TestPiecesAndAnswersMakeNoDifference checks that every course of reads yields the same records, each once, and the same end.
// The courses differ in offsets, sizes of pieces and answers, and take streams away from each other.
func TestPiecesAndAnswersMakeNoDifference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, codecs := range [][]string{{"none"}, {"gzip"}, {"snappy raw"}, {"snappy xerial"}, {"lz4"}, {"zstd"}, {"none", "gzip", "snappy raw", "snappy xerial", "lz4", "zstd"}} {
		for _, spoilt := range []bool{false, true} {
			t.Run(fmt.Sprint(codecs, spoilt), func(t *testing.T) { compareReadings(t, rnd, codecs, spoilt) })
		}
	}
}

func compareReadings(t *testing.T, rnd *rand.Rand, codecs []string, spoilt bool) {
	l := &logMaker{t: t, rnd: rnd, codecs: codecs, fakeLog: fakeLog{end: rnd.Int64N(10)}}
	for range 12 {
		l.step()
	}
	if spoilt {
		l.spoil()
	}
	skip := []record.Place(nil)
	from := rnd.Int64N(l.end)
	whole := readWhole(&l.fakeLog, from, nil)
	n := len(whole.records)
	if n > 0 && whole.records[n-1].Unreadable != "" && !spoilt {
		t.Fatal(whole.records[n-1].Unreadable)
	}
	if n > 0 && whole.records[n-1].Unreadable != "" && rnd.IntN(2) == 0 {
		skip = append(skip, record.Place{Partition: of, Offset: unreadableAt(whole.records[n-1].Unreadable)})
		whole = readWhole(&l.fakeLog, from, skip)
	}
	m := NewMemory(Options{PieceBytes: 16<<10 + rnd.IntN(16<<10), RecordBytes: 64 << 10, SkipCorrupt: skip})
	var all []*reading
	for range openStreams + 1 {
		all = append(all, &reading{memory: m, serve: serve(&l.fakeLog, rnd), next: from})
	}
	for running := all; len(running) > 0; {
		i := rnd.IntN(len(running))
		if r := running[i]; r.step(t, rnd) {
			running = append(append([]*reading(nil), running[:i]...), running[i+1:]...)
		}
	}
	for _, r := range all {
		if r.reader.Close(); r.lent != 0 {
			t.Errorf("%d sets were never freed, or twice", r.lent)
		}
		if r.next != whole.next || !reflect.DeepEqual(r.records, whole.records) {
			t.Errorf("from %d: %d records up to %d, want %d up to %d", from, len(r.records), r.next, len(whole.records), whole.next)
			for i := range min(len(r.records), len(whole.records)) {
				if !reflect.DeepEqual(r.records[i], whole.records[i]) {
					t.Fatalf("record %d is %s, want %s", i, shown(r.records[i]), shown(whole.records[i]))
				}
			}
		}
	}
}

func shown(r record.Record) string {
	return fmt.Sprintf("%d at %d: %q, %d bytes: %.40q %q", r.Offset, r.Timestamp, r.Key, len(r.Value), r.Value, r.Unreadable)
}

func unreadableAt(message string) (offset int64) {
	_, place, _ := bytes.Cut([]byte(message), []byte("KAFKA_SKIP_CORRUPT=events/3/"))
	for _, digit := range place {
		offset = offset*10 + int64(digit-'0')
	}
	return offset
}
