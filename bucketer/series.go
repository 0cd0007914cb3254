package bucketer

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// series is one identity: what shares a normalised meta, byte by byte.
type series struct {
	key  string // the meta's type byte and its bytes; empty for no meta
	open *bucket
	more *more // nil most of the time
}

// more is what a series has while something unusual goes on.
type more struct {
	rolled   []*bucket       // no longer open, but something of them is not written yet
	excluded []bson.ObjectID // not to be reopened until the open bucket has rolled over

	parked rows    // they wait for the answer to wanted
	wanted *wanted // nil: nothing is asked

	conflicts int   // in a row
	notBefore int64 // the caller's clock: left out of Prepare until then
	leftOut   int64 // number of the last Prepare that left it out
}

// meta is the identity as a BSON value whose bytes are new.
func (s *series) meta() bson.RawValue { return s.metaIn([]byte(s.key)) }

// metaIn is the identity as a BSON value within a copy of the key.
func (s *series) metaIn(key []byte) bson.RawValue {
	if len(key) == 0 {
		return bson.RawValue{}
	}
	return bson.RawValue{Type: bson.Type(key[0]), Value: key[1:]}
}

func (s *series) isParked() bool { return s.more != nil && s.more.wanted != nil }

// excludes reports whether a bucket is out of bounds for the series.
func (s *series) excludes(id bson.ObjectID) bool {
	return s.more != nil && slices.Contains(s.more.excluded, id)
}

// isOrdinary tells that nothing unusual goes on.
func (x *more) isOrdinary() bool {
	return x == nil || len(x.rolled) == 0 && len(x.excluded) == 0 && x.wanted == nil && x.conflicts == 0
}

// alternate is a bucket that has rolled over by time but is not fully written: it still takes a measurement of its
// window. Of several the one with the largest minimum time.
func (s *series) alternate(time, span int64) *bucket {
	if s.more == nil {
		return nil
	}
	var best *bucket
	for _, b := range s.more.rolled {
		if (b.action == softClose || b.action == archive) && !b.is(isCleared) && b.takes(time, span) &&
			(best == nil || b.minTime > best.minTime) {
			best = b
		}
	}
	return best
}

// unroll takes a bucket out of those that have rolled over, if it is one.
func (s *series) unroll(b *bucket) {
	if s.more == nil {
		return
	}
	if at := slices.Index(s.more.rolled, b); at >= 0 {
		s.more.rolled = slices.Delete(s.more.rolled, at, at+1)
	}
}
