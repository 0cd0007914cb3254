package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

const (
	// watchInterval is the time between two looks at the topics' ids and numbers of partitions.
	watchInterval = 10 * time.Second
	// leaveReserve is the most time that a shutdown reserves for leaving the group.
	leaveReserve = time.Second
)

// Handler works on the partitions. After the Assigned of a generation exactly one further call ends it: Assigned of the next
// generation, Revoke or Lost. Calls do not overlap.
type Handler interface {
	// Assigned says that a generation has begun, with or without partitions. It replaces the previous generation, unless that was
	// revoked or lost. If g.Follows, the handler keeps the partitions that it had in both. It hands the others over to their new
	// owners while the previous generation's lease holds, and commits for them through g. Assigned returns at once.
	Assigned(g *Generation)
	// Revoke says that the generation is about to end. The handler stops fetching, flushes, commits and releases. Revoke returns
	// when that is done and every sender has returned. When ctx is done, it must abandon the rest. ctx ends half a rebalance
	// timeout after the last sign that no rebalance was under way, at the end of a shutdown's time, or when the coordinator says
	// that the generation is already over.
	Revoke(ctx context.Context, g *Generation)
	// Lost says that the generation is over without a chance to flush. It returns after every sender has stopped.
	Lost(g *Generation)
}

// cluster answers a group's questions that do not go to its coordinator. kafka.Client implements it. Calls may overlap.
type cluster interface {
	// Topics answers in the order of names. A missing topic has its Err set.
	Topics(ctx context.Context, names ...string) ([]kafka.Topic, error)
	// Members describes the members of a group.
	Members(ctx context.Context, group string) ([]kafka.Member, error)
}

// Options are the settings of a member. InstanceID, ErrorAfter and Logger are optional.
type Options struct {
	// GroupID is the consumer group. Topics are read until Subscribe replaces them.
	GroupID string
	Topics  []string
	// InstanceID makes the membership static. Empty means a dynamic member.
	InstanceID string
	// SessionTimeout is how long the coordinator waits for a member's next heartbeat.
	SessionTimeout time.Duration
	// HeartbeatInterval is the time between two heartbeats.
	HeartbeatInterval time.Duration
	// RebalanceTimeout is how long a rebalance waits for a member to join.
	RebalanceTimeout time.Duration
	// Lease is how long one proven commit allows writes.
	Lease time.Duration
	// Eager means that the handler releases everything before each following generation.
	Eager bool
	// Shutdown is the time from the end of Run's context to the return of Run. HandOver is the part of it that is reserved for
	// the handler's last Revoke, if that much is left. Until then the handler works on, while the group rejoins to give its
	// partitions to others.
	Shutdown, HandOver time.Duration
	// ErrorAfter is how long a failure lasts before its log lines become errors instead of warnings. Zero means never.
	ErrorAfter time.Duration
	// Page is the TCP port of this member's status page, for the other members. Zero means that they cannot reach it.
	Page uint16
	// Logger takes the life-cycle lines. Nil means no logging.
	Logger *slog.Logger
}

// State is the state of a membership.
type State string

// The states of a member.
const (
	Joining     State = "joining"     // asking for, or waiting for, the next generation
	Syncing     State = "syncing"     // waiting for the leader's assignment
	Stable      State = "stable"      // in a generation
	Rebalancing State = "rebalancing" // ending a generation, that is, flushing and committing
	Leaving     State = "leaving"     // leaving the group after the last generation
	Left        State = "left"
)

// Status is a snapshot of the membership.
type Status struct {
	State State
	// Since is when the state began. Syncing counts as a part of Joining.
	Since time.Duration
	// MemberID is the id that the coordinator gave. It is empty before.
	MemberID string
	// Generation is the generation that the handler works in. Nil means none.
	Generation *Generation
	// Refused is why the member takes nothing of the assignment. Nil means that it takes the assignment.
	Refused error
}

// Group is one member of a consumer group. The goroutine in Run owns its state and waits for the other goroutines, which send
// heartbeats, watch the topics or run the handler's Revoke. Those only use a generation, which does not change.
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
	// beside is the member id of the last refused assignment, when another program was in the group. Coordinators give no id
	// twice.
	beside   string
	owned    ownership     // the claim of this member when it joins
	former   membership    // membership in the last generation
	known    *lease        // lease of the last generation; nil before the first
	leases   []*lease      // leases of older generations that may still hold
	refused  error         // why nothing of the present assignment is taken
	ignoring bool          // the last assignment had partitions of topics that this member does not read
	outage   outage        // of the coordinator
	leaveBy  time.Duration // when Run must return; 0 before the shutdown has begun
}

// New returns a member of a group. It joins when Run is called.
func New(client *kafka.Client, o Options, handler Handler, registerer prometheus.Registerer) *Group {
	return newGroup(o, handler, surroundings{&kafkaCoordinator{client, &o}, client, kafka.Now}, registerer)
}

// surroundings are the dependencies of a group.
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
		owned:        ownership{generation: noGeneration, page: o.Page},
	}
	g.outage = outage{log: g.log, now: s.now, serious: o.ErrorAfter}
	g.topics.Store(&o.Topics)
	g.setStatus(Joining, nil)
	return g
}

// Subscribe changes the topics that this member reads. If a new one has partitions, or partitions of an old one are assigned to
// this member, the member asks for a rebalance within watchInterval. It goes on reading the partitions that stay.
func (g *Group) Subscribe(topics []string) {
	topics = slices.Clone(topics)
	g.topics.Store(&topics)
}

// subscribed returns the topics that this member reads.
func (g *Group) subscribed() []string { return *g.topics.Load() }

// Status returns a snapshot of the membership.
func (g *Group) Status() Status { return *g.status.Load() }

func (g *Group) setStatus(state State, generation *Generation) {
	next := &Status{State: state, Since: g.now(), MemberID: g.memberID, Generation: generation, Refused: g.refused}
	if last := g.status.Load(); last != nil && (last.State == state || last.State == Joining && state == Syncing) {
		next.Since = last.Since
	}
	g.status.Store(next)
}

// Run joins and rejoins the group until ctx is done. Then it lets the handler finish, leaves the group unless the membership is
// static, and returns nil. An error needs a person, and its text names the setting. An unreachable coordinator is no error: the
// member goes on, and its lease lapses by itself.
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
				g.log.Warn("another process with the same KAFKA_INSTANCE_ID replaced this member while it stopped", "err", err)
				return nil
			case ctx.Err() != nil && fatal(err) == nil: // it only says that ctx is done
				return nil
			}
			return err
		}
	}
}

// shutdownEnd returns when Run must return, on the group's clock. The first call starts the shutdown's time.
func (g *Group) shutdownEnd() time.Duration {
	if g.leaveBy == 0 {
		g.leaveBy = g.now() + g.options.Shutdown
	}
	return g.leaveBy
}

// fatal returns err if no retry can help and a person must act, else nil. A full group (GROUP_MAX_SIZE_REACHED) is not fatal,
// because another member may leave it.
func fatal(err error) error {
	if kafka.Classify(err) == kafka.StopProgram || errors.Is(err, kafkago.GroupAuthorizationFailed) {
		return err
	}
	return nil
}

// leaveTime is the time that a shutdown reserves for leaving the group.
func (g *Group) leaveTime() time.Duration { return min(leaveReserve, g.options.Shutdown/10) }

// leave tells the coordinator that this member is gone, so that the others need not wait for the end of its session. It retries
// until the coordinator confirms or the shutdown's time is up, but always has leaveTime. A static member does not leave. Its
// partitions wait for its next process.
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
			g.log.Warn("Kafka did not confirm that this member has left the group: the other members wait until the session of this member ends", "member", g.memberID, "err", err)
			return
		}
	}
}

func (g *Group) fatalError(err error) error {
	return fmt.Errorf("this consumer cannot be a member of group %q: %w", g.options.GroupID, err)
}

// The kinds of rebalances_total: why a generation ended.
const (
	kindRebalance = "rebalance" // the coordinator asked for one
	kindTopics    = "topics"    // a topic grew, appeared or was created again
	kindLost      = "lost"      // the coordinator went on without this member
	kindShutdown  = "shutdown"  // this process left
)

// The requests of group_retries_total.
const (
	requestJoin      = "join"
	requestSync      = "sync"
	requestHeartbeat = "heartbeat"
	requestTopics    = "topics"
	requestLeave     = "leave"
)

// The outcomes of commits_total, one for each request.
const (
	outcomeCommitted  = "committed"
	outcomeRefused    = "refused"    // for at least one partition
	outcomeUnanswered = "unanswered" // the commit may have been executed
	outcomeOver       = "generation_over"
)

// metrics are the metrics of the membership.
type metrics struct {
	rebalances *prometheus.CounterVec
	commits    *prometheus.CounterVec
	assigned   prometheus.Gauge
	lapsed     prometheus.Counter
	retries    *prometheus.CounterVec
	refused    prometheus.Counter
	ignored    *prometheus.CounterVec
	since      atomic.Int64 // when the generation began, in nanoseconds on the clock of now; negative while there is none
}

// newMetrics registers the metrics. Counters exist at zero from the start, except those of partitions.
func newMetrics(registerer prometheus.Registerer, now func() time.Duration) *metrics {
	factory := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		vec := factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, v := range values {
			vec.WithLabelValues(v)
		}
		return vec
	}
	m := &metrics{
		rebalances: counters("waterwheel_rebalances_total", "Generations of the group that ended for this member, by cause.",
			"kind", kindRebalance, kindTopics, kindLost, kindShutdown),
		commits: counters("waterwheel_commits_total", "Requests to commit offsets, by outcome.",
			"outcome", outcomeCommitted, outcomeRefused, outcomeUnanswered, outcomeOver),
		retries: counters("waterwheel_group_retries_total",
			"Requests about the group membership that are sent again, after no answer or a temporary error.",
			"request", requestJoin, requestSync, requestHeartbeat, requestTopics, requestLeave),
		lapsed: counter("waterwheel_lease_lapsed_seconds_total",
			"Time in which partitions were assigned but nothing could be written, because the lease had expired."),
		refused: counter("waterwheel_assignments_refused_total",
			"Assignments that this consumer refused because another program is a member of the group."),
		ignored: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_partitions_ignored_total",
			Help: "Assigned partitions that are not read because their topic is not in KAFKA_TOPICS.",
		}, []string{"topic", "partition"}),
		assigned: factory.NewGauge(prometheus.GaugeOpts{Name: "waterwheel_assigned_partitions", Help: "Partitions assigned to this consumer."}),
	}
	m.since.Store(-1)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waterwheel_generation_seconds",
		Help: "How long this member has been in the current generation of the group, 0 while it is in none.",
	}, func() float64 {
		if since := m.since.Load(); since >= 0 {
			return (now() - time.Duration(since)).Seconds()
		}
		return 0
	})
	return m
}

func (m *metrics) countCommit(results []error, err error) {
	outcome := outcomeCommitted
	switch {
	case endingAnswer(results, err) != nil:
		outcome = outcomeOver
	case err != nil:
		outcome = outcomeUnanswered
	case slices.ContainsFunc(results, func(result error) bool { return result != nil }):
		outcome = outcomeRefused
	}
	m.commits.WithLabelValues(outcome).Inc()
}

// ignore counts an assigned partition that this member does not read.
func (m *metrics) ignore(p record.Partition) {
	m.ignored.WithLabelValues(p.Topic, strconv.Itoa(int(p.Number))).Inc()
}

func (m *metrics) began(at time.Duration, partitions int) {
	m.since.Store(int64(at))
	m.assigned.Set(float64(partitions))
}

func (m *metrics) ended(kind string) {
	m.since.Store(-1)
	m.assigned.Set(0)
	m.rebalances.WithLabelValues(kind).Inc()
}
