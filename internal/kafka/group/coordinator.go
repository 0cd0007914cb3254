package group

import (
	"context"
	"encoding/binary"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/syncgroup"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// coordinator is a group's coordinator as one member sees it. Each call sends one request, ends with its context and never
// retries. Calls may overlap. Errors are *kafka.Error. A kafkago.Error inside is the coordinator's answer. Any other cause means
// that there was no answer.
type coordinator interface {
	// Join asks for membership in the next generation and returns when that begins. The error MEMBER_ID_REQUIRED comes with a
	// joined that holds the MemberID.
	Join(ctx context.Context, memberID string, subscription []byte) (joined, error)
	// Sync hands in the leader's assignments and returns the assignment of this member. Other members pass nil.
	Sync(ctx context.Context, m membership, assignments map[string][]byte) ([]byte, error)
	// Heartbeat keeps the session.
	Heartbeat(ctx context.Context, m membership) error
	// Leave ends the membership.
	Leave(ctx context.Context, memberID string) error
	// Commit commits offsets. It returns one result for each, in their order, or an error when there was no answer.
	Commit(ctx context.Context, m membership, commits []record.Commit) ([]error, error)
}

// membership identifies a member in one generation.
type membership struct {
	generation int32
	member     string
}

// joined is the coordinator's answer to Join.
type joined struct {
	membership
	leader  bool
	members []groupMember // all members of the generation, only for the leader
}

// groupMember is a member as the leader sees it.
type groupMember struct {
	id           string
	subscription []byte
}

// kafkaCoordinator is the coordinator of a Kafka cluster. The transport finds its broker before each request.
type kafkaCoordinator struct {
	kafka.Asker
	options *Options
}

var _ coordinator = (*kafkaCoordinator)(nil)

// none is the partition in errors of requests about a group.
var none record.Partition

// Join implements coordinator with kafka-go's JoinGroup, which is v7 with present brokers.
func (k *kafkaCoordinator) Join(ctx context.Context, memberID string, subscription []byte) (joined, error) {
	answer, err := kafka.Ask[*joingroup.Response](ctx, k, none, &joingroup.Request{
		GroupID:            k.options.GroupID,
		SessionTimeoutMS:   milliseconds(k.options.SessionTimeout),
		RebalanceTimeoutMS: milliseconds(k.options.RebalanceTimeout),
		MemberID:           memberID,
		GroupInstanceID:    k.options.InstanceID,
		ProtocolType:       protocolType,
		Protocols:          []joingroup.RequestProtocol{{Name: stickyProtocol, Metadata: subscription}},
	})
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
	return j, kafka.CodeError(protocol.JoinGroup, none, answer.ErrorCode)
}

// Sync implements coordinator with kafka-go's SyncGroup, which is v5 with present brokers.
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
	answer, err := kafka.Ask[*syncgroup.Response](ctx, k, none, request)
	if err != nil {
		return nil, err
	}
	return answer.Assignments, kafka.CodeError(protocol.SyncGroup, none, answer.ErrorCode)
}

// Commit implements coordinator. It does not use kafka-go's client, which commits leader epoch 0. If Kafka's own consumers ever
// took over the group, epoch 0 would tell them that the log was truncated.
func (k *kafkaCoordinator) Commit(ctx context.Context, m membership, commits []record.Commit) ([]error, error) {
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
			PartitionIndex: c.Number, CommittedOffset: c.Offset, CommittedLeaderEpoch: -1, CommittedMetadata: c.Metadata,
		})
	}
	answer, err := kafka.Ask[*offsetcommit.Response](ctx, k, none, request)
	if err != nil {
		return nil, err
	}
	return commitResults(commits, answer), nil
}

// commitResults puts the results into the order of the commits.
func commitResults(commits []record.Commit, answer *offsetcommit.Response) []error {
	codes := map[record.Partition]int16{}
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			codes[record.Partition{Topic: topic.Name, Number: p.PartitionIndex}] = p.ErrorCode
		}
	}
	results := make([]error, len(commits))
	for i, c := range commits {
		if code, ok := codes[c.Partition]; ok {
			results[i] = kafka.CodeError(protocol.OffsetCommit, c.Partition, code)
		} else {
			results[i] = kafka.NoAnswer(protocol.OffsetCommit, c.Partition, kafka.ErrNotAnswered)
		}
	}
	return results
}

func milliseconds(d time.Duration) int32 { return int32(d.Milliseconds()) }

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

// repeatInterval is the least time between two log lines about the same failure.
const repeatInterval = 10 * time.Second

// outage logs a repeated failure: its beginning, then at most one line in repeatInterval with a count, and its end. It belongs to
// one goroutine.
type outage struct {
	log     *slog.Logger
	now     func() time.Duration
	serious time.Duration // after how long the lines become errors. Zero means never.
	since   time.Duration
	logged  time.Duration
	count   int
}

func (o *outage) failure(what string, err error) {
	now := o.now()
	if o.count++; o.count == 1 {
		o.since = now
	} else if now-o.logged < repeatInterval {
		return
	}
	write, lasts := o.log.Warn, now-o.since
	if o.serious > 0 && lasts >= o.serious {
		write = o.log.Error
	}
	o.logged = now
	write(what, "for", lasts.Round(time.Millisecond), "err", err, "times", o.count)
}

func (o *outage) over(what string) {
	if o.count > 0 {
		o.log.Info(what, "after", (o.now() - o.since).Round(time.Millisecond), "times", o.count)
	}
	o.count = 0
}

// persist repeats a question until it succeeds or ctx is done. Its error is ctx's. It counts and logs failures.
func (g *Group) persist(ctx context.Context, request, failure string, question func() error) error {
	for {
		err := question()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			g.metrics.retries.WithLabelValues(request).Inc()
			g.outage.failure(failure, err)
		}
		if !kafka.Pause(ctx) {
			return context.Cause(ctx)
		}
	}
}
