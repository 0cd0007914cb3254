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

// ForeignError is a group in which another program is a member: what that commits is not stored, so nothing is read
// beside it.
type ForeignError struct {
	Group string
	// Others are the members that are not of this program, as far as they are known.
	Others []kafka.Member
	// Err is what shows it.
	Err error
}

// Error names the other members and the way out.
func (e *ForeignError) Error() string {
	others := "who it is could not be found out"
	if len(e.Others) > 0 {
		names := make([]string, len(e.Others))
		for i, m := range e.Others {
			names[i] = m.String()
		}
		others = strings.Join(names, ", ")
	}
	return fmt.Sprintf("another program is a member of the group %q: %s; what it commits would be skipped, so nothing is read beside it: "+
		"end it or give it another group id (or this consumer, by KAFKA_GROUP_ID): %v", e.Group, others, e.Err)
}

// Unwrap gives what shows it.
func (e *ForeignError) Unwrap() error { return e.Err }

// named is err with the members of another program, if it is what such members cause.
func (g *Group) named(ctx context.Context, err error) error {
	if !errors.Is(err, kafkago.InconsistentGroupProtocol) {
		return err
	}
	e, _ := g.foreign(ctx, err)
	return e
}

// foreign says that cause shows another program in the group, and which members those are. An error tells that the
// coordinator could not be asked for them.
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

// identify looks who the members of another program are, as long as the assignment is refused, and tells whenever there is
// news.
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

// IsOurs reports whether a member is a consumer of this program, by its subscription. Without one, while it joins or in a group
// whose assignments the broker makes, the client id must do.
func IsOurs(m kafka.Member) bool {
	if len(m.Subscription) == 0 {
		return m.ClientID == wire.ClientID
	}
	_, _, err := decodeClaim(m.Subscription)
	return err == nil
}

// errNotOurs is an assignment that was not made by a leader of this program from its members' claims.
var errNotOurs = errors.New("the assignment was not made by a consumer of this program")

// readAssignment takes an assignment apart. A leader of this program says from which topics it made it, and each partition
// is one of theirs; a broker that assigns by itself says nothing.
func readAssignment(assignment []byte) (owned []record.Partition, shapes map[string]topicShape, cooperative bool, err error) {
	owned, userData, err := decodeAssignment(assignment)
	if err == nil {
		shapes, cooperative, err = decodeShapes(userData)
	}
	for _, p := range owned {
		if n := shapes[p.Topic].partitions; err == nil && (p.Number < 0 || p.Number >= n) {
			err = fmt.Errorf("%w: partition %s of %d", wire.ErrMalformed, p, n)
		}
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("%w (%w)", errNotOurs, err)
	}
	return owned, shapes, cooperative, nil
}

// decodeClaim is the claim in a member's subscription; an error when no consumer of this program made it.
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
