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
	// noGeneration is the generation of a member without any assignment yet.
	noGeneration = -1
	// userDataVersion is the first byte of all that this file encodes. Consumers of this program know each other by it. They
	// refuse another version as another program's.
	userDataVersion = 1
)

// Marks stand among the topics, as names that no topic can have.
const (
	// leavingMark means that this member is about to leave. It gets nothing if others can take its partitions.
	leavingMark = ":leaving"
	// pageMark has the TCP port of the member's status page in place of a partition number.
	pageMark = ":page"
)

// ownership is a member's last assignment with its generation. It is the user data of the member's subscription. The leader uses
// it to leave partitions where they are.
type ownership struct {
	generation int32
	partitions []record.Partition

	leaving bool
	page    uint16 // TCP port of the member's status page. Zero means that others cannot reach it.
}

// encodeOwnership encodes o as version, generation (32 bits), and then, sorted, each topic's name with its partitions, and the
// marks. The same ownership always gives the same bytes, because a changed byte would make the coordinator rebalance a stable
// group.
func encodeOwnership(o ownership) []byte {
	b := []byte{userDataVersion}
	b = binary.BigEndian.AppendUint32(b, uint32(o.generation))
	byTopic := map[string][]int32{}
	for _, p := range o.partitions {
		byTopic[p.Topic] = append(byTopic[p.Topic], p.Number)
	}
	if o.leaving {
		byTopic[leavingMark] = nil
	}
	if o.page != 0 {
		byTopic[pageMark] = []int32{int32(o.page)}
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

// decodeOwnership decodes the bytes of encodeOwnership. They come from other members, so it trusts nothing in them.
func decodeOwnership(b []byte) (ownership, error) {
	r := wire.NewReader(b)
	checkUserDataVersion(r)
	o := ownership{generation: r.Int32()}
	for r.Err() == nil && r.More() {
		topic := r.CompactString()
		o.leaving = o.leaving || topic == leavingMark
		for range r.Times(r.CompactLen()) {
			number := readCount(r)
			switch {
			case topic != pageMark:
				o.partitions = append(o.partitions, record.Partition{Topic: topic, Number: number})
			case number <= math.MaxUint16:
				o.page = uint16(number)
			}
		}
	}
	return o, r.Wrong("a member's claim")
}

// topicShape is a topic's id and number of partitions when the assignment was made. A member that sees another shape asks for a
// rebalance.
type topicShape struct {
	id         [16]byte
	partitions int32
}

// encodeShapes encodes the shapes as the user data of an assignment: version, and then, sorted, each topic's name, id (16 bytes)
// and number of partitions.
func encodeShapes(shapes map[string]topicShape) []byte {
	b := []byte{userDataVersion}
	for _, topic := range slices.Sorted(maps.Keys(shapes)) {
		shape := shapes[topic]
		b = wire.AppendCompactString(b, topic)
		b = append(b, shape.id[:]...)
		b = binary.AppendUvarint(b, uint64(shape.partitions))
	}
	return b
}

// decodeShapes decodes the bytes of encodeShapes, which come from another member.
func decodeShapes(b []byte) (shapes map[string]topicShape, err error) {
	r := wire.NewReader(b)
	checkUserDataVersion(r)
	shapes = map[string]topicShape{}
	for r.Err() == nil && r.More() {
		topic := r.CompactString()
		shapes[topic] = topicShape{id: r.UUID(), partitions: readCount(r)}
	}
	return shapes, r.Wrong("an assignment's topics")
}

func checkUserDataVersion(r *wire.Reader) {
	if v := r.Take(1); v != nil && v[0] != userDataVersion {
		r.Fail(fmt.Errorf("%w: version %d, but only version %d is supported", wire.ErrMalformed, v[0], userDataVersion))
	}
}

// readCount reads a number of partitions or a partition's number.
func readCount(r *wire.Reader) int32 {
	v := r.Uvarint()
	if v > math.MaxInt32 {
		r.Fail(fmt.Errorf("%w: partition number %d", wire.ErrMalformed, v))
		return 0
	}
	return int32(v)
}

// The consumer protocol is the content of JoinGroup and SyncGroup that brokers and Kafka's own tools read too. Version 0 is used,
// because later versions announce owned partitions without their generation, which the user data holds here.
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
