package bucketer

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// series is the set of measurements with the same normalised meta, compared byte by byte.
type series struct {
	key  string  // the meta's type byte and its bytes; empty without a meta
	open *bucket // the most recently used open bucket
	more *more   // nil most of the time
}

// more is the state that only unusual situations of a series need.
type more struct {
	others   []*bucket // the other open buckets, which have other combinations of types, the most recently used first
	rolled   rolled
	excluded []bson.ObjectID // not to be reopened before an open bucket has rolled over

	parked line    // measurements that wait for the answer to wanted
	wanted *wanted // Nil means that there is no question.

	conflicts int   // consecutive ones
	notBefore int64 // by the caller's clock: Prepare leaves the series out until then
}

// meta returns the meta as a BSON value with bytes of its own.
func (s *series) meta() bson.RawValue {
	if len(s.key) == 0 {
		return bson.RawValue{}
	}
	return bson.RawValue{Type: bson.Type(s.key[0]), Value: []byte(s.key[1:])}
}

func (s *series) isParked() bool { return s.more != nil && s.more.wanted != nil }

// excludes reports whether the series must not reopen a bucket.
func (s *series) excludes(id bson.ObjectID) bool {
	return s.more != nil && slices.Contains(s.more.excluded, id)
}

// isOrdinary reports whether the series needs none of this state.
func (x *more) isOrdinary() bool {
	return x == nil || len(x.others) == 0 && x.rolled.live == 0 && len(x.excluded) == 0 && x.wanted == nil && x.conflicts == 0
}

// alternate returns a bucket that has rolled over by time, is not completely written, and does not clash with a measurement of
// its window. Among several it prefers the largest minimum time, and then the bucket that rolled over first.
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

// unroll accounts for a bucket that is gone, if it had rolled over.
func (x *more) unroll(b *bucket) {
	if b.is(isRolled) {
		x.rolled.drop()
	}
}
