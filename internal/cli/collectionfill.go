package cli

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

// fillView describes how full the examined buckets of a time series are, and how much is in segments.
type fillView struct {
	Buckets      int64   `json:"buckets"` // number of examined buckets
	Measurements int64   `json:"measurements"`
	All          bool    `json:"all"` // all buckets were examined
	Mean         float64 `json:"mean"`
	P10          int32   `json:"p10"` // a tenth of the buckets has at most this many measurements
	// Segments hold the InSegments measurements until these are in buckets. Ended segments wait for deletion, and their measurements
	// are in buckets. Unfinished buckets belong to unfinished compactions, whose measurements are still in segments.
	Segments   int64 `json:"segments"`
	InSegments int64 `json:"measurementsInSegments"`
	Ended      int64 `json:"endedSegments"`
	Unfinished int64 `json:"unfinishedBuckets"`
	// Bytes is the uncompressed size of one measurement, StorageBytes its size on disk, and IndexBytes its size in indexes. Zero
	// means unknown. They are averages over all buckets and segments.
	Bytes        float64 `json:"bytesPerMeasurement"`
	StorageBytes float64 `json:"storageBytesPerMeasurement"`
	IndexBytes   float64 `json:"indexBytesPerMeasurement"`
	// Oldest is rounded down, as the minimum times of buckets are.
	Oldest time.Time `json:"oldest"`
	Newest time.Time `json:"newest"`
	// Advice says how new buckets would become fuller. Empty means that they are full enough, or that this is unknown.
	Advice string `json:"advice,omitempty"`

	covered, compacted int64 // the sums of sink.Holding.Covered and Compacted
}

// fillOf sums up the examined buckets and segments. Nil means that they have no measurements.
func fillOf(holdings []sink.Holding, size collection.Size) *fillView {
	fill, counts := fillView{All: true}, map[int32]int64{}
	var oldest, newest int64
	for _, h := range holdings {
		fill.Ended, fill.Unfinished, fill.All = fill.Ended+h.Ended, fill.Unfinished+h.Unfinished, fill.All && !h.Cut
		if h.Buckets+h.Segments == 0 {
			continue
		}
		if fill.Buckets+fill.Segments == 0 {
			oldest, newest = h.Oldest, h.Newest
		}
		oldest, newest = min(oldest, h.Oldest), max(newest, h.Newest)
		fill.Buckets, fill.Measurements = fill.Buckets+h.Buckets, fill.Measurements+h.Measurements
		fill.Segments, fill.InSegments = fill.Segments+h.Segments, fill.InSegments+h.InSegments
		fill.covered, fill.compacted = fill.covered+h.Covered, fill.compacted+h.Compacted
		for count, buckets := range h.Counts {
			counts[count] += buckets
		}
	}
	all := fill.Measurements + fill.InSegments
	if all == 0 {
		return nil
	}
	if fill.Buckets > 0 {
		fill.Mean, fill.P10 = float64(fill.Measurements)/float64(fill.Buckets), tenth(counts, fill.Buckets)
	}
	fill.Oldest, fill.Newest = time.UnixMilli(oldest).UTC(), time.UnixMilli(newest).UTC()
	documents := fill.Buckets + fill.Segments + fill.Ended + fill.Unfinished
	if measurements := float64(all) / float64(documents) * float64(size.Documents); measurements > 0 {
		fill.Bytes, fill.StorageBytes = float64(size.Bytes)/measurements, float64(size.StorageBytes)/measurements
		fill.IndexBytes = float64(size.IndexBytes) / measurements
	}
	return &fill
}

// tenth returns the smallest count that a tenth of the buckets does not exceed.
func tenth(counts map[int32]int64, buckets int64) int32 {
	passed := int64(0)
	for _, count := range slices.Sorted(maps.Keys(counts)) {
		if passed += counts[count]; 10*passed >= buckets {
			return count
		}
	}
	return 0
}

// documents describes how many of the documents are buckets and how many segments, as far as that is known.
func (f *fillView) documents(all int64) string {
	switch {
	case f == nil || f.Segments+f.Ended == 0:
		return words.Count(all, "bucket")
	case !f.All:
		return fmt.Sprintf("%d buckets and segments", all)
	}
	return fmt.Sprintf("%s and %s", words.Count(f.Buckets+f.Unfinished, "bucket"), words.Count(f.Segments+f.Ended, "segment"))
}

func (f *fillView) print(head *text.Table, most int32) {
	if f == nil {
		return
	}
	sample := ""
	if !f.All {
		documents := words.Count(f.Buckets, "bucket")
		if segments := f.Segments + f.Ended; segments > 0 {
			documents += " and " + words.Count(segments, "segment")
		}
		sample = fmt.Sprintf(", in a sample of %s", documents)
	}
	if f.Segments+f.Ended+f.Unfinished > 0 {
		segments := fmt.Sprintf("%d with %s that %s not in buckets yet, %d more %s for deletion", f.Segments, words.Count(f.InSegments, "measurement"),
			words.Form(f.InSegments, "is", "are"), f.Ended, words.Form(f.Ended, "waits", "wait"))
		if f.Unfinished > 0 {
			segments += "; " + words.Count(f.Unfinished, "bucket") + words.Form(f.Unfinished, " is", " are") + " being made from segments"
		}
		head.Row("Segments", segments+sample)
	}
	head.Row("Fill", fmt.Sprintf("%.1f measurements per bucket, a tenth of the buckets has %d or fewer, %d is the maximum%s", f.Mean, f.P10, most, sample))
	bytes := fmt.Sprintf("%.1f B", f.Bytes)
	if f.StorageBytes > 0 {
		bytes += fmt.Sprintf(", %.1f B on disk, %.1f B in indexes", f.StorageBytes, f.IndexBytes)
	}
	head.Row("Per measurement", bytes+sample)
	if f.Advice != "" {
		head.Row("Advice", f.Advice)
	}
	head.Row("Times", fmt.Sprintf("%s (rounded down) to %s%s", text.Time(f.Oldest), text.Time(f.Newest), sample))
}

// These are limits for advice on how buckets become fuller.
const (
	judgedBuckets = 20 // fewer buckets do not represent all
	poorlyFilled  = 10 // a bucket is poorly filled if it holds less than its maximum divided by this
	worthwhile    = 2  // advice must increase the measurements in a bucket by this factor
)

// advise determines how new buckets would become fuller, from the contents of the examined ones and the time they cover. If a
// series has more measurements in the span of a bucket than in its buckets, the advice is a longer COMPACT_INTERVAL. Otherwise it
// is a coarser granularity.
func (f *fillView) advise(of bucketingView, most int32, interval time.Duration) {
	if f == nil || f.Buckets < judgedBuckets || f.Mean*poorlyFilled >= float64(most) {
		return
	}
	span := time.Duration(of.MaxSpanSeconds) * time.Second
	within := 1.0 // measurements of a series within a span
	if f.covered > 0 {
		within += float64(f.Measurements-f.Buckets) * float64(span.Milliseconds()) / float64(f.covered)
	}
	made := 2*f.compacted > f.Buckets // most buckets are made of segments
	switch {
	case made && interval < span && within >= worthwhile*f.Mean:
		f.Advice = fmt.Sprintf("buckets are poorly filled, because each holds only the measurements of one COMPACT_INTERVAL (%s): an interval of %s would fill them with about %.0f measurements",
			words.Span(interval), words.Span(min(span, longestCompaction)), min(float64(most), within))
	case within < worthwhile*f.Mean:
		f.Advice = coarser(of, f.Mean, most)
		if f.Advice != "" && made {
			f.Advice += "; set COMPACT_INTERVAL to the same length"
		}
	}
}

// longestCompaction is the largest COMPACT_INTERVAL.
const longestCompaction = 24 * time.Hour

// coarser advises the command that lets buckets span more time: the smallest step that fills them well, or else the largest there
// is.
func coarser(of bucketingView, mean float64, most int32) string {
	advice := ""
	for _, g := range []timeseries.Granularity{timeseries.Minutes, timeseries.Hours} {
		to, err := timeseries.Options{TimeField: "time", Granularity: g}.Normalize()
		if err != nil || to.MaxSpanSeconds <= of.MaxSpanSeconds {
			continue
		}
		command := "set-granularity " + string(g)
		if of.Granularity == "" { // custom bucketing may begin at other multiples
			command = fmt.Sprintf("set-span %s", spanOf(to.MaxSpanSeconds))
		}
		filled := min(float64(most), mean*float64(to.MaxSpanSeconds)/float64(of.MaxSpanSeconds))
		advice = fmt.Sprintf("buckets are poorly filled, because their time span is short: `waterwheel collection %s` would fill new ones with about %.0f measurements, "+
			"and cannot be undone", command, filled)
		if 2*filled >= float64(most) {
			break
		}
	}
	return advice
}
