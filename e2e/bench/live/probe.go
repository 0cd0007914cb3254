package live

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	// Records of all probes a second: a twentieth of the others, within these bounds. They are so few that a flush adds them to
	// the bucket there is.
	leastProbes = 1.0
	mostProbes  = 8.0
	probesShare = 0.05
	// lookEvery is the time between two looks; freshness is known this exactly. Looks take a tenth of the time at most.
	lookEvery  = 25 * time.Millisecond
	looksShare = 10
)

// probe is a series of one partition that is watched.
type probe struct {
	name      string
	partition int32
	bucket    any   // the _id of its newest bucket; nil: not seen yet
	seen      int64 // time of its newest measurement that is stored, in milliseconds
}

// probePrefix begins the names of probes, unlike those of other series.
const probePrefix = "probe-"

// probes writes records of a series in each partition, and watches when they are stored.
type probes struct {
	producer *producer
	buckets  *mongo.Collection
	all      []*probe

	mu      sync.Mutex
	waiting map[*probe][]int64 // times of records that were written and not seen, in their order
	samples []time.Duration
	record  bool
}

func newProbes(p *producer, buckets *mongo.Collection, partitions int) *probes {
	w := &probes{producer: p, buckets: buckets, waiting: map[*probe][]int64{}}
	for i := range partitions {
		w.all = append(w.all, &probe{name: probePrefix + strconv.Itoa(i), partition: int32(i)})
	}
	return w
}

// write writes records of all probes, one after the other so that they are spread over the time, until the context ends.
func (w *probes) write(ctx context.Context) {
	rate := min(mostProbes, max(leastProbes, probesShare*w.producer.total))
	ticks := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticks.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		p, now := w.all[n%len(w.all)], time.Now()
		value := fmt.Appendf(nil, `{"time":%q,"meta":{"sensor":%q},"temperature":%d}`,
			now.UTC().Format("2006-01-02T15:04:05.000Z07:00"), p.name, n%100)
		w.mu.Lock()
		if w.record {
			w.waiting[p] = append(w.waiting[p], now.UnixMilli())
		}
		w.mu.Unlock()
		w.producer.send(ctx, p.partition, value)
	}
}

// watch looks until the context ends: at the newest buckets by _id, which costs next to nothing, and now and then for newer ones.
func (w *probes) watch(ctx context.Context) {
	next := time.Now() // when newer ones are looked for
	for ctx.Err() == nil {
		begun, filter := time.Now(), w.known()
		search := begun.After(next) || filter == nil
		if search {
			filter = w.named()
		}
		if err := w.look(ctx, filter); err != nil && ctx.Err() == nil {
			w.producer.failed(fmt.Errorf("looking for a probe's records: %w", err))
			return
		}
		took := time.Since(begun)
		if search {
			next = time.Now().Add(max(4*lookEvery, looksShare*took))
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(lookEvery, looksShare*took) - took):
		}
	}
}

// known finds the newest buckets; nil: of none is one known.
func (w *probes) known() bson.D {
	var ids bson.A
	for _, p := range w.all {
		if p.bucket != nil {
			ids = append(ids, p.bucket)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
}

// named finds all buckets of the probes.
func (w *probes) named() bson.D {
	var names bson.A
	for _, p := range w.all {
		names = append(names, bson.D{{Key: "sensor", Value: p.name}})
	}
	return bson.D{{Key: "meta", Value: bson.D{{Key: "$in", Value: names}}}}
}

// look reads how far the buckets that a filter finds are.
func (w *probes) look(ctx context.Context, filter bson.D) error {
	fields := bson.D{{Key: "meta", Value: 1}, {Key: "control.max.time", Value: 1}}
	cursor, err := w.buckets.Find(ctx, filter, options.Find().SetProjection(fields))
	if err != nil {
		return err
	}
	var found []struct {
		ID      any `bson:"_id"`
		Meta    struct{ Sensor string }
		Control struct {
			Max struct{ Time time.Time }
		}
	}
	if err := cursor.All(ctx, &found); err != nil {
		return err
	}
	now := time.Now()
	for _, f := range found {
		i := slices.IndexFunc(w.all, func(p *probe) bool { return p.name == f.Meta.Sensor })
		if i >= 0 && f.Control.Max.Time.UnixMilli() > w.all[i].seen {
			w.all[i].bucket, w.all[i].seen = f.ID, f.Control.Max.Time.UnixMilli()
			w.visible(w.all[i], now)
		}
	}
	return nil
}

// visible notes how old the records are that can be found now.
func (w *probes) visible(p *probe, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.waiting[p]
	for len(waiting) > 0 && waiting[0] <= p.seen {
		w.samples = append(w.samples, now.Sub(time.UnixMilli(waiting[0])))
		waiting = waiting[1:]
	}
	w.waiting[p] = waiting
}

// begin starts to note: what is written from now on counts.
func (w *probes) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = true
}

// Freshness is how old measurements are when they can be found.
type Freshness struct {
	// Samples seen, and Unseen of those written that were not yet when it ended.
	Samples int           `json:"samples"`
	Unseen  int           `json:"unseen"`
	P50     time.Duration `json:"p50_ns"`
	P90     time.Duration `json:"p90_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
}

func (w *probes) freshness() Freshness {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := Freshness{Samples: len(w.samples)}
	for _, waiting := range w.waiting {
		f.Unseen += len(waiting)
	}
	if f.Samples == 0 {
		return f
	}
	slices.Sort(w.samples)
	at := func(share float64) time.Duration { return w.samples[int(share*float64(len(w.samples)-1)+0.5)] }
	f.P50, f.P90, f.P99, f.Max = at(0.5), at(0.9), at(0.99), at(1)
	return f
}

// String is the freshness in seconds.
func (f Freshness) String() string {
	if f.Samples == 0 {
		return "–"
	}
	parts := make([]string, 0, 4)
	for _, d := range []time.Duration{f.P50, f.P90, f.P99, f.Max} {
		parts = append(parts, fmt.Sprintf("%.2f", d.Seconds()))
	}
	return strings.Join(parts, " / ")
}
