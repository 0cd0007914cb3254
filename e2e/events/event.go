// Package events makes measurement events together with their expected fates. An event must be stored as a known reading, or
// become a letter for a known reason. The package knows this because it makes the event, not by decoding it. It can therefore
// judge the program that decodes the event.
package events

import (
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Event is a Kafka record to be produced, and its fate.
type Event struct {
	Key   []byte
	Value []byte // Nil means a tombstone.
	Fate  Fate
}

// Fate is the expected outcome of a record. A record with neither reason nor parts is a tombstone, which is skipped.
type Fate struct {
	// Reason is the reason of the letter for the whole record. Empty means no such letter.
	Reason string
	// Parts are the elements of an array record, in order. An object record has one part.
	Parts []Part
	// Array distinguishes an array of one element from an object.
	Array bool
}

// Part is one element of a record.
type Part struct {
	// Reading must be stored. Nil means that the element becomes a letter.
	Reading *Reading
	// Reason is the reason of the letter and Value its bytes, if Reading is nil.
	Reason string
	Value  []byte
}

// Valid returns the number of measurements that must be stored.
func (f Fate) Valid() int {
	n := 0
	for _, p := range f.Parts {
		if p.Reading != nil {
			n++
		}
	}
	return n
}

// Tombstone reports whether the record must be skipped without a letter.
func (f Fate) Tombstone() bool { return f.Reason == "" && len(f.Parts) == 0 }

// Reading is a measurement as a bucket must hold it.
type Reading struct {
	Time int64 // milliseconds since 1970
	Meta any   // as sent, before the fields of an object are sorted
	// Fields are the other fields, in order. Their values are int32, int64, float64, string, bool, nil, bson.D or bson.A.
	Fields bson.D
}

// Of returns the event of one reading. Its key is its meta, so that a series stays in one partition.
func Of(r Reading) Event {
	return Event{
		Key:   inJSON(r.Meta),
		Value: inJSON(r.document()),
		Fate:  Fate{Parts: []Part{{Reading: &r}}},
	}
}

// Tombstone returns a record with a key and a null value.
func Tombstone(key string) Event { return Event{Key: []byte(key)} }

// document returns the event of a reading, with time and meta before the fields. An odd time is a number of milliseconds, an even
// one a string of RFC 3339.
func (r Reading) document() bson.D {
	var at any = r.Time
	if r.Time%2 == 0 {
		at = time.UnixMilli(r.Time).UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	return append(bson.D{{Key: "time", Value: at}, {Key: "meta", Value: r.Meta}}, r.Fields...)
}

// inJSON returns a value as JSON, keeping the order of fields and the difference between 3 and 3.0. Relaxed Extended JSON is plain
// JSON for the types of a Reading.
func inJSON(v any) []byte {
	const begin, end = `{"":`, `}` // MarshalExtJSON takes only documents
	document, err := bson.MarshalExtJSON(bson.D{{Value: v}}, false, false)
	if err != nil {
		panic(fmt.Sprintf("events: a value of a type that is not made here: %v", err))
	}
	return document[len(begin) : len(document)-len(end)]
}

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
