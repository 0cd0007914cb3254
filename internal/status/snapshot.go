package status

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

// Snapshot is what the status page and /api/status show of one moment. It holds no record contents.
type Snapshot struct {
	At      time.Time `json:"at"`
	Version string    `json:"version"`
	Group   string    `json:"group"`
	// Member is this consumer's name in the group, and Generation the group's present one. Before the consumer has joined they
	// are empty and -1.
	Member     string `json:"member"`
	Generation int32  `json:"generation"`
	// NotReady are the reasons why /readyz answers 503. Empty means that it answers 200.
	NotReady []Notice `json:"notReady"`
	// Starting means that the consumer is not connected yet. Then waiting for a server is no alarm.
	Starting bool `json:"starting,omitempty"`
	// Degraded are problems that an operator should look at although the consumer continues.
	Degraded []Notice `json:"degraded,omitempty"`
	Memory   Memory   `json:"memory"`
	// Done are totals since the start of the consumer.
	Done       Done        `json:"done"`
	Partitions []Partition `json:"partitions"`
	// Members are the members of the group, sorted by name, as Kafka described them at MembersAt. A zero time means that Kafka has
	// not answered.
	Members   []Member  `json:"members"`
	MembersAt time.Time `json:"membersAt,omitzero"`
	// DeadLetters are the last letters, newest first.
	DeadLetters []RecentDeadLetter `json:"deadLetters"`

	lateAfter time.Duration // the age from which a partition is late
}

// Done is what a consumer has done since its start.
type Done struct {
	Stored      int64 `json:"stored"`      // measurements
	Recognised  int64 `json:"recognised"`  // measurements that were read again and found stored
	DeadLetters int64 `json:"deadLetters"` // dead letters
	Writes      int64 `json:"writes"`      // writes that carried the measurements
}

// PerWrite returns how many measurements a write carried on average.
func (d Done) PerWrite() float64 {
	if d.Writes == 0 {
		return 0
	}
	return float64(d.Stored) / float64(d.Writes)
}

// Memory is the memory budget, in bytes.
type Memory struct {
	Used   int64 `json:"usedBytes"`
	Budget int64 `json:"budgetBytes"`
	Limit  int64 `json:"limitBytes"`
}

// Percent returns how much of the budget is used, from 0 to 100.
func (m Memory) Percent() int64 {
	if m.Budget <= 0 {
		return 0
	}
	return min(100, max(0, m.Used*100/m.Budget))
}

// Partition is one assigned partition.
type Partition struct {
	record.Partition
	// State is the worker's own word for its state. Working reports whether records are read.
	State   string `json:"state"`
	Working bool   `json:"working"`
	// Stopped says why the partition is no longer read, and StopReason is the label of that. Trouble says what is being retried,
	// with its errors, and Retrying the same without errors. Paused says why fetching is paused. Empty means that this is not so.
	Stopped    string   `json:"stopped,omitempty"`
	StopReason string   `json:"stopReason,omitempty"`
	Failure    string   `json:"failure,omitempty"`
	Retrying   []string `json:"-"`
	Paused     string   `json:"paused,omitempty"`
	// Position is the next offset to read, End the log's end, and Committed the committed offset. Nil means none, or unknown.
	Position  *int64 `json:"position"`
	End       *int64 `json:"end"`
	Committed *int64 `json:"committed"`
	// Lag is the number of records in the log that are not committed, including those behind an open transaction. Nil means
	// unknown.
	Lag *int64 `json:"lag"`
	// Transaction is the open transaction that blocks the partition. Nil means that there is none, or not for long.
	Transaction *Transaction `json:"transaction,omitempty"`
	// FreshnessSeconds is the age of the oldest record that is not durable. It is 0 if there is none. Nil means unknown.
	FreshnessSeconds *float64 `json:"freshnessSeconds"`
	// Pending are measurements that wait for the next flush. Flushing are measurements in the present one.
	Pending  int `json:"pending"`
	Flushing int `json:"flushing"`
	// LastFlush is when the last flush ended. Zero means that there was none yet.
	LastFlush   time.Time `json:"lastFlush,omitzero"`
	OpenBuckets int       `json:"openBuckets"`
	MemoryBytes int64     `json:"memoryBytes"`
}

// Transaction is an open transaction.
type Transaction struct {
	Since time.Time `json:"since"`
	// Producer is the id of its producer. -1 means unknown. ID is its transactional id. Empty means unknown.
	Producer int64  `json:"producer"`
	ID       string `json:"transactionalId,omitempty"`
	// First is the offset of its first record in the partition.
	First int64 `json:"first"`
}

// RecentDeadLetter is a dead letter: its source and its reason, never its contents.
type RecentDeadLetter struct {
	At time.Time `json:"at"`
	record.Place
	// Part is the index of the element in an array record. -1 means the whole record.
	Part   int32  `json:"part"`
	Reason string `json:"reason"`
}

// snapshot assembles the state of all parts.
func (v *View) snapshot() Snapshot {
	view := Snapshot{
		At: time.Now(), Version: v.o.Version, Group: v.o.Group, Generation: -1, DeadLetters: v.deadLetters.list(), lateAfter: v.hour.late,
		Memory: Memory{Used: v.o.Budget.Total(), Budget: v.o.Budget.Limit(), Limit: v.o.MemoryLimit},
	}
	done := v.o.Metrics.Totals()
	view.Done = Done{Stored: done.Stored, Recognised: done.Recognised, DeadLetters: done.DeadLetters, Writes: done.Writes}
	p, r := v.parts.Load(), readiness{at: view.At}
	if p == nil {
		r.waits(v.waits.list())
		view.NotReady, view.Starting = r.bad, true
		return view
	}
	membership := p.Group.Status()
	view.Member = membership.MemberID
	view.Members, view.MembersAt = v.members.known(view.Member)
	r.joins(v.o.Group, membership)
	if membership.Generation != nil {
		view.Generation = membership.Generation.ID
	}
	if membership.Refused != nil {
		r.notReady(aboutReadiness, "consumption suspended: %v", membership.Refused)
	}
	statuses := v.statuses(view.At)
	r.servers(statuses, v.database.Load())
	r.claims(statuses)
	r.transactions(statuses)
	r.losses(v.o.Losses.Recent(kafka.Now()))
	r.partitions(statuses)
	if p.Topics != nil {
		r.topics(p.Topics())
	}
	for _, s := range statuses {
		view.Partitions = append(view.Partitions, newPartition(s, view.At))
	}
	view.NotReady, view.Degraded = r.bad, r.doubtful
	return view
}

func newPartition(s *pipeline.Status, now time.Time) Partition {
	view := Partition{
		Partition: s.Partition, State: s.Phase, Working: s.Running && s.Stopped == nil,
		Paused: s.Paused, Position: known(s.Position), End: known(s.End), Committed: known(s.Committed),
		Pending: s.Pending, Flushing: s.Flushing, OpenBuckets: int(s.Buckets.OpenBuckets), MemoryBytes: s.Bytes(),
	}
	if s.Stopped != nil {
		view.State, view.StopReason, view.Stopped = "stopped", s.Stopped.Reason, s.Stopped.Detail
	}
	if s.ClaimWait > 0 {
		view.State += " " + s.ClaimWait.Round(time.Second).String()
	}
	var failures []string
	for of, failure := range s.Failures {
		if failure != nil {
			view.Retrying = append(view.Retrying, pipeline.Dependency(of).Name()+": "+failure.Operation)
			failures = append(failures, failure.String())
		}
	}
	view.Failure = strings.Join(failures, "; ")
	if lag, ok := s.Lag(); ok {
		view.Lag = &lag
	}
	if t := s.Transaction; t != nil {
		view.Transaction = &Transaction{Since: t.Since, Producer: t.Producer, ID: t.ID, First: t.First}
		view.State += ", waits for a transaction open since " + text.Time(t.Since)
	}
	if age, ok := s.Freshness(now); ok {
		view.FreshnessSeconds = new(age.Seconds())
	}
	if s.LastFlush > 0 {
		view.LastFlush = now.Add(s.LastFlush - kafka.Now())
	}
	return view
}

// known returns nil for a negative offset, which means none or unknown.
func known(offset int64) *int64 {
	if offset < 0 {
		return nil
	}
	return &offset
}

const (
	// membersInterval is the least time between two requests for the members. Only requests for the page cause them, because the
	// answer to each of n members has n descriptions.
	membersInterval = 5 * time.Second
	// membersTimeout bounds the wait for the answer, because the page must not wait for Kafka during an outage.
	membersTimeout = 500 * time.Millisecond
)

// Member is a member of the consumer group.
type Member struct {
	// Name is group.instance.id if the member has one, and its member id otherwise. This marks the consumer that shows the page.
	Name string `json:"name"`
	This bool   `json:"this"`
	// Foreign means that the member is another program.
	Foreign bool `json:"foreign,omitempty"`
	// Host is the member's address as the broker sees it. Page is the address of its status page. Empty means that other machines
	// cannot reach it.
	Host string `json:"host"`
	Page string `json:"page,omitempty"`
	// Partitions are its assigned partitions by topic, in order.
	Partitions map[string][]int32 `json:"partitions"`
}

// Count returns how many partitions the member has.
func (m *Member) Count() (n int) {
	for _, numbers := range m.Partitions {
		n += len(numbers)
	}
	return n
}

// Listed formats the partitions by topic, as "sensors 0–3, 7; trades 1".
func (m *Member) Listed() string {
	var topics []string
	for topic, numbers := range m.Partitions {
		topics = append(topics, topic+" "+ranges(numbers))
	}
	slices.Sort(topics)
	return strings.Join(topics, "; ")
}

// ranges formats sorted numbers, as "0–3, 7".
func ranges(numbers []int32) string {
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := fmt.Sprint(numbers[i])
		if last > i {
			part += fmt.Sprintf("–%d", numbers[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strings.Join(parts, ", ")
}

// members holds the last answer about the members of the group. It is safe for concurrent use.
type members struct {
	asking sync.Mutex // held by the goroutine that asks
	mu     sync.Mutex
	list   []kafka.Member
	at     time.Time // when the list was answered. Zero means never.
	tried  time.Time // when Kafka was last asked
}

// refresh asks for the members if the last request is old enough and no other goroutine asks. Without an answer it keeps the last
// one.
func (m *members) refresh(ctx context.Context, now time.Time, ask func(context.Context) ([]kafka.Member, error)) {
	if !m.asking.TryLock() {
		return
	}
	defer m.asking.Unlock()
	if now.Sub(m.tried) < membersInterval {
		return
	}
	m.tried = now
	ctx, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	list, err := ask(ctx)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list, m.at = list, now
}

// known returns the members of the last answer, sorted by name, and when it came. this is the member id of this consumer.
func (m *members) known(this string) (all []Member, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, member := range m.list {
		all = append(all, newMember(group.Describe(member), this))
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return all, m.at
}

func newMember(d group.Described, this string) Member {
	m := Member{
		Name: cmp.Or(d.Instance, d.ID), This: d.ID == this, Foreign: !d.Ours, Host: strings.TrimPrefix(d.Host, "/"),
		Partitions: map[string][]int32{},
	}
	if d.Page != 0 {
		m.Page = "http://" + net.JoinHostPort(m.Host, strconv.Itoa(int(d.Page))) + "/"
	}
	for _, p := range d.Partitions {
		m.Partitions[p.Topic] = append(m.Partitions[p.Topic], p.Number)
	}
	return m
}

// OldMembers reports that Kafka has not described the members lately.
func (s *Snapshot) OldMembers() bool { return s.At.Sub(s.MembersAt) > 3*membersInterval }

// askMembers asks Kafka for the members of the group, unless that was done a moment ago.
func (v *View) askMembers(ctx context.Context) {
	if p := v.parts.Load(); p != nil {
		v.members.refresh(ctx, time.Now(), func(ctx context.Context) ([]kafka.Member, error) { return p.Client.Members(ctx, v.o.Group) })
	}
}
