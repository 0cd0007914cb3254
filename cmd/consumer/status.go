package main

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// StatusView is what the status page and /api/status show, as of one moment. It holds no record contents.
type StatusView struct {
	At      time.Time `json:"at"`
	Version string    `json:"version"`
	Group   string    `json:"group"`
	// Member is this consumer's name in the group and Generation the group's present one; empty and -1: not joined.
	Member     string `json:"member"`
	Generation int32  `json:"generation"`
	// NotReady says why /readyz answers 503; empty: it does not.
	NotReady []string `json:"notReady"`
	// Degraded is what somebody should look at though the work goes on.
	Degraded   []string        `json:"degraded,omitempty"`
	Memory     MemoryView      `json:"memory"`
	Partitions []PartitionView `json:"partitions"`
	// Letters are the last ones, newest first.
	Letters []LetterView `json:"letters"`
}

// MemoryView is the memory budget, in bytes.
type MemoryView struct {
	Used   int64 `json:"usedBytes"`
	Budget int64 `json:"budgetBytes"`
	Limit  int64 `json:"limitBytes"`
}

// Percent is how much of the budget is used, 0 to 100.
func (m MemoryView) Percent() int64 {
	if m.Budget <= 0 {
		return 0
	}
	return min(100, max(0, m.Used*100/m.Budget))
}

// PartitionView is one assigned partition.
type PartitionView struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// State is the worker's own word for where it stands, Working whether records are read.
	State   string `json:"state"`
	Working bool   `json:"working"`
	// Stopped says why the partition is not read any more and StopReason the label of that, Trouble what is being tried
	// again and Retrying the same without errors, Paused why nothing is fetched for now; empty: nothing of the kind.
	Stopped    string   `json:"stopped,omitempty"`
	StopReason string   `json:"stopReason,omitempty"`
	Trouble    string   `json:"trouble,omitempty"`
	Retrying   []string `json:"-"`
	Paused     string   `json:"paused,omitempty"`
	// Position is the next offset to read, End the log's end, Committed the committed offset; nil: there is none, or it is
	// not known.
	Position  *int64 `json:"position"`
	End       *int64 `json:"end"`
	Committed *int64 `json:"committed"`
	// Lag is how many records of the log are not committed; nil: not known.
	Lag *int64 `json:"lag"`
	// FreshnessSeconds is the age of the oldest record that is not durable, 0 when there is none; nil: not known.
	FreshnessSeconds *float64 `json:"freshnessSeconds"`
	// Pending and Flushing are measurements waiting for the next flush and in the present one.
	Pending  int `json:"pending"`
	Flushing int `json:"flushing"`
	// LastFlush is when the last flush was done; zero: none yet.
	LastFlush   time.Time `json:"lastFlush,omitzero"`
	OpenBuckets int       `json:"openBuckets"`
	MemoryBytes int64     `json:"memoryBytes"`
}

// LetterView is a dead letter: where it comes from and why, never its contents.
type LetterView struct {
	At        time.Time `json:"at"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	// Part is the index in an array record, -1: the whole record.
	Part   int32  `json:"part"`
	Reason string `json:"reason"`
}

// shownLetters is how many letters the status page remembers.
const shownLetters = 10

// lettersApart is the least time between two lines about letters of one reason. It is more than what the logger holds
// back, so that no count is lost.
const lettersApart = repeatAfter + time.Second

// recentLetters remembers the last letters, and how many there were since the log said so. It is safe for concurrent use.
type recentLetters struct {
	mu     sync.Mutex
	ring   [shownLetters]LetterView
	next   int                       // counts all letters added
	untold map[string]*untoldLetters // by reason
}

// untoldLetters are those of one reason that the log has not told of.
type untoldLetters struct {
	count int
	last  LetterView
	told  time.Time // when it last did
}

// add remembers a letter.
func (r *recentLetters) add(l LetterView) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.next%shownLetters] = l
	r.next++
	if r.untold == nil {
		r.untold = map[string]*untoldLetters{}
	}
	u := r.untold[l.Reason]
	if u == nil {
		u = &untoldLetters{}
		r.untold[l.Reason] = u
	}
	u.count, u.last = u.count+1, l
}

// report writes a line for each reason that new letters have, if the last one is long enough ago.
func (r *recentLetters) report(log *slog.Logger, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(r.untold)) {
		u := r.untold[reason]
		if u.count == 0 || now.Sub(u.told) < lettersApart {
			continue
		}
		log.Warn("records became letters", "reason", reason, "letters", u.count,
			"last", fmt.Sprintf("%s/%d/%d", u.last.Topic, u.last.Partition, u.last.Offset),
			"show", "consumer dlq list --reason "+reason)
		u.count, u.told = 0, now
	}
}

// list returns the letters, newest first.
func (r *recentLetters) list() []LetterView {
	r.mu.Lock()
	defer r.mu.Unlock()
	letters := make([]LetterView, 0, shownLetters)
	for i := r.next - 1; i >= max(0, r.next-shownLetters); i-- {
		letters = append(letters, r.ring[i%shownLetters])
	}
	return letters
}
