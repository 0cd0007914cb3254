package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// Described is a member of a group, as its coordinator and its own subscription describe it.
type Described struct {
	kafka.Member
	// Ours means that the member is a consumer of this program.
	Ours bool
	// Partitions are assigned to the member, in order. There are none during a rebalance.
	Partitions []record.Partition
	// Page is the TCP port of the member's status page. Zero means that other machines cannot reach it.
	Page uint16
}

// Describe reads what a member tells about itself. It tolerates members of other programs.
func Describe(m kafka.Member) Described {
	_, claim, _ := decodeClaim(m.Subscription) // empty unless a consumer of this program made it
	d := Described{Member: m, Ours: IsOurs(m), Page: claim.page}
	if partitions, _, err := decodeAssignment(m.Assignment); err == nil {
		d.Partitions = partitions
	}
	return d
}

// ForeignError means that another program is a member of the group. Records whose offsets the other program commits would never
// be stored, so this member reads nothing.
type ForeignError struct {
	Group string
	// Others are the known members that do not belong to this program.
	Others []kafka.Member
	// Err is the evidence of the other program.
	Err error
}

// Error names the other members and the remedy.
func (e *ForeignError) Error() string {
	others := "its name is not known"
	if len(e.Others) > 0 {
		names := make([]string, len(e.Others))
		for i, m := range e.Others {
			names[i] = m.String()
		}
		others = strings.Join(names, ", ")
	}
	return fmt.Sprintf("another program is a member of the group %q: %s; this consumer reads nothing, because records that the other program commits would never be stored: "+
		"stop the other program, or give it another group id, or set another KAFKA_GROUP_ID here: %v", e.Group, others, e.Err)
}

// Unwrap returns the evidence.
func (e *ForeignError) Unwrap() error { return e.Err }

// named returns err as a ForeignError if members of another program cause it.
func (g *Group) named(ctx context.Context, err error) error {
	if !errors.Is(err, kafkago.InconsistentGroupProtocol) {
		return err
	}
	e, _ := g.foreign(ctx, err)
	return e
}

// foreign makes a ForeignError from its evidence and finds the members. The error means that the coordinator did not tell all
// members.
func (g *Group) foreign(ctx context.Context, cause error) (*ForeignError, error) {
	ctx, cancel := context.WithTimeout(ctx, min(kafka.AnswerTimeout, g.options.SessionTimeout/3))
	defer cancel()
	e := &ForeignError{Group: g.options.GroupID, Err: cause}
	list, err := g.cluster.Members(ctx, g.options.GroupID)
	for _, m := range list {
		if !IsOurs(m) {
			e.Others = append(e.Others, m)
		}
	}
	return e, err
}

// identify finds the members of another program while the assignment is refused. It sends a new ForeignError whenever they
// change.
func (g *Group) identify(ctx context.Context, p *period, strangers chan<- *ForeignError) {
	if p.refused == nil {
		return
	}
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	told := ""
	for {
		if e, err := g.foreign(ctx, p.refused); err == nil && e.Error() != told || told == "" {
			select {
			case strangers <- e:
				told = e.Error()
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// IsOurs reports whether a member is a consumer of this program, by its subscription. A joining member has no subscription, nor
// has a member whose broker makes the assignments. Then the client id decides.
func IsOurs(m kafka.Member) bool {
	if len(m.Subscription) == 0 {
		return m.ClientID == wire.ClientID
	}
	_, _, err := decodeClaim(m.Subscription)
	return err == nil
}

// errNotOurs means that no leader of this program made the assignment.
var errNotOurs = errors.New("the assignment was not made by a consumer of this program")

// readAssignment decodes an assignment. A leader of this program tells from which topics it made the assignment, and each
// partition must belong to one of them. A broker that assigns by itself tells no topics.
func readAssignment(assignment []byte) (owned []record.Partition, shapes map[string]topicShape, err error) {
	owned, userData, err := decodeAssignment(assignment)
	if err == nil {
		shapes, err = decodeShapes(userData)
	}
	for _, p := range owned {
		if n := shapes[p.Topic].partitions; err == nil && (p.Number < 0 || p.Number >= n) {
			err = fmt.Errorf("%w: it assigns partition %s, but lists %d partitions of this topic", wire.ErrMalformed, p, n)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w (%w)", errNotOurs, err)
	}
	return owned, shapes, nil
}

// decodeClaim decodes the claim in a member's subscription. It fails when no consumer of this program made it.
func decodeClaim(subscription []byte) (topics []string, claim ownership, err error) {
	topics, userData, err := decodeSubscription(subscription)
	if err == nil {
		claim, err = decodeOwnership(userData)
	}
	if err != nil {
		return nil, ownership{}, err
	}
	return topics, claim, nil
}
