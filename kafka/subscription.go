package kafka

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// This file is the encoding inside JoinGroup and SyncGroup that Kafka calls the consumer protocol; brokers and Kafka's
// own tools read it too. It is version 0: later versions announce owned partitions without their generation, which the
// user data holds.

const (
	protocolType            = "consumer"
	consumerProtocolVersion = 0
)

// encodeSubscription encodes the topics (sorted, so that the same topics give the same bytes) and the user data.
func encodeSubscription(topics []string, userData []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, consumerProtocolVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, topic := range slices.Sorted(slices.Values(topics)) {
		b = appendShortString(b, topic)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(userData)))
	return append(b, userData...)
}

// decodeSubscription decodes a subscription of any version; what later versions add is ignored. userData aliases b.
func decodeSubscription(b []byte) (topics []string, userData []byte, err error) {
	r := reader{rest: b}
	r.int16() // version
	for n := r.int32(); n > 0 && r.err == nil; n-- {
		topics = append(topics, readShortString(&r))
	}
	userData = readBytes(&r)
	if r.err != nil {
		return nil, nil, fmt.Errorf("reading a member's subscription: %w", r.err)
	}
	return topics, userData, nil
}

// encodeAssignment encodes one member's partitions, by topic, and the user data.
func encodeAssignment(assigned map[string][]int, userData []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, consumerProtocolVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(assigned)))
	for _, topic := range slices.Sorted(maps.Keys(assigned)) {
		b = appendShortString(b, topic)
		b = binary.BigEndian.AppendUint32(b, uint32(len(assigned[topic])))
		for _, partition := range assigned[topic] {
			b = binary.BigEndian.AppendUint32(b, uint32(partition))
		}
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(userData)))
	return append(b, userData...)
}

// decodeAssignment decodes an assignment of any version, its partitions sorted. userData aliases b. No bytes at all mean
// that the leader assigned nothing to this member.
func decodeAssignment(b []byte) (partitions []topicPartition, userData []byte, err error) {
	if len(b) == 0 {
		return nil, nil, nil
	}
	r := reader{rest: b}
	r.int16() // version
	for n := r.int32(); n > 0 && r.err == nil; n-- {
		topic := readShortString(&r)
		for n := r.int32(); n > 0 && r.err == nil; n-- {
			partitions = append(partitions, topicPartition{topic, r.int32()})
		}
	}
	userData = readBytes(&r)
	if r.err != nil {
		return nil, nil, fmt.Errorf("reading an assignment: %w", r.err)
	}
	slices.SortFunc(partitions, comparePartitions)
	return slices.Compact(partitions), userData, nil
}

// readString reads a string with a 16-bit length; null is empty.
func readShortString(r *reader) string {
	return string(r.take(max(0, r.shortLen())))
}

// readBytes reads bytes with a 32-bit length; null is nil.
func readBytes(r *reader) []byte {
	n := r.int32()
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}
