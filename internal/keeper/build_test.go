package keeper

import (
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// addBucket stores one measurement in a bucket whose _id has the form that consumers give it.
func (w *world) addBucket(p *part, series string, at time.Time) {
	r := &entry{offset: int64(len(p.log)), time: at.UnixMilli(), series: series, bit: len(p.log)}
	p.log = append(p.log, r)
	d := w.bucket(series, p, []*entry{r}, nil)
	begin := baseOptions.Round(r.time)
	d[0] = bson.E{Key: "_id", Value: timeseries.BucketIDOf(begin, []byte{0, 0, 0, 0, 0, 0, 0, byte(r.bit)})}
	w.put("buckets", d)
}

// TestBuildCoversTimesWhoseIDsDoNotSort has measurements before 1970 and after 2038, whose buckets do not sort by _id. A build must
// compute all rows, and must not visit each day of the millennia in between.
func TestBuildCoversTimesWhoseIDsDoNotSort(t *testing.T) {
	w, _ := still(t, 0)
	w.expiring(t, 0, "1m,1h,1d")
	var want []int64
	for _, day := range []string{"1912-03-01", "1969-12-31", "1970-01-01", "2026-01-01", "2026-01-02", "2026-03-09", "2038-01-19", "2041-05-06", "9999-12-30"} {
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		w.addBucket(w.parts[0], "a", at.Add(13*time.Hour))
		want = append(want, at.UnixMilli())
	}
	c, err := NewCommand(t.Context(), w.rollups())
	if err != nil {
		t.Fatal(err)
	}
	from, to, found, err := c.Extent(t.Context())
	if err != nil || !found || from.UnixMilli() < want[0] || from.UnixMilli() >= want[1] || to.UnixMilli() <= want[len(want)-1] {
		t.Errorf("the measurements are from %v to %v (%t), %v", from, to, found, err)
	}
	visited := 0
	err = c.Build(t.Context(), Range{From: from, To: to}, false, func(Built) { visited++ })
	if err != nil {
		t.Fatal(err)
	}
	if visited > 3*len(want) {
		t.Errorf("the build visits %d days", visited)
	}
	_, counts := w.rowsOf(rollup.Day)
	var have []int64
	for at := range counts {
		have = append(have, at.hour)
	}
	if slices.Sort(have); !slices.Equal(have, want) {
		t.Errorf("the rows of days are at %v, want %v", have, want)
	}
	const cut = 2 // The first and the last day are no whole days, so their rows are not compared.
	v, err := c.Verify(t.Context(), Range{From: from, To: to}, 10, func(Built) {})
	if err != nil || v.Differences > 0 || v.Behind != int64(3*len(want)-cut) {
		t.Errorf("%d rows are above the watermark, and %d are wrong, %v", v.Behind, v.Differences, err)
	}
}
