package status

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/record"
)

// TestMembersAreAskedRarely checks that Kafka is asked once in an interval, and that the last answer stays when Kafka fails.
func TestMembersAreAskedRarely(t *testing.T) {
	var m members
	asked := 0
	var answer error
	ask := func(ctx context.Context) ([]kafka.Member, error) {
		asked++
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the page would wait for Kafka without a bound")
		}
		return []kafka.Member{{ID: "b"}, {ID: "x", Instance: "a"}}, answer
	}
	begin := time.Now()
	m.refresh(t.Context(), begin, ask)
	m.refresh(t.Context(), begin.Add(membersInterval-1), ask)
	if all, at := m.known("b"); asked != 1 || !at.Equal(begin) || len(all) != 2 || all[0].Name != "a" || all[0].This || !all[1].This {
		t.Errorf("asked %d times: %+v at %v", asked, all, at)
	}
	answer = errors.New("no answer")
	later := begin.Add(membersInterval)
	m.refresh(t.Context(), later, ask)
	if all, at := m.known("b"); asked != 2 || !at.Equal(begin) || len(all) != 2 {
		t.Errorf("asked %d times: %+v at %v", asked, all, at)
	}
}

func TestMembersHavePages(t *testing.T) {
	partitions := []record.Partition{{Topic: "a", Number: 0}, {Topic: "a", Number: 1}, {Topic: "a", Number: 2}, {Topic: "b", Number: 4}}
	for host, page := range map[string]string{"/10.0.0.7": "http://10.0.0.7:9464/", "/fd00:0:0:0:0:0:0:7": "http://[fd00:0:0:0:0:0:0:7]:9464/"} {
		m := newMember(group.Described{Member: kafka.Member{ID: "x", Host: host}, Ours: true, Partitions: partitions, Page: 9464}, "x")
		if m.Page != page || !m.This || m.Foreign || m.Count() != 4 || m.Listed() != "a 0–2; b 4" {
			t.Errorf("%+v with %d: %s, want the page %s", m, m.Count(), m.Listed(), page)
		}
	}
	if m := newMember(group.Described{Member: kafka.Member{Host: "/10.0.0.7"}}, "x"); m.Page != "" || m.Listed() != "" || !m.Foreign {
		t.Errorf("%+v", m)
	}
	if got := ranges([]int32{0, 2, 3, 9}); got != "0, 2–3, 9" {
		t.Error(got)
	}
	var none Member
	if diff := cmp.Diff("", none.Listed()); diff != "" {
		t.Error(diff)
	}
}
