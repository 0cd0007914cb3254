package verify

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// fingerprints are a hash of 64 bits of each measurement of a window, so that buckets, which come in another order than
// records, are compared without keeping either.
type fingerprints struct {
	start int64
	whole []uint64 // by offset − start, of part 0
	parts []partFingerprint
}

type partFingerprint struct {
	position timeseries.Position
	sum      uint64
}

// add takes the fingerprint of a measurement up; they come in the order of their positions.
func (f *fingerprints) add(p timeseries.Position, sum uint64) {
	if p.Part != 0 {
		f.parts = append(f.parts, partFingerprint{p, sum})
		return
	}
	at := int(p.Offset - f.start)
	if grow := at + 1 - len(f.whole); grow > 0 {
		f.whole = slices.Grow(f.whole, grow)[:at+1]
	}
	f.whole[at] = sum
}

// of returns the fingerprint of a position that was added.
func (f *fingerprints) of(p timeseries.Position) uint64 {
	if p.Part == 0 {
		return f.whole[p.Offset-f.start]
	}
	at, _ := slices.BinarySearchFunc(f.parts, p, func(e partFingerprint, p timeseries.Position) int {
		return e.position.Compare(p)
	})
	return f.parts[at].sum
}

// hasher makes fingerprints of measurements. The order of their fields does not count: that of columns is another. The
// seed is another one for each hasher: two runs do not miss the same change.
type hasher struct {
	seed maphash.Seed
	head []byte
}

func newHasher() *hasher { return &hasher{seed: maphash.MakeSeed()} }

func (h *hasher) sum(time int64, meta bson.RawValue, elements []byte) uint64 {
	h.head = binary.LittleEndian.AppendUint64(h.head[:0], uint64(time))
	h.head = append(append(h.head, byte(meta.Type)), meta.Value...)
	sum := maphash.Bytes(h.seed, h.head)
	for e := range elementsIn(elements) {
		sum += maphash.Bytes(h.seed, e.whole)
	}
	return sum
}
