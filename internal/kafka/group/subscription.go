package group

import (
	"encoding/binary"
	"maps"
	"slices"

	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// This file encodes the consumer protocol, that is, the content of JoinGroup and SyncGroup that brokers and Kafka's own tools
// read too. It uses version 0. Later versions announce owned partitions without their generation, which the user data holds here.

const (
	protocolType            = "consumer"
	consumerProtocolVersion = 0
)

// encodeSubscription encodes the topics (sorted, so that the same topics give the same bytes) and the user data.
func encodeSubscription(topics []string, userData []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, consumerProtocolVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, topic := range slices.Sorted(slices.Values(topics)) {
		b = wire.AppendShortString(b, topic)
	}
	return wire.AppendLongBytes(b, userData)
}

// decodeSubscription decodes a subscription of any version and ignores the additions of later ones. userData aliases b.
func decodeSubscription(b []byte) (topics []string, userData []byte, err error) {
	r := wire.NewReader(b)
	r.Int16() // version
	for range r.Times(r.LongLen()) {
		topics = append(topics, r.ShortString())
	}
	userData = r.LongBytes()
	return topics, userData, r.Wrong("a member's subscription")
}

// encodeAssignment encodes one member's partitions, by topic, and the user data.
func encodeAssignment(assigned map[string][]int32, userData []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, consumerProtocolVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(assigned)))
	for _, topic := range slices.Sorted(maps.Keys(assigned)) {
		b = wire.AppendShortString(b, topic)
		b = binary.BigEndian.AppendUint32(b, uint32(len(assigned[topic])))
		for _, partition := range assigned[topic] {
			b = binary.BigEndian.AppendUint32(b, uint32(partition))
		}
	}
	return wire.AppendLongBytes(b, userData)
}

// decodeAssignment decodes an assignment of any version and sorts its partitions. userData aliases b. An empty b means that the
// leader assigned nothing to this member.
func decodeAssignment(b []byte) (partitions []record.Partition, userData []byte, err error) {
	if len(b) == 0 {
		return nil, nil, nil
	}
	r := wire.NewReader(b)
	r.Int16() // version
	for range r.Times(r.LongLen()) {
		topic := r.ShortString()
		for range r.Times(r.LongLen()) {
			partitions = append(partitions, record.Partition{Topic: topic, Number: r.Int32()})
		}
	}
	userData = r.LongBytes()
	slices.SortFunc(partitions, record.Partition.Compare)
	return slices.Compact(partitions), userData, r.Wrong("an assignment")
}
