package bucketer

import (
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// isLarge is the statistic of a bucket that stays open although it is too large.
const isLarge = "numBucketsKeptOpenDueToLargeMeasurements"

// decide implements the catalog's table of decisions, from the list of readings, for a reading of the bucket's kinds. It returns
// an action with its statistic.
func (m *model) decide(b *modelBucket, r reading) (action, string) {
	o := &m.options
	span := o.Collection.Span()
	if r.time-b.minTime >= span {
		return softClose, "numBucketsClosedDueToTimeForward"
	}
	if r.time < b.minTime {
		return archive, "numBucketsArchivedDueToTimeBackward"
	}
	if len(b.readings) == int(o.Limits.MaxCount) {
		return hardClose, "numBucketsClosedDueToCount"
	}
	effective, absolute := o.Limits.Sizes(int64(m.active()))
	with := append(slices.Clip(b.readings), r)
	size, limit, uncapped, why := b.size(o, with), effective, o.Limits.MaxBytes, ""
	if len(b.readings) < int(o.Limits.MinCount) {
		limit, uncapped = absolute, timeseries.LargeBytes
		if size > int(effective) {
			why = isLarge
		}
	}
	switch {
	case size <= int(limit):
	case limit == uncapped:
		return hardClose, "numBucketsClosedDueToSize"
	default:
		return hardClose, "numBucketsClosedDueToCachePressure"
	}
	return stay, why
}

// haveOneSchema reports whether no path has values of two canonical types.
func haveOneSchema(readings []reading) bool {
	all := known{}
	for _, r := range readings {
		for _, e := range r.fields {
			if !all.learn(e.Key, e.Value) {
				return false
			}
		}
	}
	return true
}

// known holds the types seen under the names of an object, or at the positions of an array.
type known map[string]*knownType

type knownType struct {
	canonical int
	within    known
}

// learn adds the canonical types of v and of all values within it. It returns false if a different type is known.
func (k known) learn(name string, v any) bool {
	canonical := timeseries.CanonicalType(kindOf(v))
	have := k[name]
	if have == nil {
		have = &knownType{canonical: canonical, within: known{}}
		k[name] = have
	}
	if have.canonical != canonical {
		return false
	}
	switch v := v.(type) {
	case bson.D:
		for _, e := range v {
			if !have.within.learn(e.Key, e.Value) {
				return false
			}
		}
	case bson.A:
		for i, e := range v {
			if !have.within.learn(strconv.Itoa(i), e) {
				return false
			}
		}
	}
	return true
}

func (m *model) active() int {
	n := 0
	for _, b := range m.buckets {
		if b.inMemory || b.archived {
			n++
		}
	}
	return n
}

// size returns the accounted bytes of the bucket if it held these readings.
func (b *modelBucket) size(o *Options, readings []reading) int {
	names := map[string]bool{}
	size := 0
	for i, r := range readings {
		size += added(o, names, i, r)
		if i+1 == b.reopenedAt {
			size = b.reopenedSize
		}
	}
	return size
}

// added returns the number of bytes that a reading adds to the accounted bytes of a bucket with columns names and count readings.
// It adds the names of the reading to names.
func added(o *Options, names map[string]bool, count int, r reading) int {
	digits := 0
	if count > 0 {
		digits = len(strconv.Itoa(count))
	}
	size := 0
	account := func(name string, value int) {
		if !names[name] {
			names[name] = true
			size += 12 + len(name) + 2*(1+len(name)+1+value)
		}
		size += 1 + value + digits + 1
	}
	account(o.Collection.TimeField, 8)
	for _, e := range r.fields {
		account(e.Key, len(rawOf(e.Value).Value))
	}
	return size
}
