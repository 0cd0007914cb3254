// Package bitmap has a set of 64-bit numbers that takes about one bit for each number where numbers lie close together. Its numbers
// are offsets of Kafka records, and parts of records.
//
// A library of compressed bitmaps does more (runs, serialization, ranks). But its module has 138 MB of test data, which every first
// build would download. With the operations needed here it is no faster.
package bitmap

import (
	"iter"
	"maps"
	"math/bits"
	"slices"
)

// Set is a set of 64-bit numbers. The zero value is empty and ready for use. Several goroutines may read a set at the same time if
// none changes it.
type Set struct {
	blocks map[uint64]*block // by the upper bits of their numbers; none is empty
	n      int
	bytes  int64

	recent    *block // the block of the last Add, nil at first
	recentKey uint64
}

// Add adds a number. False means that it was there already.
func (s *Set) Add(v uint64) bool {
	key := v >> blockBits
	b := s.recent
	if b == nil || s.recentKey != key {
		b = s.block(key)
		s.recent, s.recentKey = b, key
	}
	before := b.bytes()
	if !b.add(uint16(v)) {
		return false
	}
	s.n++
	s.bytes += b.bytes() - before
	return true
}

// block returns the block of a key. It makes the block if there is none.
func (s *Set) block(key uint64) *block {
	b := s.blocks[key]
	if b == nil {
		if s.blocks == nil {
			s.blocks = map[uint64]*block{}
		}
		b = &block{}
		s.blocks[key] = b
		s.bytes += blockBytes
	}
	return b
}

// Has reports whether a number is in the set.
func (s *Set) Has(v uint64) bool {
	b := s.blocks[v>>blockBits]
	return b != nil && b.has(uint16(v))
}

// Len returns the number of numbers.
func (s *Set) Len() int { return s.n }

// Bytes estimates the memory of the set in bytes.
func (s *Set) Bytes() int64 { return s.bytes }

// Min returns the smallest number. False means that the set is empty.
func (s *Set) Min() (uint64, bool) {
	for v := range s.All() {
		return v, true
	}
	return 0, false
}

// Max returns the largest number. False means that the set is empty.
func (s *Set) Max() (uint64, bool) {
	if s.n == 0 {
		return 0, false
	}
	key := slices.Max(slices.Collect(maps.Keys(s.blocks)))
	return key<<blockBits | uint64(s.blocks[key].max()), true
}

// All returns the numbers in rising order.
func (s *Set) All() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, key := range slices.Sorted(maps.Keys(s.blocks)) {
			for low := range s.blocks[key].all() {
				if !yield(key<<blockBits | uint64(low)) {
					return
				}
			}
		}
	}
}

// RemoveFrom removes this number and all larger ones.
func (s *Set) RemoveFrom(v uint64) {
	rest := Set{}
	for key, b := range s.blocks { // A map never becomes smaller, so the rest gets another.
		switch last := v >> blockBits; {
		case key < last:
			rest.put(key, b)
		case key == last:
			rest.put(key, b.below(uint16(v)))
		}
	}
	*s = rest
}

// put sets the block of a key that has none. Nil is an empty block.
func (s *Set) put(key uint64, b *block) {
	if b == nil {
		return
	}
	if s.blocks == nil {
		s.blocks = map[uint64]*block{}
	}
	s.blocks[key] = b
	s.n += b.n
	s.bytes += blockBytes + b.bytes()
}

// Union returns the numbers that are in either set.
func Union(s, t *Set) *Set {
	return merged(s, t, func(a, b uint64) uint64 { return a | b })
}

// Difference returns the numbers of s that are not in t.
func Difference(s, t *Set) *Set {
	return merged(s, t, func(a, b uint64) uint64 { return a &^ b })
}

// Intersection returns the numbers that are in both sets.
func Intersection(s, t *Set) *Set {
	return merged(s, t, func(a, b uint64) uint64 { return a & b })
}

// merged returns a set of the bits that an operation makes of the bits of two sets. Of two bits that are not set it makes none.
func merged(s, t *Set, operation func(a, b uint64) uint64) *Set {
	all := &Set{}
	for key, b := range s.blocks {
		all.put(key, mergedBlocks(b, t.blocks[key], operation))
	}
	for key, b := range t.blocks {
		if s.blocks[key] == nil {
			all.put(key, mergedBlocks(nil, b, operation))
		}
	}
	return all
}

// mergedBlocks returns a new block. Nil stands for an empty one.
func mergedBlocks(b, c *block, operation func(a, b uint64) uint64) *block {
	all, others := b.expanded(), c.expanded()
	for i := range all {
		all[i] = operation(all[i], others[i])
	}
	return packed(all)
}

const (
	blockBits = 16
	words     = 1 << blockBits / 64
	// maxList is the largest number of numbers in a list. A list of more takes more memory than the bits.
	maxList = 1 << blockBits / 16
	// blockBytes is the memory of a block and of its place in the map, in bytes, without the numbers.
	blockBytes = 96
)

// block is a set of the lower 16 bits of numbers whose other bits are equal. Few numbers are a sorted list, many are bits.
type block struct {
	n    int
	list []uint16       // nil if there are bits
	bits *[words]uint64 // nil if there is a list
}

// bytes returns the memory of the numbers in bytes.
func (b *block) bytes() int64 {
	if b.bits != nil {
		return 8 * words
	}
	return 2 * int64(cap(b.list))
}

func (b *block) has(v uint16) bool {
	if b.bits != nil {
		return b.bits[v/64]&(1<<(v%64)) != 0
	}
	_, found := slices.BinarySearch(b.list, v)
	return found
}

// add adds a number. False means that it was there already.
func (b *block) add(v uint16) bool {
	if b.bits == nil {
		at := len(b.list)
		if at > 0 && v <= b.list[at-1] { // most numbers come in rising order
			var found bool
			if at, found = slices.BinarySearch(b.list, v); found {
				return false
			}
		}
		if b.n < maxList {
			b.list = slices.Insert(b.list, at, v)
			b.n++
			return true
		}
		b.bits, b.list = b.expanded(), nil
	}
	word, bit := &b.bits[v/64], uint64(1)<<(v%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	b.n++
	return true
}

func (b *block) max() uint16 {
	if b.bits == nil {
		return b.list[len(b.list)-1]
	}
	i := words - 1
	for b.bits[i] == 0 {
		i--
	}
	return uint16(i*64 + bits.Len64(b.bits[i]) - 1)
}

// all returns the numbers in rising order.
func (b *block) all() iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		for _, v := range b.list {
			if !yield(v) {
				return
			}
		}
		if b.bits == nil {
			return
		}
		for i, word := range b.bits {
			for ; word != 0; word &= word - 1 {
				if !yield(uint16(i*64 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}

// below returns the numbers that are smaller than v. Nil means that there are none.
func (b *block) below(v uint16) *block {
	rest := b.expanded()
	rest[v/64] &= 1<<(v%64) - 1
	clear(rest[v/64+1:])
	return packed(rest)
}

// expanded returns a copy of the numbers as bits.
func (b *block) expanded() *[words]uint64 {
	all := &[words]uint64{}
	if b == nil {
		return all
	}
	if b.bits != nil {
		*all = *b.bits
	}
	for _, v := range b.list {
		all[v/64] |= 1 << (v % 64)
	}
	return all
}

// packed returns a block of bits, which belong to the block then. Nil means that no bit is set.
func packed(all *[words]uint64) *block {
	b := &block{bits: all}
	for _, word := range all {
		b.n += bits.OnesCount64(word)
	}
	if b.n == 0 {
		return nil
	}
	if b.n <= maxList {
		b.list = slices.AppendSeq(make([]uint16, 0, b.n), b.all())
		b.bits = nil
	}
	return b
}
