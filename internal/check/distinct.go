package check

import (
	"hash/fnv"
	"math/bits"
)

// keptValues bounds how many different values of one field are kept.
const keptValues = 512

// distinct counts different values, and how often each of them comes, in bounded memory. It keeps the values whose hashes end in
// so many zero bits, and one more bit whenever there are too many of them. A value that is kept was kept from its first time on, so its
// count is exact, and the kept values are a fair sample of all: of those that come once as well as of those that come often.
type distinct struct {
	most int
	bits uint
	kept map[uint64]occurrence
	seen int // values that came, each as often as it came
}

// occurrence is what was seen of one value.
type occurrence struct {
	count int
	with  uint64 // hash of what the value first came with
	mixed bool   // it came with something else as well
}

func newDistinct(most int) *distinct { return &distinct{most: most, kept: map[uint64]occurrence{}} }

// add counts a value, and what it comes with.
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

// values is how many different values there were, about so many once there are more than are kept.
func (d *distinct) values() int { return len(d.kept) << d.bits }

// returning is the share of what came whose value came more than once.
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

// mixing is the share of the values that came more than once, which came with different things; tested: there were such values.
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

// share is a part of a whole, 0 of nothing.
func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// hashOf is the hash of some bytes, the same in each run, so that a sample is judged the same.
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
