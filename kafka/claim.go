package kafka

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

const (
	// noGeneration is the generation of a member that has not been assigned anything yet.
	noGeneration = -1
	// userDataVersion is the first byte of all that this file encodes, and by which consumers of this program know each
	// other: what has another version is refused, as another program's.
	userDataVersion = 1
)

// topicPartition names one partition.
type topicPartition struct {
	topic     string
	partition int32
}

func comparePartitions(a, b topicPartition) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// ownership is what a member was last assigned and in which generation: the user data of its subscription, by which the
// leader leaves partitions where they are.
type ownership struct {
	generation int32
	partitions []topicPartition
}

// encodeOwnership encodes o: version, generation (32 bits), then, sorted, each topic's name and partitions. The same
// ownership always gives the same bytes: a changed byte on rejoining would make the coordinator rebalance a stable group.
func encodeOwnership(o ownership) []byte {
	b := []byte{userDataVersion}
	b = binary.BigEndian.AppendUint32(b, uint32(o.generation))
	byTopic := map[string][]int32{}
	for _, p := range o.partitions {
		byTopic[p.topic] = append(byTopic[p.topic], p.partition)
	}
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		partitions := byTopic[topic]
		slices.Sort(partitions)
		b = appendCompactString(b, topic)
		b = appendCompactLen(b, len(partitions))
		for _, p := range partitions {
			b = binary.AppendUvarint(b, uint64(p))
		}
	}
	return b
}

// decodeOwnership decodes what encodeOwnership made. The bytes come from other members: nothing in them is trusted.
func decodeOwnership(b []byte) (ownership, error) {
	r := reader{rest: b}
	checkUserDataVersion(&r)
	o := ownership{generation: r.int32()}
	for r.err == nil && len(r.rest) > 0 {
		topic := r.compactString()
		for n := r.compactLen(); n > 0 && r.err == nil; n-- {
			o.partitions = append(o.partitions, topicPartition{topic, readCount(&r)})
		}
	}
	if r.err != nil {
		return ownership{generation: noGeneration}, fmt.Errorf("reading a member's claim: %w", r.err)
	}
	return o, nil
}

// topicShape is what an assignment was made from: the topic's identity and its number of partitions. A member that sees
// another shape asks for a rebalance.
type topicShape struct {
	id         [16]byte
	partitions int32
}

// encodeShapes encodes the shapes as the user data of an assignment: version, then, sorted, each topic's name, id (16
// bytes) and number of partitions.
func encodeShapes(shapes map[string]topicShape) []byte {
	b := []byte{userDataVersion}
	for _, topic := range slices.Sorted(maps.Keys(shapes)) {
		shape := shapes[topic]
		b = appendCompactString(b, topic)
		b = append(b, shape.id[:]...)
		b = binary.AppendUvarint(b, uint64(shape.partitions))
	}
	return b
}

// decodeShapes decodes what encodeShapes made, in the hands of another member.
func decodeShapes(b []byte) (map[string]topicShape, error) {
	r := reader{rest: b}
	checkUserDataVersion(&r)
	shapes := map[string]topicShape{}
	for r.err == nil && len(r.rest) > 0 {
		topic := r.compactString()
		shapes[topic] = topicShape{id: r.uuid(), partitions: readCount(&r)}
	}
	if r.err != nil {
		return nil, fmt.Errorf("reading an assignment's topics: %w", r.err)
	}
	return shapes, nil
}

func checkUserDataVersion(r *reader) {
	if v := r.take(1); v != nil && v[0] != userDataVersion {
		r.fail(fmt.Errorf("%w: version %d, %d is known", errMalformed, v[0], userDataVersion))
	}
}

// readCount reads a number of partitions, or the number of one.
func readCount(r *reader) int32 {
	v := r.uvarint()
	if v > math.MaxInt32 {
		r.fail(fmt.Errorf("%w: partition number %d", errMalformed, v))
		return 0
	}
	return int32(v)
}
