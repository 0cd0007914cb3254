package kafka

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

const attributeTransactional = 0x10

// batchOf returns an uncompressed record batch with count records from an offset on. The values are the last digits of the
// offsets.
func batchOf(base int64, attributes int16, producer, baseTime int64, count int) []byte {
	var payload []byte
	for i := range count {
		body := binary.AppendVarint(binary.AppendVarint([]byte{0}, int64(i)), int64(i)) // attributes, time, offset
		body = append(binary.AppendVarint(body, 3), "key"...)
		body = append(binary.AppendVarint(body, 1), byte('0'+(base+int64(i))%10))
		body = append(body, 0) // headers
		payload = append(binary.AppendVarint(payload, int64(len(body))), body...)
	}
	checked := binary.BigEndian.AppendUint16(nil, uint16(attributes))
	checked = binary.BigEndian.AppendUint32(checked, uint32(count-1))
	checked = binary.BigEndian.AppendUint64(checked, uint64(baseTime))
	checked = binary.BigEndian.AppendUint64(checked, uint64(baseTime+int64(count)-1))
	checked = binary.BigEndian.AppendUint64(checked, uint64(producer))
	checked = append(checked, make([]byte, 6)...) // the producer's epoch, the base sequence
	checked = append(binary.BigEndian.AppendUint32(checked, uint32(count)), payload...)

	b := binary.BigEndian.AppendUint64(nil, uint64(base))
	b = binary.BigEndian.AppendUint32(b, uint32(9+len(checked)))
	b = append(binary.BigEndian.AppendUint32(b, 7), 2) // leader epoch, format
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(checked, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, checked...)
}

func plainBatch(base int64, count int) []byte { return batchOf(base, 0, -1, 0, count) }

// partition returns a partition of a topic.
func partition(topic string, number int32) record.Partition {
	return record.Partition{Topic: topic, Number: number}
}

// fetch reads one piece of partition 0. Its errors are for Classify.
func fetch(ctx context.Context, c *Client, topic string, id [16]byte, offset int64) (record.Batch, error) {
	return c.Log(partition(topic, 0), id).fetch(ctx, offset)
}

func (l *Log) fetch(ctx context.Context, offset int64) (record.Batch, error) {
	if err := l.await(ctx, offset, math.MaxInt64); err != nil {
		return record.Batch{}, err
	}
	return l.take(offset, recordbatch.PieceOf(1<<20))
}

// tested fills in options that tests need not set.
func tested(o Options) Options {
	if o.FetchBytes == 0 {
		o.FetchBytes = 2 << 20
	}
	if o.FetchWait == 0 {
		o.FetchWait = 500 * time.Millisecond
	}
	o.Decoding.PieceBytes, o.Decoding.RecordBytes = 1<<20, 2<<20
	return o
}

// offsets returns the offsets of a batch's records.
func offsets(b record.Batch) []int64 {
	var list []int64
	for _, r := range b.Records {
		list = append(list, r.Offset)
	}
	return list
}
