package timeseries

// Granularity names one of the three standard pairs of span and rounding; empty for custom bucketing.
type Granularity string

// The granularities of MongoDB.
const (
	Seconds Granularity = "seconds" // span 1 h, rounding 1 min
	Minutes Granularity = "minutes" // span 24 h, rounding 1 h
	Hours   Granularity = "hours"   // span 30 d, rounding 24 h
)

// Options define one time series collection. The zero value of a field means its default, as Normalize fills it in.
type Options struct {
	// TimeField is the name of the measurements' time. Required.
	TimeField string
	// MetaField is the name of the measurements' identity; empty: the collection has a single series.
	MetaField string
	// Granularity sets span and rounding; empty together with MaxSpanSeconds and RoundingSeconds set: custom bucketing.
	Granularity Granularity
	// MaxSpanSeconds bounds a bucket: it takes times in [min, min + span).
	MaxSpanSeconds int32
	// RoundingSeconds is what a bucket's minimum time is rounded down to.
	RoundingSeconds int32
	// ExpireAfterSeconds deletes measurements older than this; 0: never.
	ExpireAfterSeconds int64
}

// Limits bound one bucket. The zero value of a field means the server's default (Normalize).
type Limits struct {
	MaxCount   int32 // measurements in a bucket, default 1000
	MaxBytes   int32 // accounted bytes of a bucket, default 125 KiB
	MinCount   int32 // below it an oversize bucket stays open, default 10; 1 switches that off
	CacheBytes int64 // for the cache-derived limit of bytes; 0: off
}
