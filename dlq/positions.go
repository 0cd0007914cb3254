package dlq

import (
	"hash/maphash"

	"waterwheel/internal/bitmap"
	"waterwheel/internal/record"
)

// keyDigests is the number of distinct digests of keys. Anyone who may write to the dead-letter topic can write a letter with
// another key at the same position. Only with a probability of one in keyDigests does it count as the same letter. More digests
// would make sparse bitmaps.
const keyDigests = 1 << 12

// Positions is a set of positions of letters. It takes one bit for each record, so that millions of letters fit.
type Positions struct {
	seed    maphash.Seed // random, so that nobody can choose keys with the same digest
	origins map[origin]*marked
}

// origin is a source partition, and a digest of the record's key. The id is zero in letters of Kafka Connect.
type origin struct {
	topic     string
	id        [16]byte
	partition int32
	key       uint16
}

// marked are the positions of one source partition.
type marked struct {
	records bitmap.Set            // whole records, by offset
	parts   map[int64]*bitmap.Set // elements of array records, by offset
}

// NewPositions returns an empty set.
func NewPositions() Positions {
	return Positions{seed: maphash.MakeSeed(), origins: map[origin]*marked{}}
}

// digest returns different values for a null key and an empty one, which are different in Kafka.
func (p Positions) digest(key []byte) uint16 {
	if key == nil {
		return 0
	}
	return uint16(1 + maphash.Bytes(p.seed, key)%(keyDigests-1))
}

// bitmap returns the bitmap that holds the letter's bit, and the number of that bit.
func (p Positions) bitmap(l *record.Letter) (*bitmap.Set, uint64) {
	o := origin{topic: l.Topic, id: l.TopicID, partition: l.Number, key: p.digest(l.Key)}
	m := p.origins[o]
	if m == nil {
		m = &marked{parts: map[int64]*bitmap.Set{}}
		p.origins[o] = m
	}
	if l.Part == record.WholeRecord {
		return &m.records, uint64(l.Offset)
	}
	parts := m.parts[l.Offset]
	if parts == nil {
		parts = &bitmap.Set{}
		m.parts[l.Offset] = parts
	}
	return parts, uint64(l.Part)
}

// Add reports whether the letter's position was not in the set before.
func (p Positions) Add(l *record.Letter) bool {
	set, bit := p.bitmap(l)
	return set.Add(bit)
}

// Has reports whether the letter's position is in the set.
func (p Positions) Has(l *record.Letter) bool {
	set, bit := p.bitmap(l)
	return set.Has(bit)
}
