package timeseries

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Granularity names one of the three standard pairs of span and rounding. Empty means custom bucketing.
type Granularity string

// The granularities of MongoDB.
const (
	Seconds Granularity = "seconds" // span 1 h, rounding 1 min
	Minutes Granularity = "minutes" // span 24 h, rounding 1 h
	Hours   Granularity = "hours"   // span 30 d, rounding 24 h
)

// MaxBucketingSeconds bounds span and rounding of custom bucketing to a year.
const MaxBucketingSeconds = 31536000

// maxIndexSeconds is the largest expireAfterSeconds of a TTL index.
const maxIndexSeconds = 1<<31 - 1

// Options define one time series collection. The zero value of a field means its default, as Normalize fills it in. In
// documents the fields have MongoDB's names.
type Options struct {
	// TimeField is the name of the measurements' time. Required.
	TimeField string `bson:"timeField"`
	// MetaField is the name of the measurements' identity. Empty means that the collection has a single series.
	MetaField string `bson:"metaField,omitempty"`
	// Granularity sets span and rounding. Empty means custom bucketing if MaxSpanSeconds and RoundingSeconds are set.
	Granularity Granularity `bson:"granularity,omitempty"`
	// MaxSpanSeconds bounds a bucket, which takes times in [min, min + span).
	MaxSpanSeconds int32 `bson:"bucketMaxSpanSeconds"`
	// RoundingSeconds is the unit to which a bucket's minimum time is rounded down. It is set only for custom bucketing. With a
	// granularity, which implies the rounding, it is 0. Callers use Round.
	RoundingSeconds int32 `bson:"bucketRoundingSeconds,omitempty"`
	// ExpireAfterSeconds is the age in seconds at which measurements are deleted. Zero means never.
	ExpireAfterSeconds int64 `bson:"expireAfterSeconds,omitempty"`
}

// bucketing returns span and rounding of a granularity in seconds. They are 0 for an unknown granularity.
func (g Granularity) bucketing() (span, rounding int32) {
	switch g {
	case Seconds:
		return 3600, 60
	case Minutes:
		return 86400, 3600
	case Hours:
		return 2592000, 86400
	default:
		return 0, 0
	}
}

// Normalize checks the options by the rules of MongoDB's create command and returns them with the defaults filled in. The
// granularity is seconds unless bucketing is custom, and the span follows from the granularity. Normalising twice changes
// nothing. The error is an *Error.
func (o Options) Normalize() (Options, error) {
	if err := o.checkFields(); err != nil {
		return Options{}, err
	}
	if o.Granularity == "" && o.MaxSpanSeconds == 0 && o.RoundingSeconds == 0 {
		o.Granularity = Seconds
	}
	if err := o.checkBucketing(); err != nil {
		return Options{}, err
	}
	o.MaxSpanSeconds, _ = o.bucketing()
	if limit := maxIndexSeconds - int64(o.MaxSpanSeconds); o.ExpireAfterSeconds < 0 || o.ExpireAfterSeconds > limit {
		return Options{}, refuse(codeBadValue, "expireAfterSeconds is %d: give a number from 0 to %d (0 keeps measurements for ever)",
			o.ExpireAfterSeconds, limit)
	}
	return o, nil
}

func (o Options) checkFields() error {
	if o.TimeField == "" {
		return refuse(codeBadValue, "timeField is empty: name the field that holds the time of a measurement")
	}
	if err := checkFieldName("timeField", o.TimeField); err != nil {
		return err
	}
	if o.MetaField == "" {
		return nil
	}
	if o.MetaField == FieldID || o.MetaField == o.TimeField {
		return refuse(codeInvalidOptions, "metaField is %q: it must differ from _id and from timeField", o.MetaField)
	}
	return checkFieldName("metaField", o.MetaField)
}

func checkFieldName(option, name string) error {
	if i := strings.IndexAny(name, ".\x00"); i >= 0 {
		return refuse(codeInvalidOptions, "%s is %q: it must be the name of a top-level field, without %q",
			option, name, name[i:i+1])
	}
	if name[0] == '$' {
		return refuse(codeInvalidOptions, `%s is %q: it must not start with "$"`, option, name)
	}
	return nil
}

func (o Options) checkBucketing() error {
	if err := checkSeconds("bucketMaxSpanSeconds", o.MaxSpanSeconds); err != nil {
		return err
	}
	if err := checkSeconds("bucketRoundingSeconds", o.RoundingSeconds); err != nil {
		return err
	}
	if o.Granularity == "" {
		if o.MaxSpanSeconds != o.RoundingSeconds {
			return refuse(codeInvalidOptions, "bucketMaxSpanSeconds is %d and bucketRoundingSeconds %d: "+
				"set both to the same number, or neither", o.MaxSpanSeconds, o.RoundingSeconds)
		}
		return nil
	}
	span, _ := o.Granularity.bucketing()
	switch {
	case span == 0:
		return refuse(codeBadValue, "granularity is %q: it must be seconds, minutes or hours", o.Granularity)
	case o.MaxSpanSeconds != 0 && o.MaxSpanSeconds != span:
		return refuse(codeInvalidOptions, "bucketMaxSpanSeconds is %d: with granularity %s leave bucketMaxSpanSeconds out, or set it to %d",
			o.MaxSpanSeconds, o.Granularity, span)
	case o.RoundingSeconds != 0:
		return refuse(codeInvalidOptions, "bucketRoundingSeconds is %d: leave bucketRoundingSeconds out, because granularity %s sets it",
			o.RoundingSeconds, o.Granularity)
	}
	return nil
}

// checkSeconds checks the range of an option. Zero means that the option is not set.
func checkSeconds(option string, seconds int32) error {
	if seconds < 0 || seconds > MaxBucketingSeconds {
		return refuse(codeOutOfRange, "%s is %d: give 1 to %d", option, seconds, MaxBucketingSeconds)
	}
	return nil
}

// bucketing returns span and rounding in seconds, of options normalised or not. They are never 0, because a granularity that
// Normalize would refuse counts as the default.
func (o Options) bucketing() (span, rounding int32) {
	if o.MaxSpanSeconds > 0 && o.RoundingSeconds > 0 {
		return o.MaxSpanSeconds, o.RoundingSeconds
	}
	if span, rounding = o.Granularity.bucketing(); span > 0 {
		return span, rounding
	}
	return Seconds.bucketing()
}

// Change applies the collMod command. It returns o with the bucketing and the expiry of to. Empty fields and unset bucketing of
// to mean no change, but ExpireAfterSeconds always applies. Neither span nor rounding may shrink, so that an existing bucket
// still fits the new rules. The given options need not be normalised, but the result is. The error is an *Error.
func (o Options) Change(to Options) (Options, error) {
	o, err := o.Normalize()
	if err != nil {
		return Options{}, err
	}
	if to.TimeField != "" && to.TimeField != o.TimeField {
		return Options{}, refuse(codeInvalidOptions, "timeField cannot be changed from %q to %q: use another collection",
			o.TimeField, to.TimeField)
	}
	if to.MetaField != "" && to.MetaField != o.MetaField {
		return Options{}, refuse(codeInvalidOptions, "metaField cannot be changed from %q to %q: use another collection",
			o.MetaField, to.MetaField)
	}
	if to.Granularity == "" && to.MaxSpanSeconds == 0 && to.RoundingSeconds == 0 {
		to.Granularity, to.MaxSpanSeconds, to.RoundingSeconds = o.Granularity, o.MaxSpanSeconds, o.RoundingSeconds
	}
	to.TimeField, to.MetaField = o.TimeField, o.MetaField
	if to, err = to.Normalize(); err != nil {
		return Options{}, err
	}
	span, rounding := o.bucketing()
	toSpan, toRounding := to.bucketing()
	if toSpan < span || toRounding < rounding {
		return Options{}, refuse(codeInvalidOptions, "the bucket span and the bucket rounding cannot become smaller: the collection has %d s and %d s, the new values are %d s and %d s; "+
			"choose larger values or another collection", span, rounding, toSpan, toRounding)
	}
	return to, nil
}

// Span returns how long a bucket takes measurements, in milliseconds. It takes times in [min, min + Span()).
func (o Options) Span() int64 {
	span, _ := o.bucketing()
	return int64(span) * 1000
}

// TTLSeconds returns the expireAfterSeconds of the TTL index on control.min.<time>. It is the collection's value plus the span,
// so that no measurement is deleted before its time. Zero means that there is no such index.
func (o Options) TTLSeconds() int32 {
	if o.ExpireAfterSeconds == 0 {
		return 0
	}
	return int32(o.ExpireAfterSeconds + o.Span()/1000)
}

// Round returns the minimum time of a bucket that a measurement of this time opens. Both times are milliseconds since 1970, and
// negative before it. Round rounds down, never toward zero. The smallest times cannot be rounded down any further, and give the
// smallest int64.
func (o Options) Round(ms int64) int64 {
	_, rounding := o.bucketing()
	return floorTo(ms, int64(rounding)*1000)
}

// floorTo returns the largest multiple of unit that is not above v. It returns the smallest int64 if that multiple does not fit.
func floorTo(v, unit int64) int64 {
	rest := v % unit
	if rest < 0 {
		rest += unit
	}
	if floor := v - rest; floor <= v {
		return floor
	}
	return -1 << 63
}

// DefinitionID is the _id of the document of the options collection that defines the time series.
const DefinitionID = "options"

// Definition is the document that defines a time series: its options, and a version that counts their changes from 1.
type Definition struct {
	ID      string `bson:"_id"`
	Version int32  `bson:"version"`
	Options `bson:",inline"`
	// Segments means that the collection may hold segments. It is never unset.
	Segments bool `bson:"segments,omitempty"`
	// RollupOf is the name of the time series whose totals this one holds. Such a series holds nothing else. Empty means that it
	// holds measurements.
	RollupOf string `bson:"rollupOf,omitempty"`
}

// ReadDefinition reads a stored definition, with its options normalised. The error says what is wrong with the document.
func ReadDefinition(document bson.Raw) (d Definition, err error) {
	if err := bson.Unmarshal(document, &d); err != nil {
		return d, fmt.Errorf("the document %q of the options collection is damaged: %w", DefinitionID, err)
	}
	if d.Options, err = d.Normalize(); err != nil {
		return d, fmt.Errorf("the document %q of the options collection was edited and is invalid: %w; correct the document, because no settings can match it",
			DefinitionID, err)
	}
	return d, nil
}

// Bounds of a bucket's accounted bytes.
const (
	// LargeBytes bounds a bucket of fewer than Limits.MinCount measurements. It is 16 MiB minus 4 MiB for the rest.
	LargeBytes = 12 << 20
	// cacheBytesFloor is the smallest limit that can be derived from the cache.
	cacheBytesFloor = 5120
)

// Limits bound one bucket.
type Limits struct {
	MaxCount   int32 // measurements in a bucket
	MaxBytes   int32 // accounted bytes of a bucket
	MinCount   int32 // a bucket with fewer measurements stays open beyond MaxBytes. 1 turns this off.
	CacheBytes int64 // size of the cache, of which the active buckets of one catalog share half. Zero means that the cache sets no limit.
}

// Sizes returns the bytes beyond which a bucket is closed. effective applies to a bucket with at least MinCount measurements, and
// absolute to a bucket with fewer. active is the number of open and archived buckets, which share CacheBytes. If effective is
// below MaxBytes, or absolute below LargeBytes, the cache sets the limit.
func (l Limits) Sizes(active int64) (effective, absolute int32) {
	derived := derivedSize(l.CacheBytes, active, cacheBytesFloor)
	return min(l.MaxBytes, derived), min(LargeBytes, derived)
}

// derivedSize returns a bucket's share of half the cache, and at least floor. Without a cache or active buckets there is no
// limit.
func derivedSize(cacheBytes, active int64, floor int32) int32 {
	if cacheBytes <= 0 || active <= 0 {
		return math.MaxInt32
	}
	return max(floor, int32(min(cacheBytes/2/active, math.MaxInt32)))
}

// Error codes of MongoDB that the rules of this package return.
const (
	codeBadValue             int32 = 2
	codeIllegalOperation     int32 = 20
	codeCannotCreateIndex    int32 = 67
	codeInvalidOptions       int32 = 72
	codeIndexOptionsConflict int32 = 85
	codeOutOfRange           int32 = 51024 // a field of a command below or above its bounds
)

var codeNames = map[int32]string{
	codeBadValue:             "BadValue",
	codeIllegalOperation:     "IllegalOperation",
	codeCannotCreateIndex:    "CannotCreateIndex",
	codeInvalidOptions:       "InvalidOptions",
	codeIndexOptionsConflict: "IndexOptionsConflict",
}

// Error is a refusal with the code that MongoDB's own time series collections return in the same case.
type Error struct {
	// Code is MongoDB's error code. Zero means that MongoDB's server has no such case.
	Code int32
	// Message names the field, its value and what to do.
	Message string
}

// Error returns the message, followed by the code's name.
func (e *Error) Error() string {
	if e.Code == 0 {
		return e.Message
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.CodeName())
}

// CodeName returns MongoDB's name of the code, as "InvalidOptions". For a code without a name it returns a text such as
// "Location5346510".
func (e *Error) CodeName() string {
	return cmp.Or(codeNames[e.Code], fmt.Sprintf("Location%d", e.Code))
}

func refuse(code int32, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
