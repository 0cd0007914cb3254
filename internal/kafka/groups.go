package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describegroups"
	"github.com/segmentio/kafka-go/protocol/listgroups"

	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// Groups lists the consumer groups whose names begin with a prefix, sorted. It lists only groups that this user may see.
func (c *Client) Groups(ctx context.Context, prefix string) ([]string, error) {
	answer, err := ask[*listgroups.Response](ctx, c, record.Partition{}, 0, &listGroups{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range answer.Groups {
		if strings.HasPrefix(g.GroupID, prefix) {
			names = append(names, g.GroupID)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// listGroups asks every broker for the groups that it coordinates. An error of one broker fails the whole answer. kafka-go's own
// request would leave the groups of that broker out.
type listGroups struct{ listgroups.Request }

// Split implements protocol.Splitter.
func (r *listGroups) Split(cluster protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	messages, _, err := r.Request.Split(cluster)
	return messages, new(listedGroups), err
}

// listedGroups merges the answers.
type listedGroups struct{ listgroups.Response }

// Merge implements protocol.Merger.
func (m *listedGroups) Merge(requests []protocol.Message, results []any) (protocol.Message, error) {
	for _, result := range results {
		answer, err := protocol.Result(result)
		if err != nil {
			return nil, err
		}
		if code := answer.(*listgroups.Response).ErrorCode; code != 0 {
			return nil, kafkago.Error(code)
		}
	}
	return m.Response.Merge(requests, results)
}

// Member is a member of a consumer group as its coordinator describes it.
type Member struct {
	ID       string
	Instance string // group.instance.id. Empty means a dynamic member.
	ClientID string
	Host     string // IP address behind a slash, as the broker sees it
	// Subscription is the member's metadata from joining. It is empty while the member joins, and in a group whose broker makes
	// the assignments.
	Subscription []byte
	// Assignment is what the leader has assigned to the member. It is empty during a rebalance, and in a group whose broker makes
	// the assignments.
	Assignment []byte
}

// String names the member for a person.
func (m Member) String() string {
	return fmt.Sprintf("client id %q at %s (member %s)", m.ClientID, strings.TrimPrefix(m.Host, "/"), m.ID)
}

// Members describes the members of a group of either protocol. A group that does not exist has none.
func (c *Client) Members(ctx context.Context, group string) ([]Member, error) {
	g, err := c.describeGroup(ctx, group)
	if errors.Is(err, kafkago.GroupIdNotFound) || err == nil && g.GroupState == "Dead" {
		return c.membersOfConsumerGroup(ctx, group)
	}
	var list []Member
	for _, m := range g.Members {
		list = append(list, Member{
			ID: m.MemberID, Instance: m.GroupInstanceID, ClientID: m.ClientID, Host: m.ClientHost,
			Subscription: m.MemberMetadata, Assignment: m.MemberAssignment,
		})
	}
	return list, err
}

// GroupRights returns what this user may do with a group.
func (c *Client) GroupRights(ctx context.Context, group string) (Rights, error) {
	g, err := c.describeGroup(ctx, group)
	if errors.Is(err, kafkago.GroupIdNotFound) {
		err = nil
	}
	return Rights(g.AuthorizedOperations), err
}

func (c *Client) describeGroup(ctx context.Context, group string) (g describegroups.ResponseGroup, err error) {
	request := &describegroups.Request{Groups: []string{group}, IncludeAuthorizedOperations: true}
	answer, err := ask[*describegroups.Response](ctx, c, record.Partition{}, 0, request)
	if err != nil {
		return g, err
	}
	if len(answer.Groups) != 1 {
		return g, NoAnswer(protocol.DescribeGroups, record.Partition{}, fmt.Errorf("%w: %d groups instead of 1", wire.ErrMalformed, len(answer.Groups)))
	}
	return answer.Groups[0], CodeError(protocol.DescribeGroups, record.Partition{}, answer.Groups[0].ErrorCode)
}

// Committed is an offset that a group has committed.
type Committed struct {
	// Place is the partition with the offset. An offset of -1 means that none is committed.
	record.Place
	// Metadata is the text that was committed with it.
	Metadata string
	// Epoch is the leader epoch that was committed with the offset. Consumers commit the epoch of the last record they read.
	// Tools that set offsets, and this program, commit none, which is -1.
	Epoch int32
	// Err is why the commit of this partition could not be read, such as a missing right. The offset has no meaning then.
	Err error
}

// Consumed reports whether a consumer committed the offset after reading up to it. If not, a tool or this program set it.
func (c *Committed) Consumed() bool { return c.Epoch >= 0 }

// Committed returns a group's commits for partitions, in their order. The Err of a Committed says that it could not be read.
func (c *Client) Committed(ctx context.Context, group string, partitions []record.Partition) ([]Committed, error) {
	if len(partitions) == 0 {
		return nil, nil
	}
	request := offsetFetchRequest(group, partitions)
	answer, err := own[offsetFetchAnswer](ctx, c, record.Partition{}, 0, request)
	if err != nil {
		return nil, err
	}
	committed := make([]Committed, len(partitions))
	if answer.code == int16(kafkago.GroupIdNotFound) { // Some brokers say so of a group that has committed nothing.
		for i, p := range partitions {
			committed[i] = Committed{Place: record.Place{Partition: p, Offset: -1}, Epoch: -1}
		}
		return committed, nil
	}
	if err := CodeError(protocol.OffsetFetch, record.Partition{}, answer.code); err != nil {
		return nil, err
	}
	for i, p := range partitions {
		j := slices.IndexFunc(answer.committed, func(c Committed) bool { return c.Partition == p })
		if j < 0 {
			return nil, NoAnswer(protocol.OffsetFetch, p, ErrNotAnswered)
		}
		committed[i] = answer.committed[j]
	}
	return committed, nil
}

// ErrNotAnswered means that the answer leaves out a requested partition.
var ErrNotAnswered = errors.New("the answer does not contain this partition")

// offsetFetchRequest makes an OffsetFetch v7 request with "require stable". While a transaction is about to commit an offset, the
// broker answers UNSTABLE_OFFSET_COMMIT instead of the older offset. kafka-go's own request ends at an earlier version.
func offsetFetchRequest(group string, partitions []record.Partition) *wire.GroupRequest[offsetFetchAnswer] {
	byTopic := map[string][]int32{}
	for _, p := range partitions {
		byTopic[p.Topic] = append(byTopic[p.Topic], p.Number)
	}
	body := wire.AppendCompactString(nil, group)
	body = wire.AppendCompactLen(body, len(byTopic))
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		body = wire.AppendCompactString(body, topic)
		body = wire.AppendCompactLen(body, len(byTopic[topic]))
		for _, number := range byTopic[topic] {
			body = binary.BigEndian.AppendUint32(body, uint32(number))
		}
		body = append(body, 0) // tags
	}
	const requireStable, tags = 1, 0
	return &wire.GroupRequest[offsetFetchAnswer]{Name: group, Request: wire.Request[offsetFetchAnswer]{
		API: protocol.OffsetFetch, Body: append(body, requireStable, tags), Read: readOffsetFetch,
	}}
}

// offsetFetchAnswer holds the committed offsets. code is the group's. Each Committed has its own Err.
type offsetFetchAnswer struct {
	code      int16
	committed []Committed
}

func readOffsetFetch(r *wire.Reader) (a offsetFetchAnswer) {
	r.Int32() // throttle time
	for range r.Times(r.CompactLen()) {
		topic := r.CompactString()
		for range r.Times(r.CompactLen()) {
			of := record.Partition{Topic: topic, Number: r.Int32()}
			c := Committed{Place: record.Place{Partition: of, Offset: r.Int64()}, Epoch: r.Int32(), Metadata: r.CompactString()}
			c.Err = CodeError(protocol.OffsetFetch, of, r.Int16())
			r.Tags()
			a.committed = append(a.committed, c)
		}
		r.Tags()
	}
	a.code = r.Int16()
	r.Tags()
	return a
}

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
