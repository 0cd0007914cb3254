package kafka

import (
	"context"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// membersOfConsumerGroup describes a group whose broker makes the assignments (KIP-848). DescribeGroups does not find such
// groups.
func (c *Client) membersOfConsumerGroup(ctx context.Context, group string) ([]Member, error) {
	answer, err := own[consumerGroupAnswer](ctx, c, record.Partition{}, 0, newConsumerGroupRequest(group))
	if err != nil || answer.code == int16(kafkago.GroupIdNotFound) {
		return nil, err
	}
	return answer.members, CodeError(wire.ConsumerGroupDescribe, record.Partition{}, answer.code)
}

// newConsumerGroupRequest makes a ConsumerGroupDescribe v0 request. A broker that does not know the request has no such groups.
func newConsumerGroupRequest(group string) *wire.GroupRequest[consumerGroupAnswer] {
	body := wire.AppendCompactString(wire.AppendCompactLen(nil, 1), group)
	const authorizedOperations, tags = 0, 0
	return &wire.GroupRequest[consumerGroupAnswer]{Name: group, Request: wire.Request[consumerGroupAnswer]{
		API: wire.ConsumerGroupDescribe, Body: append(body, authorizedOperations, tags), Read: readConsumerGroup,
		Unknown: &consumerGroupAnswer{code: int16(kafkago.GroupIdNotFound)},
	}}
}

// consumerGroupAnswer is the description of one group.
type consumerGroupAnswer struct {
	code    int16
	members []Member
}

func readConsumerGroup(r *wire.Reader) (a consumerGroupAnswer) {
	r.Int32() // throttle time
	if n := r.CompactLen(); n != 1 {
		r.Fail(fmt.Errorf("%w: %d groups instead of 1", wire.ErrMalformed, n))
	}
	a.code = r.Int16()
	r.CompactBytes() // message
	r.CompactBytes() // group
	r.CompactBytes() // state
	r.Int32()        // epoch
	r.Int32()        // epoch of the assignment
	r.CompactBytes() // assignor
	for range r.Times(r.CompactLen()) {
		a.members = append(a.members, readMember(r))
	}
	return a
}

func readMember(r *wire.Reader) Member {
	m := Member{ID: r.CompactString(), Instance: r.CompactString()}
	r.CompactBytes() // rack
	r.Int32()        // epoch
	m.ClientID, m.Host = r.CompactString(), r.CompactString()
	for range r.Times(r.CompactLen()) {
		r.CompactBytes() // topic
	}
	r.CompactBytes() // topics as a regular expression
	for range 2 {    // the current assignment and the target assignment
		for range r.Times(r.CompactLen()) {
			r.UUID()
			r.CompactBytes() // topic
			for range r.Times(r.CompactLen()) {
				r.Int32() // partition
			}
			r.Tags()
		}
		r.Tags()
	}
	r.Tags()
	return m
}
