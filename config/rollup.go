package config

import (
	"errors"
	"strconv"
	"strings"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// RollupLevels are the levels of ROLLUP_LEVELS.
type RollupLevels rollup.Levels

// UnmarshalText reads levels as ROLLUP_LEVELS has them.
func (l *RollupLevels) UnmarshalText(text []byte) error {
	levels, err := rollup.ParseLevels(string(text))
	*l = RollupLevels(levels)
	return err
}

// String is the setting's own notation.
func (l RollupLevels) String() string { return rollup.Levels(l).String() }

// Share is a part of something, above 0 and at most 1.
type Share float64

// leastShare is the smallest Share: less would never be done.
const leastShare = 0.01

// UnmarshalText reads a decimal fraction.
func (s *Share) UnmarshalText(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f >= leastShare && f <= 1) {
		return errors.New("is not a share: give a number from 0.01 to 1")
	}
	*s = Share(f)
	return nil
}

// String is the setting's own notation.
func (s Share) String() string { return strconv.FormatFloat(float64(s), 'g', -1, 64) }

// Rules say how rows are made.
func (r Rollup) Rules() rollup.Rules { return rollup.Rules{Count: r.CountField, Fields: r.Fields} }

// rollups refuses names that no field has, and time series of totals whose collections would be those of measurements.
func (k *checker) rollups() {
	for _, pattern := range k.Rollup.Fields {
		if err := rollup.CheckPattern(pattern); err != nil && k.good("ROLLUP_FIELDS") {
			k.fail("ROLLUP_FIELDS", pattern, "%v", err)
		}
	}
	const column = "ROLLUP_COUNT_FIELD"
	name := k.Rollup.CountField
	switch {
	case name == "" || strings.ContainsAny(name, ".\x00") || strings.HasPrefix(name, "$") || name == timeseries.FieldID:
		k.fail(column, name, "must be the name of a top-level field: without dots, not beginning with $, and not _id")
	case name == k.MongoDB.TimeField || name == k.MongoDB.MetaField:
		k.fail(column, name, "must differ from MONGODB_TIME_FIELD and MONGODB_META_FIELD")
	}
	if len(k.Rollup.Levels) == 0 || !k.good("KAFKA_TOPICS", "MONGODB_COLLECTION", "ROLLUP_LEVELS") {
		return
	}
	measured := map[string]bool{}
	for _, topic := range k.Kafka.Named() {
		measured[k.SeriesFor(topic)] = true
	}
	for _, topic := range k.Kafka.Named() {
		for _, level := range k.Rollup.Levels {
			series := level.SeriesName(k.SeriesFor(topic))
			if measured[series] {
				k.fail("ROLLUP_LEVELS", k.Rollup.Levels.String(), "the totals by %s of topic %s need the name %q, which is the time series of another topic: rename one by MONGODB_COLLECTION, or leave the level out",
					level.Name, topic, series)
				continue
			}
			if err := timeseries.CheckSeriesName(k.MongoDB.Database, series, timeseries.MaxNamespace); err != nil {
				k.fail("MONGODB_COLLECTION", k.MongoDB.Collection, "for the totals by %s of topic %s that is %s, which %v", level.Name, topic, quoted(series), err)
			}
		}
	}
}
