package group

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// errHang makes a scripted request wait until its context ends.
var errHang = errors.New("hang")

// late makes a scripted request wait for this time before it succeeds.
type late time.Duration

func (l late) Error() string { return "answered after " + time.Duration(l).String() }

// asked is a request that reached the script.
type asked struct {
	request      string
	at           time.Duration
	membership   membership
	subscription string
	deadline     time.Duration // measured from the time of the request; zero means none
}

// script is a coordinator and the metadata of a cluster. The group has one member, and a test prepares the answers. Without
// prepared answers every request succeeds.
type script struct {
	now func() time.Duration

	mu        sync.Mutex
	requests  []asked
	next      map[string][]error // answers that are given once, in order
	always    map[string]error   // answers after those
	begun     int32              // the number of generations
	ids       int
	topics    []kafka.Topic
	refused   map[int32]error // results of committing or looking up partitions
	committed map[int32]record.Commit
	others    []kafka.Member // the other members of the group
	made      []byte         // the assignment that a leader in another program made; nil means that of our leader
}

// answer sets the answer to a request from now on. Nil means success.
func (s *script) answer(request string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always[request] = err
}

// answerOnce adds answers for the next requests to the queue.
func (s *script) answerOnce(request string, errs ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[request] = append(s.next[request], errs...)
}

// cut makes every request fail as if the coordinator was down. Nil ends that.
func (s *script) cut(err error) {
	for _, request := range []string{requestJoin, requestSync, requestHeartbeat, requestLeave, requestTopics, "commit"} {
		s.answer(request, err)
	}
}

func (s *script) step(ctx context.Context, a asked) error {
	s.mu.Lock()
	a.at = s.now()
	if deadline, ok := ctx.Deadline(); ok {
		a.deadline = time.Until(deadline)
	}
	s.requests = append(s.requests, a)
	err := s.always[a.request]
	if queue := s.next[a.request]; len(queue) > 0 {
		err, s.next[a.request] = queue[0], queue[1:]
	}
	s.mu.Unlock()
	answered := (<-chan time.Time)(nil)
	if l, ok := errors.AsType[late](err); ok {
		answered = time.After(time.Duration(l))
	} else if !errors.Is(err, errHang) {
		return err
	}
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Join implements coordinator.
func (s *script) Join(ctx context.Context, memberID string, subscription []byte) (joined, error) {
	err := s.step(ctx, asked{request: requestJoin, membership: membership{member: memberID}, subscription: string(subscription)})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && memberID == "" {
		s.ids++
		return joined{membership: membership{noGeneration, fmt.Sprintf("member-%d", s.ids)}}, kafkago.MemberIDRequired
	}
	if err != nil {
		return joined{}, err
	}
	s.begun++
	return joined{membership{s.begun, memberID}, true, []groupMember{{memberID, subscription}}}, nil
}

// Sync implements coordinator.
func (s *script) Sync(ctx context.Context, m membership, assignments map[string][]byte) ([]byte, error) {
	if err := s.step(ctx, asked{request: requestSync, membership: m}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made != nil {
		return s.made, nil
	}
	return assignments[m.member], nil
}

// Members implements cluster.
func (s *script) Members(ctx context.Context, _ string) ([]kafka.Member, error) {
	err := s.step(ctx, asked{request: "members"})
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat([]kafka.Member{{ID: "member-1", ClientID: wire.ClientID}}, s.others), err
}

// assignedBy sets the assignment that another leader makes from now on. Nil means that this member leads.
func (s *script) assignedBy(assignment []byte, others ...kafka.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made, s.others = assignment, others
}

// Heartbeat implements coordinator.
func (s *script) Heartbeat(ctx context.Context, m membership) error {
	return s.step(ctx, asked{request: requestHeartbeat, membership: m})
}

// Leave implements coordinator.
func (s *script) Leave(ctx context.Context, memberID string) error {
	return s.step(ctx, asked{request: requestLeave, membership: membership{member: memberID}})
}

// Commit implements coordinator.
func (s *script) Commit(ctx context.Context, m membership, commits []record.Commit) ([]error, error) {
	if err := s.step(ctx, asked{request: "commit", membership: m}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]error, len(commits))
	for i, c := range commits {
		if results[i] = s.refused[c.Number]; results[i] == nil {
			s.committed[c.Number] = c
		}
	}
	return results, nil
}

// Topics implements cluster.
func (s *script) Topics(ctx context.Context, _ ...string) ([]kafka.Topic, error) {
	if err := s.step(ctx, asked{request: requestTopics}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topics, nil
}

// refuse sets the answer to commits and lookups of a partition. Nil means success.
func (s *script) refuse(partition int32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[partition] = err
}

func (s *script) setTopic(id byte, partitions int) {
	topic := kafka.Topic{Name: "events", ID: [16]byte{id}}
	for p := range partitions {
		topic.Partitions = append(topic.Partitions, kafka.Partition{ID: int32(p)})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topics = []kafka.Topic{topic}
}

// asks returns the requests of one kind so far.
func (s *script) asks(request string) []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []asked
	for _, a := range s.requests {
		if a.request == request {
			found = append(found, a)
		}
	}
	return found
}

// scene is a member with a scripted coordinator in a synctest bubble, with simulated time.
type scene struct {
	*script
	*recorder
	group *Group
	ctx   context.Context
	stop  context.CancelFunc
	done  chan struct{} // closed when Run has returned
	err   error         // the result of Run
	at    time.Duration // the time when Run returned
}

// play runs a test in a bubble. The test starts the member with start, and play stops it.
func play(t *testing.T, change func(*Options), test func(t *testing.T, s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() time.Duration { return time.Hour + time.Since(began) }
		options := Options{
			Topics: []string{"events"}, GroupID: "g", SessionTimeout: 30 * time.Second, HeartbeatInterval: 3 * time.Second,
			RebalanceTimeout: time.Minute, Lease: 10 * time.Second, Shutdown: 25 * time.Second, HandOver: 10 * time.Second,
		}
		if change != nil {
			change(&options)
		}
		s := &scene{recorder: newRecorder(), done: make(chan struct{}), script: &script{
			now: now, next: map[string][]error{}, always: map[string]error{}, refused: map[int32]error{}, committed: map[int32]record.Commit{},
		}}
		s.setTopic(1, 4)
		s.group = newGroup(options, s.recorder, surroundings{s.script, s.script, now}, prometheus.NewRegistry())
		s.ctx, s.stop = context.WithCancel(t.Context())
		test(t, s)
		s.stop()
		s.answer(requestLeave, nil)
		<-s.done
	})
}

// start runs the member and waits for some time.
func (s *scene) start(while time.Duration) {
	go func() {
		defer close(s.done)
		s.err = s.group.Run(s.ctx)
		s.at = s.now()
	}()
	s.pass(while)
}

// pass waits for some time, with everything that happens in it.
func (s *scene) pass(while time.Duration) {
	time.Sleep(while)
	synctest.Wait()
}

// stopped stops the member and returns how long Run took to return.
func (s *scene) stopped() time.Duration {
	from := s.now()
	s.stop()
	<-s.done
	return s.at - from
}

// told compares the calls of the handler so far.
func (s *scene) told(t *testing.T, want ...string) {
	t.Helper()
	if got := s.recorder.log(); !slices.Equal(got, want) {
		t.Errorf("the handler was told %q, want %q", got, want)
	}
}

// counts compares a metric of the group.
func (s *scene) counts(t *testing.T, c prometheus.Collector, want float64) {
	t.Helper()
	if got := testutil.ToFloat64(c); math.Abs(got-want) > 1e-6 {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// commit returns a commit of the offset of a partition.
func commit(topic string, number int32, offset int64, metadata string) record.Commit {
	return record.Commit{Place: record.Place{Partition: record.Partition{Topic: topic, Number: number}, Offset: offset}, Metadata: metadata}
}

// renew commits in a generation.
func (s *scene) renew(t *testing.T, g *Generation) {
	t.Helper()
	if results, err := g.Commit(t.Context(), []record.Commit{commit("events", 0, 5, "")}); err != nil || results[0] != nil {
		t.Errorf("committing in generation %d: %v, %v", g.ID, results, err)
	}
}
