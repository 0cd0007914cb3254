package group

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

const (
	// noGeneration is the generation of a member that has not been assigned anything yet.
	noGeneration = -1
	// userDataVersion is the first byte of all that this file encodes, and by which consumers of this program know each
	// other: what has another version is refused, as another program's.
	userDataVersion = 1
)

// Marks stand among the topics, as names that no topic can have, so that versions of this program that do not know them take no
// notice.
const (
	// cooperativeMark means of a member that it can go on with what it owns while the group joins, and of an assignment that all can.
	cooperativeMark = ":cooperative"
	// holdingMark means that this member does so now.
	holdingMark = ":holding"
	// leavingMark means that this member is about to leave, and takes nothing if others can.
	leavingMark = ":leaving"
)

// ownership is what a member was last assigned and in which generation: the user data of its subscription, by which the
// leader leaves partitions where they are.
type ownership struct {
	generation int32
	partitions []record.Partition

	cooperative, holding, leaving bool
}

// marks are the marks of an ownership.
func (o *ownership) marks() map[string]*bool {
	return map[string]*bool{cooperativeMark: &o.cooperative, holdingMark: &o.holding, leavingMark: &o.leaving}
}

// encodeOwnership encodes o: version, generation (32 bits), then, sorted, each topic's name and partitions, and marks. The same
// ownership always gives the same bytes: a changed byte on rejoining would make the coordinator rebalance a stable group.
func encodeOwnership(o ownership) []byte {
	b := []byte{userDataVersion}
	b = binary.BigEndian.AppendUint32(b, uint32(o.generation))
	byTopic := map[string][]int32{}
	for _, p := range o.partitions {
		byTopic[p.Topic] = append(byTopic[p.Topic], p.Number)
	}
	for mark, set := range o.marks() {
		if *set {
			byTopic[mark] = nil
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		partitions := byTopic[topic]
		slices.Sort(partitions)
		b = wire.AppendCompactString(b, topic)
		b = wire.AppendCompactLen(b, len(partitions))
		for _, p := range partitions {
			b = binary.AppendUvarint(b, uint64(p))
		}
	}
	return b
}

// decodeOwnership decodes what encodeOwnership made. The bytes come from other members: nothing in them is trusted.
func decodeOwnership(b []byte) (ownership, error) {
	r := wire.NewReader(b)
	checkUserDataVersion(r)
	o := ownership{generation: r.Int32()}
	for r.Err() == nil && r.More() {
		topic := r.CompactString()
		if mark := o.marks()[topic]; mark != nil {
			*mark = true
		}
		for range r.Times(r.CompactLen()) {
			o.partitions = append(o.partitions, record.Partition{Topic: topic, Number: readCount(r)})
		}
	}
	return o, r.Wrong("a member's claim")
}

// topicShape is what an assignment was made from: the topic's identity and its number of partitions. A member that sees
// another shape asks for a rebalance.
type topicShape struct {
	id         [16]byte
	partitions int32
}

// encodeShapes encodes the shapes as the user data of an assignment: version, then, sorted, each topic's name, id (16
// bytes) and number of partitions.
func encodeShapes(shapes map[string]topicShape, cooperative bool) []byte {
	b := []byte{userDataVersion}
	if cooperative {
		shapes = maps.Clone(shapes)
		shapes[cooperativeMark] = topicShape{}
	}
	for _, topic := range slices.Sorted(maps.Keys(shapes)) {
		shape := shapes[topic]
		b = wire.AppendCompactString(b, topic)
		b = append(b, shape.id[:]...)
		b = binary.AppendUvarint(b, uint64(shape.partitions))
	}
	return b
}

// decodeShapes decodes what encodeShapes made, in the hands of another member.
func decodeShapes(b []byte) (shapes map[string]topicShape, cooperative bool, err error) {
	r := wire.NewReader(b)
	checkUserDataVersion(r)
	shapes = map[string]topicShape{}
	for r.Err() == nil && r.More() {
		topic := r.CompactString()
		shapes[topic] = topicShape{id: r.UUID(), partitions: readCount(r)}
	}
	_, cooperative = shapes[cooperativeMark]
	delete(shapes, cooperativeMark)
	return shapes, cooperative, r.Wrong("an assignment's topics")
}

func checkUserDataVersion(r *wire.Reader) {
	if v := r.Take(1); v != nil && v[0] != userDataVersion {
		r.Fail(fmt.Errorf("%w: version %d, %d is known", wire.ErrMalformed, v[0], userDataVersion))
	}
}

// readCount reads a number of partitions, or the number of one.
func readCount(r *wire.Reader) int32 {
	v := r.Uvarint()
	if v > math.MaxInt32 {
		r.Fail(fmt.Errorf("%w: partition number %d", wire.ErrMalformed, v))
		return 0
	}
	return int32(v)
}
