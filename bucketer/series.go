package bucketer

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// series is one identity: what shares a normalised meta, byte by byte.
type series struct {
	key  string  // the meta's type byte and its bytes; empty for no meta
	open *bucket // the most recently used open bucket
	more *more   // nil most of the time
}

// more is what a series has while something unusual goes on.
type more struct {
	others   []*bucket // the other open buckets, of other combinations of types, the most recently used first
	rolled   rolled
	excluded []bson.ObjectID // not to be reopened until an open bucket has rolled over

	parked line    // they wait for the answer to wanted
	wanted *wanted // Nil means that nothing is asked.

	conflicts int   // in a row
	notBefore int64 // the caller's clock: left out of Prepare until then
}

// meta is the identity as a BSON value whose bytes are new.
func (s *series) meta() bson.RawValue {
	if len(s.key) == 0 {
		return bson.RawValue{}
	}
	return bson.RawValue{Type: bson.Type(s.key[0]), Value: []byte(s.key[1:])}
}

func (s *series) isParked() bool { return s.more != nil && s.more.wanted != nil }

// excludes reports whether a bucket is out of bounds for the series.
func (s *series) excludes(id bson.ObjectID) bool {
	return s.more != nil && slices.Contains(s.more.excluded, id)
}

// isOrdinary reports whether nothing unusual goes on.
func (x *more) isOrdinary() bool {
	return x == nil || len(x.others) == 0 && x.rolled.live == 0 && len(x.excluded) == 0 && x.wanted == nil && x.conflicts == 0
}

// alternate is a bucket that has rolled over by time but is not fully written: it still takes a measurement of its
// window that does not clash with it. Of several it is the bucket with the largest minimum time, then the bucket that rolled over first.
func (s *series) alternate(time, span int64, elements []byte) (*bucket, survey) {
	if s.more == nil {
		return nil, survey{}
	}
	for b := range s.more.rolled.before(time) {
		if spanExceeded(time, b.minTime, span) {
			break
		}
		if b.is(isGone) || b.action != softClose && b.action != archive {
			continue
		}
		if v := b.shape.survey(elements); v.match != clashes {
			return b, v
		}
	}
	return nil, survey{}
}

// roll adds a bucket that has rolled over.
func (x *more) roll(b *bucket) {
	x.rolled.add(b)
	b.set(isRolled)
}

// unroll takes a bucket that is gone out of those that have rolled over, if it was one.
func (x *more) unroll(b *bucket) {
	if b.is(isRolled) {
		x.rolled.drop()
	}
}
