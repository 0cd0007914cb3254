package events

import "sync"

// Book holds the fate of every event by its value. Equal bytes have equal fates. It therefore does not matter which producer sent
// them, to which partition, in which order, or how often. Its methods may be called by several goroutines.
type Book struct {
	mu    sync.Mutex
	fates map[string]Fate
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{fates: map[string]Fate{}} }

// Add adds an event and returns it.
func (b *Book) Add(e Event) Event {
	if e.Value != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.fates[string(e.Value)] = e.Fate
	}
	return e
}

// Fate returns the fate of a record by its value. It returns false for a value that was not added. A nil value is a tombstone.
func (b *Book) Fate(value []byte) (Fate, bool) {
	if value == nil {
		return Fate{}, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok := b.fates[string(value)]
	return f, ok
}
