package check

import (
	"hash/fnv"
	"math/bits"
)

// keptValues bounds how many distinct values of one field are kept.
const keptValues = 512

// distinct counts distinct values, and how often each of them occurs, in bounded memory. It keeps the values whose hashes end in
// at least bits zero bits. Whenever there are too many, it increases bits. A kept value was kept from its first occurrence on, so
// its count is exact. The kept values are a fair sample of all, whether they are rare or frequent.
type distinct struct {
	most int
	bits uint
	kept map[uint64]occurrence
	seen int // number of occurrences of all values
}

// occurrence describes one value.
type occurrence struct {
	count int
	with  uint64 // hash of what first came with the value
	mixed bool   // it came with something else as well
}

func newDistinct(most int) *distinct { return &distinct{most: most, kept: map[uint64]occurrence{}} }

// add counts a value. with is the hash of what it comes with.
func (d *distinct) add(hash, with uint64) {
	d.seen++
	if uint(bits.TrailingZeros64(hash)) < d.bits {
		return
	}
	o, known := d.kept[hash]
	if !known {
		o.with = with
	}
	o.count++
	o.mixed = o.mixed || o.with != with
	d.kept[hash] = o
	for len(d.kept) > d.most {
		d.bits++
		for hash := range d.kept {
			if uint(bits.TrailingZeros64(hash)) < d.bits {
				delete(d.kept, hash)
			}
		}
	}
}

// values returns the number of distinct values. It is an estimate once there are more than are kept.
func (d *distinct) values() int { return len(d.kept) << d.bits }

// returning returns the share of occurrences whose value occurred more than once.
func (d *distinct) returning() float64 {
	all, again := 0, 0
	for _, o := range d.kept {
		all += o.count
		if o.count > 1 {
			again += o.count
		}
	}
	return share(again, all)
}

// mixing returns the share of repeated values that came with different things. tested reports that there were repeated values.
func (d *distinct) mixing() (mixed float64, tested bool) {
	again, several := 0, 0
	for _, o := range d.kept {
		if o.count > 1 {
			again++
		}
		if o.mixed {
			several++
		}
	}
	return share(several, again), again > 0
}

// share returns part of whole as a fraction. It is 0 if whole is 0.
func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// hashOf returns the hash of some bytes. It is the same in each run, so that a sample always gets the same judgement.
func hashOf(parts ...[]byte) uint64 {
	h := fnv.New64a()
	for _, part := range parts {
		_, _ = h.Write(part) // never fails
	}
	x := h.Sum64()
	for range 2 { // FNV's low bits are weak
		x ^= x >> 33
		x *= 0xff51afd7ed558ccd
	}
	return x ^ x>>33
}
