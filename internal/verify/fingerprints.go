package verify

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// fingerprint is a pair of 64-bit hashes of a measurement: of its meta, and of its time and fields.
type fingerprint struct{ meta, values uint64 }

// fingerprints are the fingerprints of the measurements of a window. Buckets come in another order than records. With
// fingerprints they can be compared without keeping either in memory.
type fingerprints struct {
	start int64
	whole []fingerprint // those of part 0, by offset − start
	parts []partFingerprint
}

type partFingerprint struct {
	position timeseries.Position
	of       fingerprint
}

// add adds the fingerprint of a measurement. Measurements come in the order of their positions.
func (f *fingerprints) add(p timeseries.Position, of fingerprint) {
	if p.Part != 0 {
		f.parts = append(f.parts, partFingerprint{p, of})
		return
	}
	at := int(p.Offset - f.start)
	if grow := at + 1 - len(f.whole); grow > 0 {
		f.whole = slices.Grow(f.whole, grow)[:at+1]
	}
	f.whole[at] = of
}

// of returns the fingerprint of a position that was added.
func (f *fingerprints) of(p timeseries.Position) fingerprint {
	if p.Part == 0 {
		return f.whole[p.Offset-f.start]
	}
	at, _ := slices.BinarySearchFunc(f.parts, p, func(e partFingerprint, p timeseries.Position) int {
		return e.position.Compare(p)
	})
	return f.parts[at].of
}

// hasher computes fingerprints of measurements. They do not depend on the order of fields, which differs in columns. Each hasher
// has another seed, so that two runs do not miss the same change.
type hasher struct {
	seed maphash.Seed
	head []byte
}

func newHasher() *hasher { return &hasher{seed: maphash.MakeSeed()} }

func (h *hasher) sum(time int64, meta bson.RawValue, elements []byte) fingerprint {
	h.head = append(append(h.head[:0], byte(meta.Type)), meta.Value...)
	of := fingerprint{meta: maphash.Bytes(h.seed, h.head)}
	h.head = binary.LittleEndian.AppendUint64(h.head[:0], uint64(time))
	of.values = maphash.Bytes(h.seed, h.head)
	for e := range elementsIn(elements) {
		of.values += maphash.Bytes(h.seed, e.whole)
	}
	return of
}
