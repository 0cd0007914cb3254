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

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
)

const (
	// membersInterval is the least time between two requests for the members. Nothing asks while nobody looks at the page, because
	// each of n members would be answered with n descriptions.
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

// refresh asks for the members if the last question is old enough, and nobody else asks. It keeps the last answer if none comes.
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
