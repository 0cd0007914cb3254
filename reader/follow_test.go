package reader

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// consumer stores into a fake as a consumer does. It runs flush after flush of each partition, with the writes of a flush in any
// order and at different moments. Some flushes are interrupted, and the next owner stores the rest.
type consumer struct {
	*fake
	random *rand.Rand
	open   map[string][]fact // content of the bucket that may grow, by series and partition
	at     map[string]int    // index of that bucket
	next   [3]int64          // next offset of each partition
	rest   [3][]fact         // rest of an interrupted flush
	live   [3][]liveSegment  // segments to compact, if the time series has segments
}

// liveSegment is a segment to compact.
type liveSegment struct {
	at    int // index of the segment
	facts []fact
}

func newConsumer(seed uint64) *consumer {
	c := &consumer{fake: &fake{}, random: rand.New(rand.NewPCG(seed, 6)), open: map[string][]fact{}, at: map[string]int{}}
	for partition := range c.next {
		c.partitions = append(c.partitions, encode(bson.D{
			{Key: "_id", Value: fmt.Sprintf("cluster/events/%d", partition)},
			{Key: "topicId", Value: bson.Binary{Subtype: 4, Data: append([]byte{1}, make([]byte, 15)...)}},
		}))
	}
	return c
}

// flush stores measurements of a partition, and pauses between its writes. It returns the stored ones.
func (c *consumer) flush(partition int) (stored []fact) {
	batch := c.rest[partition]
	c.rest[partition] = nil
	for range 1 + c.random.IntN(20) {
		batch = append(batch, fact{
			meta: stringMetas(4)[c.random.IntN(4)], time: time.Now().UnixMilli(), fields: bson.D{{Key: "x", Value: 1.5}},
			source: timeseries.Source{Topic: "events", TopicID: [16]byte{1}, Partition: int32(partition)},
			at:     timeseries.Position{Offset: c.next[partition]},
		})
		c.next[partition] += 1 + c.random.Int64N(3)
	}
	writes := map[string][]fact{}
	for _, f := range batch {
		key := fmt.Sprint(partition, f.meta)
		if c.segments && f.at.Offset%3 > 0 {
			key = fmt.Sprint(inSegment, f.at.Offset%2)
		}
		writes[key] = append(writes[key], f)
	}
	cut := c.random.IntN(5) == 0
	for key, add := range writes { // in any order
		if cut && c.random.IntN(2) == 0 {
			c.rest[partition] = append(c.rest[partition], add...)
			continue
		}
		c.write(key, add)
		stored = append(stored, add...)
		time.Sleep(time.Duration(c.random.IntN(3000)) * time.Millisecond)
	}
	slices.SortFunc(c.rest[partition], fact.compareOffsets)
	return stored
}

func (f fact) compareOffsets(g fact) int { return f.at.Compare(g.at) }

// inSegment is the prefix of the keys of segment writes.
const inSegment = "segment"

// compact compacts the segments of a partition into buckets, in steps, some of which are rolled back first. Ended segments are
// deleted soon.
func (c *consumer) compact(partition int) {
	live := c.live[partition]
	c.live[partition] = nil
	change := func(do func()) {
		c.mu.Lock()
		do()
		c.mu.Unlock()
		time.Sleep(time.Duration(c.random.IntN(3000)) * time.Millisecond)
	}
	var list []fact
	for _, segment := range live {
		list = append(list, segment.facts...)
	}
	remove := func(i int) { c.buckets[i] = encode(bson.D{{Key: "_id", Value: i}}) }
	for rolledBack := c.random.IntN(3) == 0; ; rolledBack = false {
		first, at := len(c.buckets), time.Now().Add(ahead)
		change(func() {
			for _, bucket := range inBuckets(c.random, testOptions, list) {
				c.buckets = append(c.buckets, from(bucket, at))
			}
		})
		last := len(c.buckets)
		if !rolledBack {
			change(func() {
				for _, segment := range live {
					c.buckets[segment.at] = until(c.buckets[segment.at], at)
				}
			})
			break
		}
		change(func() {
			for i := first; i < last; i++ {
				remove(i)
			}
		})
	}
	change(func() {
		for _, segment := range live {
			remove(segment.at)
		}
	})
}

// write stores a segment or a new bucket, or extends the bucket of the series.
func (c *consumer) write(key string, add []fact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasPrefix(key, inSegment) {
		partition := add[0].source.Partition
		c.live[partition] = append(c.live[partition], liveSegment{len(c.buckets), add})
		c.buckets = append(c.buckets, segmentOf(testOptions, add...))
		return
	}
	if len(c.open[key]) > 30 || c.random.IntN(6) == 0 {
		delete(c.open, key)
	}
	if len(c.open[key]) == 0 {
		c.at[key] = len(c.buckets)
		c.buckets = append(c.buckets, nil)
	}
	i := c.at[key]
	c.open[key] = append(c.open[key], add...)
	grown := bucketOf(testOptions, c.open[key]...)
	if c.buckets[i] != nil { // the bucket keeps its _id
		id := idOf(c.buckets[i])
		copy(grown[4+1+len("_id")+1:], id.Value)
	}
	c.buckets[i] = grown
}

// TestFollowShowsEachMeasurementOnce has writes in any order, growing buckets, interrupted flushes, and failures in between.
func TestFollowShowsEachMeasurementOnce(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			c := newConsumer(seed)
			for partition := range c.next {
				c.flush(partition)
				for len(c.rest[partition]) > 0 { // the start is between two flushes
					c.flush(partition)
				}
			}
			failing := rand.New(rand.NewPCG(seed, 7))
			c.fail = func() error {
				if failing.IntN(200) == 0 {
					return io.ErrUnexpectedEOF
				}
				return nil
			}
			s := newSeries("s", "db.s.buckets", testOptions, c.fake)
			ctx, cancel := context.WithCancel(t.Context())
			var got []string
			var failure error
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				got, failure = facts(s.Follow(ctx, Query{}, 5*time.Second))
			}()
			time.Sleep(20 * time.Second)
			var want []string
			for i := range 60 {
				for _, f := range c.flush(i % len(c.next)) {
					want = append(want, f.String())
				}
				if c.random.IntN(20) == 0 {
					time.Sleep(10 * time.Minute) // no consumer owns the partitions
				}
			}
			time.Sleep(time.Minute)
			cancel()
			<-ended
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" || failure != nil {
				t.Fatalf("seed %d: %v\n%s", seed, failure, diff)
			}
		})
	}
}

// TestFollowShowsOnceWhatIsCompacted covers measurements in a segment and then in a bucket, whichever is seen.
func TestFollowShowsOnceWhatIsCompacted(t *testing.T) {
	all := selections()
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			c := newConsumer(seed)
			c.segments, c.plain = true, seed%4 == 3
			flush := func(partition int) (stored []fact) {
				if stored = c.flush(partition); c.random.IntN(4) == 0 {
					c.compact(partition)
				}
				return stored
			}
			for partition := range c.next {
				flush(partition)
				for len(c.rest[partition]) > 0 {
					flush(partition)
				}
			}
			selection := all[c.random.IntN(len(all))]
			if seed < 3 {
				selection = all[0]
			}
			s := newSeries("s", "db.s.buckets", testOptions, c.fake)
			ctx, cancel := context.WithCancel(t.Context())
			var got, want []string
			var failure error
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				got, failure = facts(s.Follow(ctx, Query{Meta: selection.filter}, 5*time.Second))
			}()
			time.Sleep(20 * time.Second)
			for i := range 60 {
				for _, f := range flush(i % len(c.next)) {
					if selection.takes(f.meta) {
						want = append(want, f.String())
					}
				}
			}
			time.Sleep(time.Minute)
			cancel()
			<-ended
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" || failure != nil {
				t.Fatalf("seed %d, %s: %v\n%s", seed, selection.name, failure, diff)
			}
		})
	}
}

// TestFollowsARareSeries checks that the number of buckets read does not grow with the other series, and that none of its
// measurements is lost.
func TestFollowsARareSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsumer(1)
		c.partitions = c.partitions[:1]
		store := func(sensor string) fact {
			f := fact{
				meta: valueOf(sensor), time: time.Now().UnixMilli(), fields: bson.D{{Key: "x", Value: 1.5}},
				source: timeseries.Source{Topic: "events", TopicID: [16]byte{1}}, at: timeseries.Position{Offset: c.next[0]},
			}
			c.next[0]++
			c.write(fmt.Sprint(sensor, c.next[0]), []fact{f})
			return f
		}
		s := newSeries("s", "db.s.buckets", testOptions, c.fake)
		ctx, cancel := context.WithCancel(t.Context())
		var got, want []string
		var failure error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			got, failure = facts(s.Follow(ctx, Query{Meta: bson.D{{Key: "m", Value: "rare"}}}, time.Second))
		}()
		time.Sleep(time.Second / 2)
		for i := range 400 {
			if i%150 == 75 {
				want = append(want, store("rare").String())
			}
			store("often")
			time.Sleep(time.Second)
		}
		cancel()
		<-ended
		if diff := cmp.Diff(want, got); diff != "" || failure != nil {
			t.Error(failure, diff)
		}
		// The last look for changes began at what was stored a minute before.
		behind := int64(-1)
		for _, r := range c.requests {
			if clauses, ok := r.filter[0].Value.(bson.A); ok && r.filter[0].Key == "$and" {
				source := clauses[0].(bson.D)
				behind = source[len(source)-1].Value.(bson.D)[0].Value.(int64)
			}
		}
		if behind < c.next[0]-70 {
			t.Errorf("it still looks through all from the offset %d on, of %d", behind, c.next[0])
		}
	})
}
