package kafka

import (
	"fmt"
	"io"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const (
	// consumerGroupDescribe is an API that kafka-go has no name for.
	consumerGroupDescribe        protocol.ApiKey = 69
	consumerGroupDescribeVersion int16           = 0
)

// consumerGroupRequest is ConsumerGroupDescribe v0. A broker that does not have it knows no such groups.
type consumerGroupRequest struct {
	clientID string
	group    string
	unknown  bool // to the broker
}

var (
	_ protocol.RawExchanger = (*consumerGroupRequest)(nil)
	_ protocol.GroupMessage = (*consumerGroupRequest)(nil)
)

// ApiKey implements protocol.Message.
func (*consumerGroupRequest) ApiKey() protocol.ApiKey { return consumerGroupDescribe }

// Group implements protocol.GroupMessage.
func (m *consumerGroupRequest) Group() string { return m.group }

// Required implements protocol.RawExchanger.
func (m *consumerGroupRequest) Required(versions map[protocol.ApiKey]int16) bool {
	_, known := versions[consumerGroupDescribe]
	m.unknown = !known
	return true
}

// RawExchange implements protocol.RawExchanger.
func (m *consumerGroupRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if m.unknown {
		return &consumerGroupAnswer{code: int16(kafkago.GroupIdNotFound)}, nil
	}
	body := appendCompactString(appendCompactLen(nil, 1), m.group)
	const authorizedOperations, tags = 0, 0
	body = append(body, authorizedOperations, tags)
	c := call{api: consumerGroupDescribe, version: consumerGroupDescribeVersion, flexible: true, clientID: m.clientID, body: body}
	answer, err := exchange(rw, c)
	if err != nil {
		return nil, err
	}
	return parseConsumerGroup(answer)
}

// consumerGroupAnswer is the description of one group.
type consumerGroupAnswer struct {
	code    int16
	members []Member
}

// ApiKey implements protocol.Message.
func (*consumerGroupAnswer) ApiKey() protocol.ApiKey { return consumerGroupDescribe }

// parseConsumerGroup reads an answer about exactly one group.
func parseConsumerGroup(answer []byte) (*consumerGroupAnswer, error) {
	r := reader{rest: answer}
	r.tags()  // of the header
	r.int32() // throttle time
	if n := r.compactLen(); n != 1 && r.err == nil {
		r.fail(fmt.Errorf("%w: %d groups", errMalformed, n))
	}
	a := &consumerGroupAnswer{code: r.int16()}
	r.compactBytes() // message
	r.compactBytes() // group
	r.compactBytes() // state
	r.int32()        // epoch
	r.int32()        // epoch of the assignment
	r.compactBytes() // assignor
	for n := r.compactLen(); n > 0 && r.err == nil; n-- {
		a.members = append(a.members, readMember(&r))
	}
	if r.err != nil {
		return nil, fmt.Errorf("reading a group's description: %w", r.err)
	}
	return a, nil
}

func readMember(r *reader) Member {
	m := Member{ID: r.compactString()}
	r.compactBytes() // instance
	r.compactBytes() // rack
	r.int32()        // epoch
	m.ClientID, m.Host = r.compactString(), r.compactString()
	for n := r.compactLen(); n > 0 && r.err == nil; n-- {
		r.compactBytes() // topic
	}
	r.compactBytes() // topics as a regular expression
	for range 2 {    // the assignment, and the one it is on the way to
		for n := r.compactLen(); n > 0 && r.err == nil; n-- {
			r.uuid()
			r.compactBytes() // topic
			for n := r.compactLen(); n > 0 && r.err == nil; n-- {
				r.int32() // partition
			}
			r.tags()
		}
		r.tags()
	}
	r.tags()
	return m
}
