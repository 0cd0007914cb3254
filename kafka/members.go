package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describegroups"
)

// Member is a member of a consumer group as its coordinator describes it.
type Member struct {
	ID       string
	ClientID string
	Host     string
	// Ours reports whether it is a consumer of this program, as far as the coordinator's description tells.
	Ours bool
}

// String names the member for a person.
func (m Member) String() string {
	return fmt.Sprintf("client id %q at %s (member %s)", m.ClientID, strings.TrimPrefix(m.Host, "/"), m.ID)
}

// Members describes the members of a group, of whatever protocol; none for a group that does not exist.
func (c *Client) Members(ctx context.Context, group string) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return members(ctx, c.transport, c.address, c.options.ClientID, group)
}

func members(ctx context.Context, transport kafkago.RoundTripper, address net.Addr, clientID, group string) ([]Member, error) {
	g, err := describeGroup(ctx, transport, address, group)
	if errors.Is(err, kafkago.GroupIdNotFound) || err == nil && g.GroupState == "Dead" {
		return membersOfConsumerGroup(ctx, transport, address, clientID, group)
	}
	var list []Member
	for _, m := range g.Members {
		list = append(list, Member{
			ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Ours: isOurs(m.MemberMetadata, m.ClientID, clientID),
		})
	}
	return list, err
}

func describeGroup(ctx context.Context, transport kafkago.RoundTripper, address net.Addr, group string) (describegroups.ResponseGroup, error) {
	request := &describegroups.Request{Groups: []string{group}, IncludeAuthorizedOperations: true}
	response, err := transport.RoundTrip(ctx, address, request)
	answer, err := as[*describegroups.Response](protocol.DescribeGroups, response, err)
	if err != nil {
		return describegroups.ResponseGroup{}, err
	}
	if len(answer.Groups) != 1 {
		return describegroups.ResponseGroup{}, unanswered(protocol.DescribeGroups, "", -1, fmt.Errorf("%w: %d groups", errMalformed, len(answer.Groups)))
	}
	return answer.Groups[0], answered(protocol.DescribeGroups, "", -1, answer.Groups[0].ErrorCode)
}

// isOurs judges a member of a classic group by its subscription; while the group joins it has none, and the client id must
// do.
func isOurs(subscription []byte, clientID, ours string) bool {
	if len(subscription) == 0 {
		return clientID == ours
	}
	_, _, err := decodeClaim(subscription)
	return err == nil
}

// membersOfConsumerGroup describes a group whose assignments the broker makes (KIP-848): to DescribeGroups it does not
// exist. This program speaks the classic protocol, so a member of it that is in such a group is known by its client id.
func membersOfConsumerGroup(ctx context.Context, transport kafkago.RoundTripper, address net.Addr, clientID, group string) ([]Member, error) {
	response, err := transport.RoundTrip(ctx, address, &consumerGroupRequest{clientID: clientID, group: group})
	answer, err := as[*consumerGroupAnswer](consumerGroupDescribe, response, err)
	if err != nil || answer.code == int16(kafkago.GroupIdNotFound) {
		return nil, err
	}
	for i := range answer.members {
		answer.members[i].Ours = answer.members[i].ClientID == clientID
	}
	return answer.members, answered(consumerGroupDescribe, "", -1, answer.code)
}
