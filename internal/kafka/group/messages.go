package group

import (
	"context"
	"encoding/binary"

	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/wire"
)

// Heartbeat implements coordinator with Heartbeat v3. kafka-go's own request goes to any broker and hides the answer's code.
func (k *kafkaCoordinator) Heartbeat(ctx context.Context, m membership) error {
	return k.ask(ctx, protocol.Heartbeat, m.generation, m.member, (*wire.Reader).Int16)
}

// Leave implements coordinator with LeaveGroup v3. kafka-go's own request hides the answer's code.
func (k *kafkaCoordinator) Leave(ctx context.Context, memberID string) error {
	const members = 1
	return k.ask(ctx, protocol.LeaveGroup, members, memberID, func(r *wire.Reader) int16 {
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

// ask sends a request that consists of the group's id, a number and the member. code reads the error code, which follows the
// throttle time.
func (k *kafkaCoordinator) ask(ctx context.Context, api protocol.ApiKey, number int32, memberID string, code func(*wire.Reader) int16) error {
	body := wire.AppendShortString(nil, k.options.GroupID)
	body = binary.BigEndian.AppendUint32(body, uint32(number))
	body = wire.AppendShortString(body, memberID)
	if k.options.InstanceID == "" {
		body = append(body, 0xff, 0xff) // null
	} else {
		body = wire.AppendShortString(body, k.options.InstanceID)
	}
	answer, err := kafka.Ask[*wire.Answer[int16]](ctx, k, none, &wire.GroupRequest[int16]{
		Name: k.options.GroupID,
		Request: wire.Request[int16]{API: api, Body: body, Read: func(r *wire.Reader) int16 {
			r.Int32() // throttle time
			return code(r)
		}},
	})
	if err != nil {
		return err
	}
	return kafka.CodeError(api, none, answer.Value)
}
