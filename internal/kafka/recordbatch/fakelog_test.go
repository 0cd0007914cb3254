package recordbatch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"waterwheel/internal/record"
)

// fakeLog is a partition's log. It holds whole record batches in order, and its aborted transactions.
type fakeLog struct {
	batches [][]byte
	lasts   []int64 // their last offsets
	aborted []abortedSpan
	end     int64
}

// abortedSpan is an aborted transaction and the offset of its marker.
type abortedSpan struct {
	Aborted
	marker int64
}

// of is the partition that tests read.
var of = record.Partition{Topic: "events", Number: 3}

// answer returns a broker's answer to a fetch from an offset on, below a last stable offset. The first record batch is whole. A
// later one is cut off where the answer reaches most bytes.
func (l *fakeLog) answer(offset, stable int64, most int) Set {
	set := Set{Partition: of, From: offset, End: l.end}
	for i, batch := range l.batches {
		if l.lasts[i] < offset || l.lasts[i] >= stable {
			continue
		}
		if len(set.Bytes) > 0 && len(set.Bytes)+len(batch) > most {
			set.Bytes = append(set.Bytes, batch[:max(0, most-len(set.Bytes))]...)
			break
		}
		set.Bytes = append(set.Bytes, batch...)
	}
	for _, a := range l.aborted {
		if a.marker >= offset {
			set.Aborted = append(set.Aborted, a.Aborted)
		}
	}
	return set
}

// logMaker makes a random log.
type logMaker struct {
	fakeLog
	t      *testing.T
	rnd    *rand.Rand
	codecs []string // names of compressors, or "none"
}

func (l *logMaker) put(batch []byte) {
	h := parseBatchHeader(batch)
	last := h.base + int64(h.lastDelta)
	l.batches, l.lasts = append(l.batches, batch), append(l.lasts, last)
	if l.end = last + 1; l.rnd.IntN(4) == 0 {
		l.end += l.rnd.Int64N(6) // a gap
	}
}

// records returns a record batch as compaction may leave it. Offsets are missing at its beginning, in its middle and at its end.
func (l *logMaker) records(attributes int16, producer int64, n, most int) []byte {
	delta := int64(-1)
	var payload []byte
	for i := range n {
		if delta++; l.rnd.IntN(3) == 0 {
			delta += l.rnd.Int64N(4)
		}
		r := recordSpec{delta: delta, time: l.rnd.Int64N(1000) - 500, value: bytes.Repeat([]byte(fmt.Sprintf("%x,", l.rnd.Uint64())), l.rnd.IntN(most)/17)}
		if i%3 == 0 {
			r.key = []byte("key")
		}
		if i%5 == 0 {
			r.headers = []record.Header{{Key: "h", Value: []byte{byte(i)}}, {Key: "null", Value: nil}}
		}
		payload = append(payload, r.encode()...)
	}
	spec := batchSpec{
		base: l.end, attributes: attributes, lastDelta: int32(delta + 1 + l.rnd.Int64N(2)), baseTime: 5000, maxTime: 7777,
		producer: producer, count: int32(n), payload: payload,
	}
	if l.rnd.IntN(4) == 0 {
		spec.attributes |= attributeLogAppendTime
	}
	if c, ok := compressors(l.t)[l.codecs[l.rnd.IntN(len(l.codecs))]]; ok {
		spec.attributes, spec.payload = spec.attributes|c.codec, c.compress(payload)
	}
	return spec.encode()
}

// size returns a number of records and the maximum length of a value. Most record batches are small. Some take many pieces, or
// have long records.
func (l *logMaker) size() (n, most int) {
	switch l.rnd.IntN(6) {
	case 0:
		return 1 + l.rnd.IntN(600), 2000
	case 1:
		return 1 + l.rnd.IntN(20), 40_000
	}
	return 1 + l.rnd.IntN(30), 300
}

// step appends one or a few record batches.
func (l *logMaker) step() {
	n, most := l.size()
	switch l.rnd.IntN(8) {
	case 0:
		l.put(batchSpec{base: l.end, lastDelta: l.rnd.Int32N(5)}.encode()) // all of it was compacted
	case 1:
		l.put(batchSpec{base: l.end, attributes: attributeControl | attributeTransactional, producer: 9}.encode())
	case 2:
		l.transactions(n, most)
	default:
		l.put(l.records(0, -1, n, most))
	}
}

// transactions appends two transactions that overlap, over several record batches. Each may be aborted.
func (l *logMaker) transactions(n, most int) {
	first := [3]int64{-1, -1, -1}
	for range 2 + l.rnd.IntN(4) {
		producer := 1 + l.rnd.Int64N(2)
		if first[producer] < 0 {
			first[producer] = l.end
		}
		l.put(l.records(attributeTransactional, producer, n, most))
		if l.rnd.IntN(2) == 0 {
			l.put(l.records(0, producer, 1+l.rnd.IntN(5), 100))
		}
	}
	for producer := int64(2); producer > 0; producer-- {
		if first[producer] < 0 {
			continue
		}
		if l.rnd.IntN(3) == 0 {
			l.put(marker(l.end, producer, commitMarker))
			continue
		}
		l.aborted = append(l.aborted, abortedSpan{Aborted{producer, first[producer]}, l.end})
		l.put(marker(l.end, producer, abortMarker))
	}
}

// spoil damages the record batch in the middle of the log, either its checksum or a record in it.
func (l *logMaker) spoil() {
	at := len(l.batches) / 2
	h := parseBatchHeader(l.batches[at])
	if l.rnd.IntN(2) == 0 {
		l.batches[at][batchChecksum] ^= 1
		return
	}
	var payload []byte
	for i := range 300 {
		payload = append(payload, recordSpec{delta: int64(i), value: bytes.Repeat([]byte("x"), 200)}.encode()...)
	}
	payload = append(payload, bytes.Repeat([]byte{0xff}, 100)...)
	spec := batchSpec{base: h.base, lastDelta: max(h.lastDelta, 400), count: 400, payload: payload}
	if c, ok := compressors(l.t)[l.codecs[l.rnd.IntN(len(l.codecs))]]; ok {
		spec.attributes, spec.payload = c.codec, c.compress(payload)
	}
	l.batches, l.lasts, l.end = l.batches[:at+1], l.lasts[:at+1], h.base+int64(spec.lastDelta)+1
	l.batches[at], l.lasts[at] = spec.encode(), l.end-1
	l.aborted = slices.DeleteFunc(l.aborted, func(a abortedSpan) bool { return a.marker >= h.base })
	for range 5 {
		l.step()
	}
}
