package kafka

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net"
	"strconv"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/kafka/wire"
)

func (b *fakeBroker) versions() []byte {
	newest := map[protocol.ApiKey]int16{
		protocol.Fetch: b.newestFetch, protocol.Metadata: 13, protocol.ListOffsets: 9, protocol.ApiVersions: 4,
		protocol.SaslHandshake: 1, protocol.SaslAuthenticate: 2,
	}
	if b.controller { // some of the answers of Kafka 4.3 there
		const vote, registration, heartbeat = 52, 62, 63
		newest = map[protocol.ApiKey]int16{
			protocol.Fetch: 18, protocol.SaslHandshake: 1, protocol.ApiVersions: 4, protocol.CreateTopics: 7, protocol.SaslAuthenticate: 2,
			vote: 2, registration: 4, heartbeat: 2,
		}
	}
	body := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(len(newest)))
	for api, version := range newest {
		body = binary.BigEndian.AppendUint16(body, uint16(api))
		body = binary.BigEndian.AppendUint16(body, 0)
		body = binary.BigEndian.AppendUint16(body, uint16(version))
	}
	return body
}

// known answers requests of kafka-go's own messages.
func (b *fakeBroker) known(api protocol.ApiKey, frame []byte) (answer protocol.Message, authenticated bool) {
	_, _, _, request, err := protocol.ReadRequest(bytes.NewReader(frame))
	if err != nil {
		return nil, false
	}
	switch r := request.(type) {
	case *metadata.Request:
		return b.layout(), false
	case *listoffsets.Request:
		partition := b.listOffsets(r.Topics[0].Partitions[0].Timestamp)
		return &listoffsets.Response{Topics: []listoffsets.ResponseTopic{{
			Topic: r.Topics[0].Topic, Partitions: []listoffsets.ResponsePartition{partition},
		}}}, false
	case *saslhandshake.Request:
		if b.password == "" {
			return &saslhandshake.Response{ErrorCode: 34}, false
		}
		if r.Mechanism != "PLAIN" {
			return &saslhandshake.Response{ErrorCode: 33, Mechanisms: []string{"PLAIN"}}, false
		}
		return &saslhandshake.Response{Mechanisms: []string{"PLAIN"}}, false
	case *saslauthenticate.Request:
		if string(r.AuthBytes) != "\x00user\x00"+b.password {
			return &saslauthenticate.Response{ErrorCode: 58, ErrorMessage: "Authentication failed: Invalid username or password"}, false
		}
		return &saslauthenticate.Response{}, true
	default:
		return nil, false
	}
}

func (b *fakeBroker) layout() *metadata.Response {
	host, port, _ := net.SplitHostPort(b.address())
	number, _ := strconv.Atoi(port)
	response := &metadata.Response{
		ClusterID: "fake", ControllerID: 1,
		Brokers: []metadata.ResponseBroker{{NodeID: 1, Host: host, Port: int32(number)}},
	}
	for _, topic := range b.topics {
		response.Topics = append(response.Topics, metadata.ResponseTopic{
			Name: topic, Partitions: []metadata.ResponsePartition{{LeaderID: cmp.Or(b.leader, 1)}},
		})
	}
	return response
}

// fakeID is the id of the fake's topics.
var fakeID = [16]byte{1, 2, 3}

// metadataBody returns a Metadata v12 answer with the header's tags.
func (b *fakeBroker) metadataBody() []byte {
	body := []byte{0}
	body = binary.BigEndian.AppendUint32(body, 0) // throttle
	body = wire.AppendCompactLen(body, 1)
	body = binary.BigEndian.AppendUint32(body, 1)
	body = wire.AppendCompactString(body, "127.0.0.1")
	body = binary.BigEndian.AppendUint32(body, 9092)
	body = append(body, 0, 0) // no rack, tags
	body = wire.AppendCompactString(body, "fake")
	body = binary.BigEndian.AppendUint32(body, 1)
	body = wire.AppendCompactLen(body, len(b.topics))
	for _, topic := range b.topics {
		body = append(body, 0, 0)
		body = wire.AppendCompactString(body, topic)
		body = append(body, fakeID[:]...)
		body = append(body, 0)
		body = wire.AppendCompactLen(body, 1)
		body = append(body, 0, 0)
		body = binary.BigEndian.AppendUint32(body, 0)
		body = binary.BigEndian.AppendUint32(body, 1)
		body = binary.BigEndian.AppendUint32(body, 4)
		for range 3 {
			body = binary.BigEndian.AppendUint32(wire.AppendCompactLen(body, 1), 1)
		}
		body = append(body, 0)
		body = binary.BigEndian.AppendUint32(body, 0)
		body = append(body, 0)
	}
	return append(body, 0)
}

// fetchSpec is a fetch answer to encode.
type fetchSpec struct {
	top, code                           int16
	id                                  [16]byte
	partition                           int32
	highWatermark, lastStable, logStart int64
	aborted                             []recordbatch.Aborted
	set                                 []byte
}

// encode returns the body of a Fetch v13 answer with the header's tags.
func (s fetchSpec) encode() []byte {
	b := []byte{0}
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(s.top))
	b = binary.BigEndian.AppendUint32(b, 0)
	if s.top != 0 {
		return append(wire.AppendCompactLen(b, 0), 0)
	}
	b = append(wire.AppendCompactLen(b, 1), s.id[:]...)
	b = binary.BigEndian.AppendUint32(wire.AppendCompactLen(b, 1), uint32(s.partition))
	b = binary.BigEndian.AppendUint16(b, uint16(s.code))
	for _, offset := range []int64{s.highWatermark, s.lastStable, s.logStart} {
		b = binary.BigEndian.AppendUint64(b, uint64(offset))
	}
	if s.aborted == nil {
		b = append(b, 0)
	} else {
		b = wire.AppendCompactLen(b, len(s.aborted))
	}
	for _, a := range s.aborted {
		b = binary.BigEndian.AppendUint64(b, uint64(a.Producer))
		b = binary.BigEndian.AppendUint64(b, uint64(a.First))
		b = append(b, 0)
	}
	b = binary.BigEndian.AppendUint32(b, 0xffffffff)
	b = append(wire.AppendCompactLen(b, len(s.set)), s.set...)
	// This is a tagged field of the partition with number 0 and three bytes, as brokers send it when epochs diverge.
	return append(b, 1, 0, 3, 9, 9, 9, 0, 0)
}
