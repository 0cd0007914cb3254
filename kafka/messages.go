package kafka

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go/protocol"
)

const (
	heartbeatVersion   = 3
	leaveGroupVersion  = 3
	offsetFetchVersion = 7 // the first that can wait for pending transactional commits
)

// memberRequest is who asks: what Heartbeat and LeaveGroup have in common. It is routed to the group's coordinator.
type memberRequest struct {
	clientID   string
	group      string
	generation int32
	member     string
	instance   string // empty: not static
}

// Group implements protocol.GroupMessage.
func (m *memberRequest) Group() string { return m.group }

// Required implements protocol.RawExchanger.
func (*memberRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// heartbeatRequest is Heartbeat v3. kafka-go's own goes to any broker, and hides the answer's code.
type heartbeatRequest struct{ memberRequest }

// leaveGroupRequest is LeaveGroup v3. kafka-go's own hides the answer's code.
type leaveGroupRequest struct{ memberRequest }

var (
	_ protocol.RawExchanger = (*heartbeatRequest)(nil)
	_ protocol.GroupMessage = (*heartbeatRequest)(nil)
	_ protocol.RawExchanger = (*leaveGroupRequest)(nil)
	_ protocol.GroupMessage = (*leaveGroupRequest)(nil)
	_ protocol.RawExchanger = (*offsetFetchRequest)(nil)
	_ protocol.GroupMessage = (*offsetFetchRequest)(nil)
)

// codeAnswer is an answer of which only the code matters.
type codeAnswer struct {
	api  protocol.ApiKey
	code int16
}

// ApiKey implements protocol.Message.
func (a *codeAnswer) ApiKey() protocol.ApiKey { return a.api }

// ApiKey implements protocol.Message.
func (*heartbeatRequest) ApiKey() protocol.ApiKey { return protocol.Heartbeat }

// RawExchange implements protocol.RawExchanger.
func (m *heartbeatRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	body := appendShortString(nil, m.group)
	body = binary.BigEndian.AppendUint32(body, uint32(m.generation))
	body = appendShortString(body, m.member)
	body = appendNullableString(body, m.instance)
	answer, err := exchange(rw, call{api: protocol.Heartbeat, version: heartbeatVersion, clientID: m.clientID, body: body})
	if err != nil {
		return nil, err
	}
	r := reader{rest: answer}
	r.int32() // throttle time
	code := r.int16()
	if r.err != nil {
		return nil, fmt.Errorf("reading a heartbeat's answer: %w", r.err)
	}
	return &codeAnswer{api: protocol.Heartbeat, code: code}, nil
}

// ApiKey implements protocol.Message.
func (*leaveGroupRequest) ApiKey() protocol.ApiKey { return protocol.LeaveGroup }

// RawExchange implements protocol.RawExchanger.
func (m *leaveGroupRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	body := appendShortString(nil, m.group)
	body = binary.BigEndian.AppendUint32(body, 1) // members
	body = appendShortString(body, m.member)
	body = appendNullableString(body, m.instance)
	answer, err := exchange(rw, call{api: protocol.LeaveGroup, version: leaveGroupVersion, clientID: m.clientID, body: body})
	if err != nil {
		return nil, err
	}
	r := reader{rest: answer}
	r.int32() // throttle time
	code := r.int16()
	for n := r.int32(); n > 0 && r.err == nil; n-- {
		readShortString(&r) // member
		readShortString(&r) // instance
		if memberCode := r.int16(); code == 0 {
			code = memberCode
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("reading LeaveGroup's answer: %w", r.err)
	}
	return &codeAnswer{api: protocol.LeaveGroup, code: code}, nil
}

// offsetFetchRequest is OffsetFetch v7 with "require stable": an offset that a transaction is about to commit is waited
// for ([88]) rather than passed over. kafka-go's own stops before it.
type offsetFetchRequest struct {
	clientID   string
	group      string
	partitions map[string][]int32
}

// Group implements protocol.GroupMessage.
func (m *offsetFetchRequest) Group() string { return m.group }

// Required implements protocol.RawExchanger.
func (*offsetFetchRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// ApiKey implements protocol.Message.
func (*offsetFetchRequest) ApiKey() protocol.ApiKey { return protocol.OffsetFetch }

// RawExchange implements protocol.RawExchanger.
func (m *offsetFetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	body := appendCompactString(nil, m.group)
	body = appendCompactLen(body, len(m.partitions))
	for _, topic := range slices.Sorted(maps.Keys(m.partitions)) {
		body = appendCompactString(body, topic)
		body = appendCompactLen(body, len(m.partitions[topic]))
		for _, partition := range m.partitions[topic] {
			body = binary.BigEndian.AppendUint32(body, uint32(partition))
		}
		body = append(body, 0) // tags
	}
	const requireStable, tags = 1, 0
	body = append(body, requireStable, tags)
	c := call{api: protocol.OffsetFetch, version: offsetFetchVersion, flexible: true, clientID: m.clientID, body: body}
	answer, err := exchange(rw, c)
	if err != nil {
		return nil, err
	}
	return parseOffsetFetch(answer)
}

// offsetFetchAnswer is the committed offsets; code is the group's, those of partitions are in their Err.
type offsetFetchAnswer struct {
	code       int16
	partitions []Assigned
}

// ApiKey implements protocol.Message.
func (*offsetFetchAnswer) ApiKey() protocol.ApiKey { return protocol.OffsetFetch }

func parseOffsetFetch(answer []byte) (*offsetFetchAnswer, error) {
	r := reader{rest: answer}
	r.tags()  // of the header
	r.int32() // throttle time
	a := &offsetFetchAnswer{}
	for n := r.compactLen(); n > 0 && r.err == nil; n-- {
		topic := r.compactString()
		for n := r.compactLen(); n > 0 && r.err == nil; n-- {
			p := Assigned{Topic: topic, Partition: r.int32(), Committed: r.int64(), Epoch: r.int32()}
			p.Metadata = r.compactString()
			p.Err = answered(protocol.OffsetFetch, topic, p.Partition, r.int16())
			r.tags()
			a.partitions = append(a.partitions, p)
		}
		r.tags()
	}
	a.code = r.int16()
	r.tags()
	if r.err != nil {
		return nil, fmt.Errorf("reading committed offsets: %w", r.err)
	}
	return a, nil
}

// appendNullableString appends a string with a 16-bit length, null when it is empty.
func appendNullableString(b []byte, s string) []byte {
	if s == "" {
		return append(b, 0xff, 0xff)
	}
	return appendShortString(b, s)
}

// appendShortString appends a string with a 16-bit length.
func appendShortString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}
