package group

import (
	"encoding/binary"

	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/kafka/wire"
)

// heartbeatRequest is Heartbeat v3. kafka-go's own goes to any broker, and hides the answer's code.
func heartbeatRequest(o *Options, m membership) *wire.GroupRequest[int16] {
	body := wire.AppendShortString(nil, o.GroupID)
	body = binary.BigEndian.AppendUint32(body, uint32(m.generation))
	body = wire.AppendShortString(body, m.member)
	body = appendInstance(body, o.InstanceID)
	return codeRequest(o, protocol.Heartbeat, body, func(r *wire.Reader) int16 {
		r.Int32() // throttle time
		return r.Int16()
	})
}

// leaveRequest is LeaveGroup v3. kafka-go's own hides the answer's code.
func leaveRequest(o *Options, memberID string) *wire.GroupRequest[int16] {
	body := wire.AppendShortString(nil, o.GroupID)
	body = binary.BigEndian.AppendUint32(body, 1) // members
	body = wire.AppendShortString(body, memberID)
	body = appendInstance(body, o.InstanceID)
	return codeRequest(o, protocol.LeaveGroup, body, func(r *wire.Reader) int16 {
		r.Int32() // throttle time
		code := r.Int16()
		for range r.Times(r.LongLen()) {
			r.ShortString() // member
			r.ShortString() // instance
			if memberCode := r.Int16(); code == 0 {
				code = memberCode
			}
		}
		return code
	})
}

// codeRequest is a request to the coordinator of whose answer only the code matters.
func codeRequest(o *Options, api protocol.ApiKey, body []byte, read func(*wire.Reader) int16) *wire.GroupRequest[int16] {
	return &wire.GroupRequest[int16]{Name: o.GroupID, Request: wire.Request[int16]{API: api, Body: body, Read: read}}
}

// appendInstance appends the name of a static member, null when it is empty.
func appendInstance(b []byte, instance string) []byte {
	if instance == "" {
		return append(b, 0xff, 0xff)
	}
	return wire.AppendShortString(b, instance)
}
