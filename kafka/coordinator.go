package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
)

// coordinator is a group's coordinator as one member of the group meets it. Each call is one request, ends with its
// context, and is never repeated inside; calls may overlap. Errors are *Error: a kafkago.Error inside is the coordinator's
// answer, anything else means that there was none.
type coordinator interface {
	// Join asks to be in the next generation and returns when it begins. A joined with a MemberID comes with [79] too.
	Join(ctx context.Context, memberID string, subscription []byte) (joined, error)
	// Sync hands in the leader's assignments (nil from others) and returns the assignment of this member.
	Sync(ctx context.Context, m membership, assignments map[string][]byte) ([]byte, error)
	// Heartbeat keeps the session.
	Heartbeat(ctx context.Context, m membership) error
	// Leave ends the membership.
	Leave(ctx context.Context, memberID string) error
	// Commit commits offsets. It returns one result for each, in their order, or an error when none was answered.
	Commit(ctx context.Context, m membership, commits []Commit) ([]error, error)
	// Members describes the members of the group.
	Members(ctx context.Context) ([]Member, error)
	// Committed looks the committed offsets of partitions up; its answers' Err says which could not be.
	Committed(ctx context.Context, partitions []topicPartition) ([]Assigned, error)
}

// membership is under which name and in which generation a member speaks.
type membership struct {
	generation int32
	member     string
}

// joined is the coordinator's answer to Join.
type joined struct {
	membership
	leader  bool
	members []groupMember // all of the generation, for the leader only
}

// groupMember is another member as its leader sees it.
type groupMember struct {
	id           string
	subscription []byte
}

// kafkaCoordinator is a coordinator at the other end of a transport, which finds out who it is before each request.
type kafkaCoordinator struct {
	transport kafkago.RoundTripper
	address   net.Addr
	options   Options
}

var _ coordinator = (*kafkaCoordinator)(nil)

// Join implements coordinator with JoinGroup, by kafka-go's message: v7 with today's brokers.
func (k *kafkaCoordinator) Join(ctx context.Context, memberID string, subscription []byte) (joined, error) {
	response, err := k.transport.RoundTrip(ctx, k.address, &joingroup.Request{
		GroupID:            k.options.GroupID,
		SessionTimeoutMS:   milliseconds(k.options.SessionTimeout),
		RebalanceTimeoutMS: milliseconds(k.options.RebalanceTimeout),
		MemberID:           memberID,
		GroupInstanceID:    k.options.InstanceID,
		ProtocolType:       protocolType,
		Protocols:          []joingroup.RequestProtocol{{Name: stickyProtocol, Metadata: subscription}},
	})
	answer, err := as[*joingroup.Response](protocol.JoinGroup, response, err)
	if err != nil {
		return joined{}, err
	}
	j := joined{
		membership: membership{generation: answer.GenerationID, member: answer.MemberID},
		leader:     answer.LeaderID == answer.MemberID,
	}
	for _, m := range answer.Members {
		j.members = append(j.members, groupMember{id: m.MemberID, subscription: m.Metadata})
	}
	return j, answered(protocol.JoinGroup, "", -1, answer.ErrorCode)
}

// Sync implements coordinator with SyncGroup, by kafka-go's message: v5 with today's brokers.
func (k *kafkaCoordinator) Sync(ctx context.Context, m membership, assignments map[string][]byte) ([]byte, error) {
	request := &syncgroup.Request{
		GroupID:         k.options.GroupID,
		GenerationID:    m.generation,
		MemberID:        m.member,
		GroupInstanceID: k.options.InstanceID,
		ProtocolType:    protocolType,
		ProtocolName:    stickyProtocol,
	}
	for member, assignment := range assignments {
		request.Assignments = append(request.Assignments, syncgroup.RequestAssignment{MemberID: member, Assignment: assignment})
	}
	response, err := k.transport.RoundTrip(ctx, k.address, request)
	answer, err := as[*syncgroup.Response](protocol.SyncGroup, response, err)
	if err != nil {
		return nil, err
	}
	return answer.Assignments, answered(protocol.SyncGroup, "", -1, answer.ErrorCode)
}

// Heartbeat implements coordinator.
func (k *kafkaCoordinator) Heartbeat(ctx context.Context, m membership) error {
	return k.ask(ctx, protocol.Heartbeat, &heartbeatRequest{k.memberRequest(m)})
}

// Leave implements coordinator.
func (k *kafkaCoordinator) Leave(ctx context.Context, memberID string) error {
	return k.ask(ctx, protocol.LeaveGroup, &leaveGroupRequest{k.memberRequest(membership{member: memberID})})
}

// Commit implements coordinator. Not by kafka-go's client: it commits leader epoch 0, by which Kafka's own consumers, if
// they ever take the group over, would see the log truncated.
func (k *kafkaCoordinator) Commit(ctx context.Context, m membership, commits []Commit) ([]error, error) {
	request := &offsetcommit.Request{
		GroupID:         k.options.GroupID,
		GenerationID:    m.generation,
		MemberID:        m.member,
		GroupInstanceID: k.options.InstanceID,
	}
	topics := map[string]int{}
	for _, c := range commits {
		i, ok := topics[c.Topic]
		if !ok {
			i = len(request.Topics)
			topics[c.Topic] = i
			request.Topics = append(request.Topics, offsetcommit.RequestTopic{Name: c.Topic})
		}
		request.Topics[i].Partitions = append(request.Topics[i].Partitions, offsetcommit.RequestPartition{
			PartitionIndex: c.Partition, CommittedOffset: c.Offset, CommittedLeaderEpoch: -1, CommittedMetadata: c.Metadata,
		})
	}
	response, err := k.transport.RoundTrip(ctx, k.address, request)
	answer, err := as[*offsetcommit.Response](protocol.OffsetCommit, response, err)
	if err != nil {
		return nil, err
	}
	return commitResults(commits, answer), nil
}

// errNotAnswered is an answer in which a partition that was asked about is missing.
var errNotAnswered = errors.New("not in the answer")

// commitResults brings the answer into the order of the commits.
func commitResults(commits []Commit, answer *offsetcommit.Response) []error {
	codes := map[topicPartition]int16{}
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			codes[topicPartition{topic.Name, p.PartitionIndex}] = p.ErrorCode
		}
	}
	results := make([]error, len(commits))
	for i, c := range commits {
		if code, ok := codes[topicPartition{c.Topic, c.Partition}]; ok {
			results[i] = answered(protocol.OffsetCommit, c.Topic, c.Partition, code)
		} else {
			results[i] = unanswered(protocol.OffsetCommit, c.Topic, c.Partition, errNotAnswered)
		}
	}
	return results
}

// Members implements coordinator.
func (k *kafkaCoordinator) Members(ctx context.Context) ([]Member, error) {
	return members(ctx, k.transport, k.address, k.options.ClientID, k.options.GroupID)
}

// Committed implements coordinator.
func (k *kafkaCoordinator) Committed(ctx context.Context, partitions []topicPartition) ([]Assigned, error) {
	request := &offsetFetchRequest{clientID: k.options.ClientID, group: k.options.GroupID, partitions: map[string][]int32{}}
	for _, p := range partitions {
		request.partitions[p.topic] = append(request.partitions[p.topic], p.partition)
	}
	response, err := k.transport.RoundTrip(ctx, k.address, request)
	answer, err := as[*offsetFetchAnswer](protocol.OffsetFetch, response, err)
	if err != nil {
		return nil, err
	}
	return answer.partitions, answered(protocol.OffsetFetch, "", -1, answer.code)
}

func (k *kafkaCoordinator) memberRequest(m membership) memberRequest {
	return memberRequest{
		clientID: k.options.ClientID, group: k.options.GroupID,
		generation: m.generation, member: m.member, instance: k.options.InstanceID,
	}
}

// ask sends a request of whose answer only the code matters.
func (k *kafkaCoordinator) ask(ctx context.Context, api protocol.ApiKey, request kafkago.Request) error {
	response, err := k.transport.RoundTrip(ctx, k.address, request)
	answer, err := as[*codeAnswer](api, response, err)
	if err != nil {
		return err
	}
	return answered(api, "", -1, answer.code)
}

// as is the answer of a round trip in its type.
func as[Answer kafkago.Response](api protocol.ApiKey, response kafkago.Response, err error) (Answer, error) {
	answer, ok := response.(Answer)
	switch {
	case err != nil:
		return answer, unanswered(api, "", -1, err)
	case !ok:
		return answer, unanswered(api, "", -1, fmt.Errorf("%w: a %T", errMalformed, response))
	default:
		return answer, nil
	}
}

func milliseconds(d time.Duration) int32 { return int32(d.Milliseconds()) }
