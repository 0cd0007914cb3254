package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
)

const (
	// watchInterval is the time between two looks at the topics' ids and numbers of partitions.
	watchInterval = 10 * time.Second
	// leaveReserve is the most that a shutdown keeps of its time for leaving the group.
	leaveReserve = time.Second
)

// Handler is who works on the partitions. After a generation's Assigned one call follows about it: Assigned of the next one,
// Revoke or Lost. Calls do not overlap.
type Handler interface {
	// Assigned says that a generation has begun, with or without partitions, in the place of the one before if that was not
	// revoked or lost. What the handler had in both, it keeps, if g.Follows. What it has no more, it hands over to whom it was
	// assigned to, as long as the former generation's lease holds; commits for it go through g. It returns at once.
	Assigned(g *Generation)
	// Revoke says that the generation is about to end: stop fetching, flush, commit, release. It returns when all of that
	// is done and every sender has returned, or when ctx is done: then it must abandon what is left. ctx ends half a
	// rebalance timeout after the last sign that no rebalance was under way, at the end of a shutdown's time, or when the
	// coordinator says that the generation is over already.
	Revoke(ctx context.Context, g *Generation)
	// Lost says that the generation is over without a chance to flush. It returns after every sender has stopped.
	Lost(g *Generation)
}

// cluster is what a group asks beside its coordinator; a kafka.Client. Calls may overlap.
type cluster interface {
	// Topics answers in the order of names; a topic that is not there has its Err set.
	Topics(ctx context.Context, names ...string) ([]kafka.Topic, error)
	// Members describes the members of a group.
	Members(ctx context.Context, group string) ([]kafka.Member, error)
}

// Options are the settings of a member. All but InstanceID, ErrorAfter and Logger are needed.
type Options struct {
	// GroupID is the consumer group, Topics what it reads until Subscribe says otherwise.
	GroupID string
	Topics  []string
	// InstanceID switches static membership on when it is not empty.
	InstanceID string
	// SessionTimeout is how long the coordinator waits for a member's next sign of life.
	SessionTimeout time.Duration
	// HeartbeatInterval is the time between two heartbeats.
	HeartbeatInterval time.Duration
	// RebalanceTimeout is how long a rebalance waits for a member to join.
	RebalanceTimeout time.Duration
	// Lease is how long one answered commit entitles to write.
	Lease time.Duration
	// Eager means that the handler lets go of everything before each generation that follows.
	Eager bool
	// Shutdown is the time from the end of Run's context to its return. HandOver is the part of it that is kept for the handler's last
	// Revoke, if there is so much: until then the handler works on, while the group joins to give its partitions to others.
	Shutdown, HandOver time.Duration
	// ErrorAfter is how long a trouble lasts before the lines about it are errors and no warnings. Zero means that they never are.
	ErrorAfter time.Duration
	// Logger takes the life-cycle lines, nil for none.
	Logger *slog.Logger
}

// State is where a member stands.
type State string

// The states of a member.
const (
	Joining     State = "joining"     // asking for, or waiting for, the next generation
	Syncing     State = "syncing"     // waiting for the leader's assignment
	Stable      State = "stable"      // in a generation
	Rebalancing State = "rebalancing" // ending one: flushing and committing
	Leaving     State = "leaving"     // after the last one
	Left        State = "left"
)

// Status is a snapshot of the membership.
type Status struct {
	State State
	// Since is when the state began; Syncing is a part of Joining here.
	Since time.Duration
	// MemberID is the id the coordinator gave; empty before it did.
	MemberID string
	// Generation is the last one that the handler was told of, and works in. Nil means that there is none.
	Generation *Generation
	// Refused is why nothing is taken of the generation's assignment, nil where it is taken.
	Refused error
}

// Group is one member of a consumer group. The goroutine in Run owns its state; what the others do (heartbeats, looking at
// the topics, the handler's Revoke) they do on a generation that does not change, and it waits for each of them.
type Group struct {
	surroundings
	options Options
	handler Handler
	log     *slog.Logger
	metrics *metrics
	status  atomic.Pointer[Status]
	topics  atomic.Pointer[[]string] // that this member reads

	// owned by Run
	memberID string
	beside   string        // the id under which this member was last in the group beside another program; none is given twice
	owned    ownership     // what this member claims when it joins
	former   membership    // of the last generation
	known    *lease        // its lease; nil before the first generation
	leases   []*lease      // of generations that another one has followed, as long as they may hold
	refused  error         // why nothing is taken of the present assignment
	ignoring bool          // the last assignment held partitions of topics that are not read
	outage   outage        // of the coordinator
	leaveBy  time.Duration // when Run must return; 0 before the shutdown has begun
}

// New returns a member of a group. It joins when Run is called.
func New(client *kafka.Client, o Options, handler Handler, registerer prometheus.Registerer) *Group {
	return newGroup(o, handler, surroundings{&kafkaCoordinator{client, &o}, client, kafka.Now}, registerer)
}

// surroundings is what a group meets outside.
type surroundings struct {
	coordinator coordinator
	cluster     cluster
	now         func() time.Duration
}

func newGroup(o Options, handler Handler, s surroundings, registerer prometheus.Registerer) *Group {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Group{
		surroundings: s,
		options:      o,
		handler:      handler,
		log:          o.Logger.With("group", o.GroupID),
		metrics:      newMetrics(registerer, s.now),
		owned:        ownership{generation: noGeneration, cooperative: true},
	}
	g.outage = outage{log: g.log, now: s.now, serious: o.ErrorAfter}
	g.topics.Store(&o.Topics)
	g.setStatus(Joining, nil)
	return g
}

// Subscribe changes which topics this member reads. It joins the next generation with them within moments: what stays with it goes on
// being read meanwhile.
func (g *Group) Subscribe(topics []string) {
	topics = slices.Clone(topics)
	g.topics.Store(&topics)
}

// subscribed are the topics that this member reads.
func (g *Group) subscribed() []string { return *g.topics.Load() }

// Status is where the member stands at this moment.
func (g *Group) Status() Status { return *g.status.Load() }

func (g *Group) setStatus(state State, generation *Generation) {
	next := &Status{State: state, Since: g.now(), MemberID: g.memberID, Generation: generation, Refused: g.refused}
	if last := g.status.Load(); last != nil && (last.State == state || last.State == Joining && state == Syncing) {
		next.Since = last.Since
	}
	g.status.Store(next)
}

// Run is the membership: it joins and rejoins until ctx is done, then lets the handler finish, leaves the group (unless the
// membership is static) and returns nil. Any other return is an error that a person must act on; its text names the
// setting. An unreachable coordinator is not: the member goes on, and its lease lapses by itself.
func (g *Group) Run(ctx context.Context) error {
	defer g.setStatus(Left, nil)
	for {
		p, err := g.enter(ctx, nil)
		for err == nil && p != nil {
			p, err = g.live(ctx, p)
		}
		if err != nil || ctx.Err() != nil {
			g.leave(ctx)
			switch {
			case ctx.Err() != nil && errors.Is(err, kafkago.FencedInstanceID):
				g.log.Warn("another process took the place of this static member while it stopped", "err", err)
				return nil
			case ctx.Err() != nil && fatal(err) == nil: // it only says that ctx is done
				return nil
			}
			return err
		}
	}
}

// shutdownEnd is when Run must return, on the group's clock. The first call starts the time.
func (g *Group) shutdownEnd() time.Duration {
	if g.leaveBy == 0 {
		g.leaveBy = g.now() + g.options.Shutdown
	}
	return g.leaveBy
}

// fatal is err if no retry will help and a person must act, else nil. A full group (GROUP_MAX_SIZE_REACHED) is not fatal: another member
// may leave it.
func fatal(err error) error {
	if kafka.Classify(err) == kafka.StopProgram || errors.Is(err, kafkago.GroupAuthorizationFailed) {
		return err
	}
	return nil
}

// leaveTime is what a shutdown keeps of its time for leaving the group.
func (g *Group) leaveTime() time.Duration { return min(leaveReserve, g.options.Shutdown/10) }

// leave tells the coordinator that this member is gone, until it is confirmed or the time is up (leaveTime is always
// granted), so that the others need not wait for the session to end. A static member stays: its partitions wait for its
// next incarnation.
func (g *Group) leave(ctx context.Context) {
	if g.memberID == "" || g.options.InstanceID != "" {
		return
	}
	g.setStatus(Leaving, nil)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(kafka.AnswerTimeout, max(g.leaveTime(), g.shutdownEnd()-g.now())))
	defer cancel()
	for {
		err := g.coordinator.Leave(ctx, g.memberID)
		if err == nil || errors.Is(err, kafkago.UnknownMemberId) || fatal(err) != nil {
			return
		}
		g.metrics.retries.WithLabelValues(requestLeave).Inc()
		if !kafka.Pause(ctx) {
			g.log.Warn("leaving the group was not confirmed: the others wait for the session to end", "member", g.memberID, "err", err)
			return
		}
	}
}

func (g *Group) fatalError(err error) error {
	return fmt.Errorf("being a member of group %q: %w", g.options.GroupID, err)
}
