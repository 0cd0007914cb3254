package events

import "sync"

// Book remembers the fate of every event made, by its value: equal bytes have equal fates. So it does not matter which
// producer sent them, to which partition, in which order, or how often. It is safe for concurrent use.
type Book struct {
	mu    sync.Mutex
	fates map[string]Fate
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{fates: map[string]Fate{}} }

// Add writes an event down and returns it.
func (b *Book) Add(e Event) Event {
	if e.Value != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.fates[string(e.Value)] = e.Fate
	}
	return e
}

// Fate looks a record's value up. False means that nobody made it.
func (b *Book) Fate(value []byte) (Fate, bool) {
	if value == nil {
		return Fate{}, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok := b.fates[string(value)]
	return f, ok
}
