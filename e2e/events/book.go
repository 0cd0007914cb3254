package events

// Book remembers the fate of every event made, by its value: equal bytes have equal fates. So it does not matter which
// producer sent them, to which partition, in which order, or how often.
type Book struct {
	fates map[string]Fate
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{fates: map[string]Fate{}} }

// Add writes an event down and returns it.
func (b *Book) Add(e Event) Event {
	if e.Value != nil {
		b.fates[string(e.Value)] = e.Fate
	}
	return e
}

// Fate looks a record's value up; false: nobody made it.
func (b *Book) Fate(value []byte) (Fate, bool) {
	if value == nil {
		return Fate{}, true
	}
	f, ok := b.fates[string(value)]
	return f, ok
}
