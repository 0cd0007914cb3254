package reader

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// rolled is a time series with rollups on fakes, as a keeper would have stored them.
type rolled struct {
	*Series
	main   *fake
	levels map[string]*fake
}

// rolledUp returns a time series of facts with levels. The rows hold the facts inRows.
func rolledUp(buckets []bson.Raw, now time.Time, inRows []fact, marks []rollup.Watermark, levels ...rollup.DefinedLevel) rolled {
	r := rolled{main: &fake{buckets: buckets, clock: now}, levels: map[string]*fake{}}
	for i, mark := range marks {
		r.main.partitions = append(r.main.partitions, encode(bson.D{
			{Key: "_id", Value: fmt.Sprintf("events/%d", i)}, {Key: "topicId", Value: mark.TopicID}, {Key: rollup.FieldWatermarks, Value: bson.A{mark}},
		}))
	}
	r.main.rolled = encode(rollup.Definition{ID: rollup.DefinitionID, Levels: levels})
	for _, d := range levels {
		level, _ := d.Level()
		r.levels["s_"+d.Name] = &fake{buckets: rowsOf(level, d.Rules(), inRows), clock: now, options: level.Options(testOptions)}
	}
	r.Series = newSeries("s", "db.s.buckets", testOptions, r.main)
	r.sibling = func(_ context.Context, name string) (*Series, error) {
		f := r.levels[name]
		if f == nil {
			return nil, fmt.Errorf("opening %s: %w", name, ErrNotSetUp)
		}
		return newSeries(name, "db."+name+".buckets", f.options, f), nil
	}
	return r
}

// rowsOf returns the documents of a level for some facts.
func rowsOf(level rollup.Level, rules *rollup.Rules, facts []fact) (documents []bson.Raw) {
	o := level.Options(testOptions)
	all := map[bson.ObjectID]*rollup.Document{}
	for _, w := range folded(facts, rules, level.Window) {
		from, _ := level.Period(w.Time)
		id := level.ID(w.meta, from)
		if all[id] == nil {
			all[id] = &rollup.Document{ID: id, Meta: w.meta, From: from, Revision: 1}
		}
		all[id].Replace(w.Time, w.Time+1, []rollup.Stored{{Time: w.Time, Fields: w.Document()}})
	}
	for _, d := range all {
		documents = append(documents, d.Encode(o))
	}
	return documents
}

// window is the row of a series.
type window struct {
	meta bson.RawValue
	*rollup.Row
}

// folded returns the windows of facts by series and time.
func folded(facts []fact, rules *rollup.Rules, of func(int64) int64) (list []window) {
	facts = slices.Clone(facts)
	slices.SortStableFunc(facts, func(a, b fact) int {
		if c := timeseries.Compare(orNull(a.meta), orNull(b.meta)); c != 0 {
			return c
		}
		return a.compare(b)
	})
	for _, f := range facts {
		begin := of(f.time)
		if n := len(list); n == 0 || list[n-1].Time != begin || !list[n-1].meta.Equal(f.meta) {
			list = append(list, window{f.meta, rules.NewRow(begin)})
		}
		list[len(list)-1].Add(encode(f.fields))
	}
	return list
}

// lineOf returns a window as text. The fields are sorted, because their order is that of their first occurrence.
func lineOf(meta bson.RawValue, from, count int64, fields bson.Raw) string {
	var d bson.D
	if err := bson.Unmarshal(fields, &d); err != nil {
		panic(err)
	}
	slices.SortFunc(d, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
	return fmt.Sprintf("%v %d %d %v", meta, from, count, encode(d))
}

// lines returns windows as texts.
func lines(seq iter.Seq2[Window, error]) (list []string, err error) {
	for w, err := range seq {
		if err != nil {
			return list, err
		}
		list = append(list, lineOf(w.Meta, w.Time.UnixMilli(), w.Count, w.Fields))
	}
	return list, nil
}

func linesOf(list []window, from, to int64, aggregations []Aggregation) (all []string) {
	for _, w := range list {
		if w.Time >= from && w.Time < to {
			all = append(all, lineOf(w.meta, w.Time, w.Count, w.AppendAggregations(nil, aggregations)))
		}
	}
	return all
}

var allAggregations = []Aggregation{Mean, Max, Min, Sum, Count, First, Last}

// readings returns random facts with numbers whose sums are exact in any order, and with other values.
func readings(random *rand.Rand, sensors int, from time.Time, length time.Duration, n int) (list []fact) {
	for i := range n {
		f := fact{
			meta: stringMetas(sensors)[random.IntN(sensors)], time: from.UnixMilli() + random.Int64N(length.Milliseconds()),
			source: timeseries.Source{Topic: "events", Partition: int32(random.IntN(2))}, at: timeseries.Position{Offset: int64(i)},
			fields: bson.D{{Key: "celsius", Value: float64(random.IntN(100)) / 4}},
		}
		if random.IntN(3) == 0 {
			f.fields = append(f.fields, bson.E{Key: "wind", Value: bson.D{{Key: "speed", Value: random.Int64N(50)}}}, bson.E{Key: "text", Value: "x"})
		}
		if random.IntN(9) == 0 {
			f.fields[0].Value = math.NaN()
		}
		list = append(list, f)
	}
	return list
}

// bucketsOf returns the buckets of facts.
func bucketsOf(random *rand.Rand, list []fact) []bson.Raw {
	key := func(f fact) string { return fmt.Sprint(f.source.Partition, f.meta) }
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b fact) int { return int(a.time - b.time) })
	return cut(random, testOptions, list, key, func(some []fact) bson.Raw { return bucketOf(testOptions, some...) })
}
