package reader

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// segmentOf returns the segment of measurements of one source. At each path their metas must have values of one kind.
func segmentOf(o timeseries.Options, facts ...fact) bson.Raw {
	plain := make([]fact, len(facts))
	var low, high bson.RawValue
	for i, f := range facts {
		plain[i] = f
		if plain[i].meta = (bson.RawValue{}); f.meta.Type != 0 {
			plain[i].fields = append(bson.D{{Key: o.MetaField, Value: f.meta}}, f.fields...)
			low, high = extreme(-1, low, f.meta), extreme(+1, high, f.meta)
		}
	}
	var metas timeseries.Bloom
	for _, f := range facts {
		metas.Add(nil, f.meta)
	}
	var about bson.D
	if err := bson.Unmarshal(rawbson.EndDocument(metas.Append(make([]byte, 4)), 0), &about); err != nil {
		panic(err)
	}
	about = append(about, bson.E{Key: "owner", Value: "0000/0"})
	bucket := inControl(bucketOf(o, plain...), bson.E{Key: "segment", Value: about})
	for name, bound := range map[string]bson.RawValue{"min": low, "max": high} {
		var d bson.D
		if err := bson.Unmarshal(bucket.Lookup("control", name).Document(), &d); err != nil {
			panic(err)
		}
		if bound.Type != 0 {
			bucket = inControl(bucket, bson.E{Key: name, Value: set(d, o.MetaField, bound)})
		}
	}
	var d bson.D
	if err := bson.Unmarshal(bucket, &d); err != nil {
		panic(err)
	}
	return encode(append(d, bson.E{Key: "meta", Value: timeseries.SegmentMetaOf(idOf(bucket).ObjectID())}))
}

// extreme returns the smaller or larger of two values, and compares objects and arrays member by member.
func extreme(side int, a, b bson.RawValue) bson.RawValue {
	switch {
	case a.Type == 0:
		return b
	case b.Type == 0:
		return a
	case a.Type != b.Type || !rawbson.IsNested(a.Type):
		if side*timeseries.Compare(b, a) > 0 {
			return b
		}
		return a
	}
	names, of := []string{}, [2]map[string]bson.RawValue{{}, {}}
	for i, v := range []bson.RawValue{a, b} {
		for name, member := range members(v.Value) {
			of[i][name] = member
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	merged := bson.D{}
	for _, name := range names {
		merged = append(merged, bson.E{Key: name, Value: extreme(side, of[0][name], of[1][name])})
	}
	return bson.RawValue{Type: a.Type, Value: encode(merged)}
}

// sum distinguishes series in most cases.
func sum(value []byte) (n int) {
	for _, b := range value {
		n += int(b)
	}
	return n
}

// kindsOf names the kinds of a value's elements, which must agree within one segment.
func kindsOf(v bson.RawValue) string {
	if !rawbson.IsNested(v.Type) {
		return strconv.Itoa(timeseries.CanonicalType(v.Type))
	}
	text := v.Type.String()
	for name, member := range members(v.Value) {
		text += "," + name + ":" + kindsOf(member)
	}
	return text
}

// inControl returns a bucket with a field added or replaced in its control.
func inControl(bucket bson.Raw, field bson.E) bson.Raw {
	var d bson.D
	if err := bson.Unmarshal(bucket, &d); err != nil {
		panic(err)
	}
	for i := range d {
		if d[i].Key == "control" {
			d[i].Value = set(d[i].Value, field.Key, field.Value)
		}
	}
	return encode(d)
}

// until returns a segment that is shown until a time.
func until(segment bson.Raw, at time.Time) bson.Raw {
	var d bson.D
	if err := segment.Lookup("control", "segment").Unmarshal(&d); err != nil {
		panic(err)
	}
	return inControl(segment, bson.E{Key: "segment", Value: append(d, bson.E{Key: "visibleUntil", Value: bson.NewDateTimeFromTime(at)})})
}

// from returns a bucket that is shown from a time on.
func from(bucket bson.Raw, at time.Time) bson.Raw {
	return inControl(bucket, bson.E{Key: "compaction", Value: bson.D{{Key: "visibleFrom", Value: bson.NewDateTimeFromTime(at)}}})
}

// These are the stages of a compaction.
const (
	waiting   = iota // only the segments exist
	inserting        // some of the buckets exist
	inserted         // all buckets exist
	ending           // some of the segments have ended
	compacted        // all segments have ended
	forgotten        // the segments are deleted
)

const (
	// ahead is the time from the write of the segments' end until this end.
	ahead = 30 * time.Second
	// kept is how long segments stay after their end.
	kept = 5 * time.Minute
)

// compaction is some segments, with their buckets and the stage of their compaction.
type compaction struct {
	segments, buckets []bson.Raw
	stage, part       int
	at                time.Time // end of the segments and start of the buckets
}

// world is a fake whose measurements lie in buckets, and in segments that are compacted.
type world struct {
	*fake
	random      *rand.Rand
	facts       []fact
	alone       []bson.Raw // buckets that were never in segments
	compactions []*compaction
}

// newWorld returns a random world. Every compaction is in a random stage, long ago or recently.
func newWorld(random *rand.Rand, metas []bson.RawValue, about int64, n int) *world {
	w := &world{random: random, fake: &fake{segments: true, clock: time.UnixMilli(1.8e12 + random.Int64N(1000))}}
	w.facts, _ = randomFacts(random, testOptions, metas, about, n)
	parts := 1 + random.IntN(4)
	of := make([][]fact, parts+1)
	for _, f := range w.facts {
		i := random.IntN(parts + 1)
		of[i] = append(of[i], f)
	}
	w.alone = inBuckets(random, testOptions, of[parts])
	for _, list := range of[:parts] {
		w.compactions = append(w.compactions, w.compact(list))
	}
	w.show()
	return w
}

// compact makes segments of measurements and the buckets that they become.
func (w *world) compact(list []fact) *compaction {
	groups := 1 + w.random.IntN(8)
	key := func(f fact) string {
		return strconv.Itoa(int(f.source.Partition)) + "/" + kindsOf(f.meta) + "/" + strconv.Itoa(sum(f.meta.Value)%groups)
	}
	s := &compaction{
		segments: cut(w.random, testOptions, list, key, func(list []fact) bson.Raw { return segmentOf(testOptions, list...) }),
		buckets:  inBuckets(w.random, testOptions, list),
		stage:    w.random.IntN(forgotten + 1),
		part:     w.random.IntN(100),
	}
	switch s.stage {
	case compacted:
		s.at = w.clock.Add(time.Duration(w.random.IntN(5)-2) * 10 * time.Second)
	case forgotten:
		s.at = w.clock.Add(-kept - time.Minute)
	default:
		s.at = w.clock.Add(ahead)
	}
	return s
}

// show puts the present documents into the fake.
func (w *world) show() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buckets = append([]bson.Raw(nil), w.alone...)
	for _, s := range w.compactions {
		w.buckets = append(w.buckets, s.shown()...)
	}
	w.random.Shuffle(len(w.buckets), func(i, j int) { w.buckets[i], w.buckets[j] = w.buckets[j], w.buckets[i] })
}

// shown returns the documents of a compaction in its stage.
func (s *compaction) shown() (all []bson.Raw) {
	for i, segment := range s.segments {
		switch {
		case s.stage == forgotten:
		case s.stage == compacted, s.stage == ending && i%3 == s.part%3:
			all = append(all, until(segment, s.at))
		default:
			all = append(all, segment)
		}
	}
	for i, bucket := range s.buckets {
		if s.stage > inserting || s.stage == inserting && i%3 == s.part%3 {
			all = append(all, from(bucket, s.at))
		}
	}
	return all
}

// goOn advances the time and the compactions. A compaction that is late is rolled back.
func (w *world) goOn() {
	w.clock = w.clock.Add(time.Duration(w.random.IntN(8000)) * time.Millisecond)
	for _, s := range w.compactions {
		switch {
		case s.stage == forgotten:
		case s.stage == compacted:
			if w.clock.Sub(s.at) > kept {
				s.stage = forgotten
			}
		case s.stage > waiting && s.at.Sub(w.clock) < ahead/3:
			s.stage = waiting
		case w.random.IntN(2) == 0:
			if s.stage == waiting {
				s.at = w.clock.Add(ahead)
			}
			s.part = w.random.IntN(100)
			s.stage++
		}
	}
	w.show()
}
