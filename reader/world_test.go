package reader

import (
	"math/rand/v2"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// segmentOf makes the segment of measurements of one source.
func segmentOf(o timeseries.Options, facts ...fact) bson.Raw {
	low, high := int32(timeseries.MaxHash), int32(0)
	plain := make([]fact, len(facts))
	for i, f := range facts {
		hash := timeseries.SeriesHash(f.meta)
		low, high = min(low, hash), max(high, hash)
		plain[i] = f
		if plain[i].meta = (bson.RawValue{}); f.meta.Type != 0 {
			plain[i].fields = append(bson.D{{Key: o.MetaField, Value: f.meta}}, f.fields...)
		}
	}
	return inControl(bucketOf(o, plain...), bson.E{Key: "segment", Value: bson.D{{Key: "owner", Value: "0000/0"}, {Key: "low", Value: low}, {Key: "high", Value: high}}})
}

// inControl is a bucket with more in its control, or something else there.
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

// until is a segment that is shown until then.
func until(segment bson.Raw, at time.Time) bson.Raw {
	var d bson.D
	if err := segment.Lookup("control", "segment").Unmarshal(&d); err != nil {
		panic(err)
	}
	return inControl(segment, bson.E{Key: "segment", Value: append(d, bson.E{Key: "visibleUntil", Value: bson.NewDateTimeFromTime(at)})})
}

// from is a bucket that is shown from then on.
func from(bucket bson.Raw, at time.Time) bson.Raw {
	return inControl(bucket, bson.E{Key: "compaction", Value: bson.D{{Key: "visibleFrom", Value: bson.NewDateTimeFromTime(at)}}})
}

// The stages of a compaction.
const (
	waiting   = iota // only the segments are there
	inserting        // some of the buckets are there
	inserted         // all of them are
	ending           // some of the segments have an end
	compacted        // all of them have
	forgotten        // the segments are deleted
)

const (
	// The end of segments lies so far in the future when it is written.
	ahead = 30 * time.Second
	// kept is how long segments stay after their end.
	kept = 5 * time.Minute
)

// compaction is some segments, and what becomes of them.
type compaction struct {
	segments, buckets []bson.Raw
	stage, part       int
	at                time.Time // end of the segments and beginning of the buckets
}

// world is a fake whose measurements lie in buckets and in segments, which are compacted.
type world struct {
	*fake
	random      *rand.Rand
	facts       []fact
	alone       []bson.Raw // buckets that were never in segments
	compactions []*compaction
}

// newWorld makes a random one: every compaction stands somewhere, long ago or just now.
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
	width := int32(1) << (9 + w.random.IntN(8))
	key := func(f fact) string {
		return strconv.Itoa(int(f.source.Partition)) + "/" + strconv.Itoa(int(timeseries.SeriesHash(f.meta)/width))
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

// show puts into the fake what there is.
func (w *world) show() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buckets = append([]bson.Raw(nil), w.alone...)
	for _, s := range w.compactions {
		w.buckets = append(w.buckets, s.shown()...)
	}
	w.random.Shuffle(len(w.buckets), func(i, j int) { w.buckets[i], w.buckets[j] = w.buckets[j], w.buckets[i] })
}

// shown are the documents of a compaction in its stage.
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

// goOn lets some time pass, and compactions go on: one that is late is rolled back.
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
