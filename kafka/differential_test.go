package kafka

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// serveLog makes a fake answer fetches from a log. Where it is not still, the last stable offset goes on by and by, and now and
// then nothing comes.
func serveLog(t *testing.T, l *fakeLog, rnd *rand.Rand) *fakeBroker {
	stable := int64(math.MaxInt64)
	if rnd != nil {
		stable = 0
	}
	fake := &fakeBroker{topics: []string{"events"}}
	fake.answer = func(api protocol.ApiKey, frame []byte) []byte {
		if api != protocol.Fetch {
			return nil
		}
		r := reader{rest: frame[12:]}
		r.take(int(r.int16()))
		r.tags()
		r.take(12)
		most := int(r.int32())
		r.take(1 + 8 + 1 + 16 + 1 + 4 + 4)
		offset := r.int64()
		if rnd == nil {
			return l.answer(offset, stable, most).encode()
		}
		stable = min(l.end, max(stable, offset)+rnd.Int64N(800))
		if rnd.IntN(5) == 0 {
			return fetchSpec{id: fakeID, highWatermark: l.end, lastStable: stable}.encode()
		}
		return l.answer(offset, stable, most).encode()
	}
	return startFake(t, fake)
}

// reading is one way through a log.
type reading struct {
	cursor  *Cursor
	next    int64
	records []Record // copies
	idle    int
}

func (r *reading) take(b *Batch, n int) {
	for _, record := range b.Records[:n] {
		record.Key, record.Value, record.RawHeaders = bytes.Clone(record.Key), bytes.Clone(record.Value), bytes.Clone(record.RawHeaders)
		if record.Unreadable != "" {
			record.Unreadable, _, _ = strings.Cut(record.Unreadable, ":") // it may have been come to from a gap before it
		}
		r.records = append(r.records, record)
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

// readWhole reads to the end in pieces as large as everything.
func readWhole(t *testing.T, l *fakeLog, from int64, skip []Position) *reading {
	client, err := serveLog(t, l, nil).open(t, func(o *Options) {
		o.PieceBytes, o.RecordBytes, o.FetchBytes, o.SkipCorrupt = 64<<20, 64<<20, 64<<20, skip
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &reading{cursor: client.Cursor("events", fakeID, 0), next: from}
	for r.idle == 0 {
		b, err := r.cursor.Fetch(t.Context(), r.next)
		if err != nil {
			r.records = append(r.records, Record{Offset: r.next, Unreadable: err.Error()})
			break
		}
		r.take(b, len(b.Records))
		b.Release()
	}
	return r
}

// step takes a part of a small piece, or reads a record again that was taken before.
func (r *reading) step(t *testing.T, rnd *rand.Rand) (done bool) {
	offset := r.next
	again := len(r.records) > 0 && rnd.IntN(10) == 0
	want := Record{}
	if again {
		want = r.records[rnd.IntN(len(r.records))]
		offset = want.Offset
	}
	err := r.cursor.Await(t.Context(), offset, int32(1+rnd.IntN(100_000)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.cursor.Take(offset, Piece{1 + rnd.IntN(60_000), 1 + rnd.IntN(200)})
	if err != nil {
		r.records = append(r.records, Record{Offset: offset, Unreadable: err.Error()})
		return true
	}
	defer b.Release()
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

// Whatever is asked for, in whatever pieces, from whatever answers, with streams that others take away in between: the same
// records come, each once, and the same end.
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
	skip := []Position(nil)
	from := rnd.Int64N(l.end)
	whole := readWhole(t, &l.fakeLog, from, nil)
	n := len(whole.records)
	if n > 0 && whole.records[n-1].Unreadable != "" && !spoilt {
		t.Fatal(whole.records[n-1].Unreadable)
	}
	if n > 0 && whole.records[n-1].Unreadable != "" && rnd.IntN(2) == 0 {
		skip = append(skip, Position{"events", 0, unreadableAt(whole.records[n-1].Unreadable)})
		whole = readWhole(t, &l.fakeLog, from, skip)
	}
	client, err := serveLog(t, &l.fakeLog, rnd).open(t, func(o *Options) {
		o.PieceBytes, o.RecordBytes, o.FetchWait, o.SkipCorrupt = 16<<10+rnd.IntN(16<<10), 64<<10, time.Millisecond, skip
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []*reading
	for range openStreams + 1 {
		all = append(all, &reading{cursor: client.Cursor("events", fakeID, 0), next: from})
	}
	for running := all; len(running) > 0; {
		i := rnd.IntN(len(running))
		if r := running[i]; r.step(t, rnd) {
			running = append(append([]*reading(nil), running[:i]...), running[i+1:]...)
		}
	}
	for _, r := range all {
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

func shown(r Record) string {
	return fmt.Sprintf("%d at %d: %q, %d bytes: %.40q %q", r.Offset, r.Timestamp, r.Key, len(r.Value), r.Value, r.Unreadable)
}

func unreadableAt(message string) (offset int64) {
	_, place, _ := bytes.Cut([]byte(message), []byte("KAFKA_SKIP_CORRUPT=events/0/"))
	for _, digit := range place {
		offset = offset*10 + int64(digit-'0')
	}
	return offset
}
