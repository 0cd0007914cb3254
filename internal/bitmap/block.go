package bitmap

import (
	"iter"
	"math/bits"
	"slices"
)

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

func (b *block) min() uint16 {
	for v := range b.all() {
		return v
	}
	return 0
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
