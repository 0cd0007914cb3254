package main

import (
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
	// State is the worker's own word for where it stands.
	State string `json:"state"`
	// Stopped says why the partition is not read any more, Trouble what is being tried again; empty: nothing.
	Stopped string `json:"stopped,omitempty"`
	Trouble string `json:"trouble,omitempty"`
	Paused  bool   `json:"paused"`
	// Position is the next offset to read, End the log's end, Committed the committed offset; -1: not known.
	Position  int64 `json:"position"`
	End       int64 `json:"end"`
	Committed int64 `json:"committed"`
	// Lag is End - Committed in records, -1: not known.
	Lag int64 `json:"lag"`
	// FreshnessSeconds is the age of the newest durable measurement; nil: there is none yet.
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

// recentLetters remembers the last letters. It is safe for concurrent use.
type recentLetters struct {
	mu   sync.Mutex
	ring [shownLetters]LetterView
	next int // counts all letters added
}

// add remembers a letter.
func (r *recentLetters) add(l LetterView) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.next%shownLetters] = l
	r.next++
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
