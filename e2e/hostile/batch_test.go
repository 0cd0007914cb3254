package hostile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// The codecs of a record batch.
const (
	plain int16 = 0
	gzip  int16 = 1
	zstd  int16 = 4
)

// record is one record as a batch holds it, with all lengths free to be wrong.
type record struct {
	offset     int64 // relative to the offset of the batch
	key, value []byte
	headers    []byte // starts with the number of headers; nil means no headers
	fields     []byte // starts with the key; used instead of the fields above
	lie        int    // added to the length of the record
}

// appendTo appends the record with its length.
func (r record) appendTo(b []byte) []byte {
	body := []byte{0, 0} // attributes, and the time relative to that of the batch
	body = binary.AppendVarint(body, r.offset)
	if r.fields == nil {
		r.fields = appendBytes(appendBytes(nil, r.key), r.value)
		if r.headers == nil {
			r.headers = []byte{0}
		}
		r.fields = append(r.fields, r.headers...)
	}
	body = append(body, r.fields...)
	return append(binary.AppendVarint(b, int64(len(body)+r.lie)), body...)
}

// appendBytes appends a byte string with its length, -1 for nil.
func appendBytes(b, field []byte) []byte {
	if field == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(field))), field...)
}

// recordBatch returns a batch of n records from their encoded and compressed form. Brokers set the offset of the batch.
func recordBatch(codec int16, n int, encoded []byte) []byte {
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		Length: int32(49 + len(encoded)), PartitionLeaderEpoch: -1, Magic: 2, Attributes: codec,
		LastOffsetDelta: int32(n - 1), FirstTimestamp: now, MaxTimestamp: now, ProducerID: -1, ProducerEpoch: -1,
		FirstSequence: -1, NumRecords: int32(n), Records: encoded,
	}
	b := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// compressed returns b compressed with a codec.
func compressed(t *testing.T, codec int16, b []byte) []byte {
	t.Helper()
	choice := map[int16]kgo.CompressionCodec{plain: kgo.NoCompression(), gzip: kgo.GzipCompression(), zstd: kgo.ZstdCompression()}[codec]
	compressor, err := kgo.DefaultCompressor(choice)
	if err != nil {
		t.Fatal(err)
	}
	if compressor == nil {
		return b
	}
	out, _ := compressor.Compress(new(bytes.Buffer), b)
	return out
}

// produce writes a record batch unchanged to a partition, and returns the error of the broker.
func (r *trial) produce(partition int32, batch []byte) error {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.settings["KAFKA_BROKERS"]), kgo.MaxVersions(kversion.V3_6_0())) // uses names
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 10_000
	request.Topics = []kmsg.ProduceRequestTopic{{
		Topic: r.topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: batch}},
	}}
	for ctx := within(r.t, 20*time.Second); ; time.Sleep(50 * time.Millisecond) {
		response, err := request.RequestWith(ctx, client)
		if err != nil {
			return fmt.Errorf("producing a batch of %d bytes: %w", len(batch), err)
		}
		err = kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
		if !errors.Is(err, kerr.NotLeaderForPartition) { // the topic was just made
			return err
		}
	}
}

// mustProduce writes records as one batch.
func (r *trial) mustProduce(partition int32, codec int16, records ...record) {
	r.t.Helper()
	var encoded []byte
	for i, one := range records {
		one.offset += int64(i)
		encoded = one.appendTo(encoded)
	}
	if err := r.produce(partition, recordBatch(codec, len(records), compressed(r.t, codec, encoded))); err != nil {
		r.t.Fatal(err)
	}
}
