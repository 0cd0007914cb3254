package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// deleteRecords is DeleteRecords v1 for one partition, which kafka-go does not have. It is also its own answer.
type deleteRecords struct {
	topic     string
	partition int32
	before    int64
}

var (
	_ protocol.RawExchanger  = (*deleteRecords)(nil)
	_ protocol.BrokerMessage = (*deleteRecords)(nil)
)

// ApiKey implements protocol.Message.
func (*deleteRecords) ApiKey() protocol.ApiKey { return protocol.DeleteRecords }

// Required implements protocol.RawExchanger.
func (*deleteRecords) Required(map[protocol.ApiKey]int16) bool { return true }

// Broker implements protocol.BrokerMessage. Only the leader deletes records.
func (d *deleteRecords) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	p, ok := cluster.Topics[d.topic].Partitions[d.partition]
	if !ok {
		return protocol.Broker{}, fmt.Errorf("%s/%d has no leader", d.topic, d.partition)
	}
	return cluster.Brokers[p.Leader], nil
}

// RawExchange implements protocol.RawExchanger.
func (d *deleteRecords) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	const version, correlation, timeout = 1, 1, 10_000
	b := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(protocol.DeleteRecords))
	b = binary.BigEndian.AppendUint16(b, version)
	b = binary.BigEndian.AppendUint32(b, correlation)
	b = binary.BigEndian.AppendUint16(b, 0) // no client id
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint16(b, uint16(len(d.topic)))
	b = append(b, d.topic...)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(d.partition))
	b = binary.BigEndian.AppendUint64(b, uint64(d.before))
	b = binary.BigEndian.AppendUint32(b, timeout)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := rw.Write(b); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(rw, size[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(rw, answer); err != nil {
		return nil, err
	}
	if len(answer) < 2 {
		return nil, errors.New("an answer without a code")
	}
	if code := int16(binary.BigEndian.Uint16(answer[len(answer)-2:])); code != 0 { // the last field
		return nil, kafka.Error(code)
	}
	return d, nil
}
