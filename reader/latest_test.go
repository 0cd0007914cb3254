package reader

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestLatestFetchesOneBucketOfASeries counts the buckets that come over the wire with their columns.
func TestLatestFetchesOneBucketOfASeries(t *testing.T) {
	var hours [][]int
	for hour := range 500 {
		hours = append(hours, []int{60 * hour, 60*hour + 59})
	}
	late := append(slices.Clone(hours), []int{60*498 + 1, 60*499 - 1}) // overlaps only the last but one
	tie := append(slices.Clone(hours), []int{60*500 - 1})              // has the same time as the newest
	over := append(slices.Clone(hours), []int{60*499 + 30, 60*500 + 3})
	over[499] = []int{60*499 + 31, 60*499 + 33} // begins later than the bucket with the newest
	for name, c := range map[string]struct {
		buckets [][]int
		query   Query
		newest  int
		most    int
	}{
		"one after the other":           {hours, Query{}, 60*500 - 1, 1},
		"a late one":                    {late, Query{}, 60*500 - 1, 1},
		"two with the newest time":      {tie, Query{}, 60*500 - 1, 2},
		"the newest begins earlier":     {over, Query{}, 60*500 + 3, 2},
		"in a window":                   {hours, Query{From: time.UnixMilli(0), To: time.UnixMilli(60_000 * 6030)}, 6000, 2},
		"in a window without any":       {hours, Query{From: time.UnixMilli(60_000 * 6001), To: time.UnixMilli(60_000 * 6030)}, -1, 1},
		"in an hour after the last one": {hours, Query{From: time.UnixMilli(60_000 * 30060)}, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := newFake(testOptions, "a", c.buckets...)
			got := -1
			for m, err := range s.Latest(t.Context(), c.query) {
				if err != nil || got >= 0 {
					t.Fatalf("%v after %d", err, got)
				}
				got = int(m.Time.UnixMilli() / 60_000)
			}
			if got != c.newest || f.sent > c.most {
				t.Errorf("the newest is of minute %d, want %d; %d buckets came, want %d", got, c.newest, f.sent, c.most)
			}
		})
	}
}

// TestLatestInSegmentsFetchesNoBucket covers a newest measurement in a segment, with buckets that end earlier.
func TestLatestInSegmentsFetchesNoBucket(t *testing.T) {
	s, f := newFake(testOptions, "a", []int{0, 59}, []int{60, 119})
	f.segments, f.clock = true, time.UnixMilli(0)
	for _, minute := range []int{120, 121} {
		f.buckets = append(f.buckets, segmentOf(testOptions, fact{meta: valueOf("a"), time: int64(minute) * 60_000, fields: bson.D{}}))
	}
	got, err := facts(s.Latest(t.Context(), Query{Meta: bson.D{{Key: "m", Value: "a"}}}))
	if err != nil || len(got) != 1 || !strings.Contains(got[0], "@7260000 ") || f.sent != 2 {
		t.Errorf("%q, %v from %d documents", got, err, f.sent)
	}
}

// TestAnHourOfOneSeriesFetchesTwoBuckets checks this for any number of series and hours.
func TestAnHourOfOneSeriesFetchesTwoBuckets(t *testing.T) {
	f := &fake{}
	for series := range 50 {
		var hours [][]int
		for hour := range 20 {
			hours = append(hours, []int{60*hour + 7, 60*hour + 50})
		}
		_, one := newFake(testOptions, bson.D{{Key: "sensor", Value: fmt.Sprintf("s-%d", series)}}, hours...)
		f.buckets = append(f.buckets, one.buckets...)
	}
	s := newSeries("s", "db.s.buckets", testOptions, f)
	at := func(minute int) time.Time { return time.UnixMilli(int64(minute) * 60_000) }
	for _, meta := range []bson.D{
		{{Key: "m", Value: bson.D{{Key: "sensor", Value: "s-17"}}}},
		{{Key: "m.sensor", Value: "s-17"}},
	} {
		f.sent = 0
		got, failures := minutesOf(t, s, Query{Meta: meta, From: at(620), To: at(680)})
		if !slices.Equal(got, []int{650, 667}) || failures != nil || f.sent > 2 {
			t.Errorf("%v: %v, %v from %d buckets", meta, got, failures, f.sent)
		}
	}
}

func TestSeriesGivesTheMetas(t *testing.T) {
	f := &fake{}
	metas := append(stringMetas(3), valueOf("a"), valueOf(int32(5)), bson.RawValue{Type: bson.TypeNull}, bson.RawValue{})
	for _, meta := range metas {
		f.buckets = append(f.buckets, bucketOf(testOptions, fact{meta: meta, time: 60_000, fields: bson.D{}}))
	}
	s := newSeries("s", "db.s.buckets", testOptions, f)
	all := func(q Query) (got []string) {
		for meta, err := range s.Series(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%d %s", meta.Type, meta))
		}
		return got
	}
	objects := []string{`3 {"sensor": "s-0"}`, `3 {"sensor": "s-1"}`, `3 {"sensor": "s-2"}`}
	for _, c := range []struct {
		query Query
		want  []string
	}{
		{Query{}, append([]string{"0 ", "10 null", `16 {"$numberInt":"5"}`, `2 "a"`}, objects...)},
		{Query{Limit: 2}, []string{"0 ", "10 null"}},
		{Query{Meta: bson.D{{Key: "m", Value: nil}}}, []string{"0 ", "10 null"}},
		{Query{Meta: bson.D{{Key: "m", Value: 5.0}}}, []string{`16 {"$numberInt":"5"}`}},
		{Query{Meta: bson.D{{Key: "m", Value: "b"}}}, nil},
		{Query{Meta: bson.D{{Key: "m.sensor", Value: bson.D{{Key: "$gte", Value: "s-1"}}}}}, objects[1:]},
		{Query{From: time.UnixMilli(60_001)}, nil},
	} {
		if got := all(c.query); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.query, got, c.want)
		}
	}
}
