package check

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"waterwheel/internal/record"
)

const (
	// keptBytes bounds the size of the records of a sample that are kept to try settings with.
	keptBytes = 16 << 20
	// probedRecords bounds how many records each time format is tried with.
	probedRecords = 1000
)

// kept is a set of records of a sample, all or an evenly spread part, to try settings with.
type kept struct {
	list  []keptRecord
	bytes int
	bits  uint
	seen  uint64 // number of records that were offered
}

type keptRecord struct {
	record.Record
	partition int32
	order     uint64 // a hash; the records with at least some number of trailing zero bits are a fair part of all
	events    bool   // it contains objects
}

// keep copies a record.
func (k *kept) keep(partition int32, r *record.Record, events bool) {
	k.seen++
	order := hashOf(binary.LittleEndian.AppendUint64(nil, k.seen))
	if uint(bits.TrailingZeros64(order)) < k.bits || r.Value == nil {
		return
	}
	k.bytes += len(r.Key) + len(r.Value) + len(r.Headers)
	k.list = append(k.list, keptRecord{
		Record: record.Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Headers: bytes.Clone(r.Headers), Cut: r.Cut}, partition: partition, order: order, events: events,
	})
	for k.bytes > keptBytes && len(k.list) > 1 {
		k.bits++
		k.thin()
	}
}

// thin drops the records that no longer belong to the part.
func (k *kept) thin() {
	all := k.list
	k.list, k.bytes = nil, 0
	for _, r := range all {
		if uint(bits.TrailingZeros64(r.order)) >= k.bits {
			k.list, k.bytes = append(k.list, r), k.bytes+len(r.Key)+len(r.Value)+len(r.Headers)
		}
	}
}

// probe returns some of the records with events, spread evenly.
func (k *kept) probe() (list []keptRecord) {
	for zeros := k.bits; ; zeros++ {
		list = list[:0]
		for _, r := range k.list {
			if r.events && uint(bits.TrailingZeros64(r.order)) >= zeros {
				list = append(list, r)
			}
		}
		if len(list) <= probedRecords {
			return list
		}
	}
}
