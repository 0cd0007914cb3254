package config

import (
	"errors"
	"strconv"
	"strings"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// RollupLevels is the value of ROLLUP_LEVELS.
type RollupLevels rollup.Levels

// UnmarshalText reads levels in the notation of ROLLUP_LEVELS.
func (l *RollupLevels) UnmarshalText(text []byte) error {
	levels, err := rollup.ParseLevels(string(text))
	*l = RollupLevels(levels)
	return err
}

// String returns the setting's own notation.
func (l RollupLevels) String() string { return rollup.Levels(l).String() }

// RollupNested is the value of ROLLUP_NESTED. The zero RollupNested means no collection.
type RollupNested struct {
	// Collection may contain {topic}.
	Collection string
	// Aggregations are the statistics of each field. Nil means whole totals.
	Aggregations []rollup.Aggregation
}

// UnmarshalText reads a collection in the notation of ROLLUP_NESTED: a name, and optional aggregations after a colon.
func (n *RollupNested) UnmarshalText(text []byte) (err error) {
	name, list, has := strings.Cut(string(text), ":")
	n.Collection, n.Aggregations = name, nil
	if has {
		n.Aggregations, err = rollup.ParseAggregations(list)
	}
	return err
}

// String returns the setting's own notation.
func (n RollupNested) String() string {
	var list []string
	for _, a := range n.Aggregations {
		list = append(list, string(a))
	}
	if len(list) == 0 {
		return n.Collection
	}
	return n.Collection + ":" + strings.Join(list, ",")
}

// For returns the collection of a topic.
func (n RollupNested) For(topic string) string {
	return strings.ReplaceAll(n.Collection, topicPlaceholder, topic)
}

// Share is a fraction, above 0 and at most 1.
type Share float64

// leastShare is the smallest Share. With less the work would never end.
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

// String returns the setting's own notation.
func (s Share) String() string { return strconv.FormatFloat(float64(s), 'g', -1, 64) }

// Rules returns how rows are made.
func (r Rollup) Rules() rollup.Rules { return rollup.Rules{Count: r.CountField, Fields: r.Fields} }

// rollups rejects names that no field can have, and totals whose collections would be those of measurements.
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
	if len(k.Rollup.Levels) == 0 && k.Rollup.Nested.Collection != "" && k.good("ROLLUP_LEVELS") {
		k.fail("ROLLUP_NESTED", k.Rollup.Nested.String(), "needs ROLLUP_LEVELS: nested documents are made from rollup rows")
	}
	if len(k.Rollup.Levels) == 0 || !k.good("KAFKA_TOPICS", "MONGODB_COLLECTION", "ROLLUP_LEVELS") {
		return
	}
	k.nested()
	measured := map[string]bool{}
	for _, topic := range k.Kafka.Named() {
		measured[k.SeriesFor(topic)] = true
	}
	for _, topic := range k.Kafka.Named() {
		for _, level := range k.Rollup.Levels {
			series := level.SeriesName(k.SeriesFor(topic))
			if measured[series] {
				k.fail("ROLLUP_LEVELS", k.Rollup.Levels.String(), "the totals by %s of topic %s need the name %q, which is the time series of another topic: rename one of them with MONGODB_COLLECTION, or remove the level",
					level.Name, topic, series)
				continue
			}
			if err := timeseries.CheckSeriesName(k.MongoDB.Database, series, timeseries.MaxNamespace); err != nil {
				k.fail("MONGODB_COLLECTION", k.MongoDB.Collection, "the time series for the totals by %s of topic %s would be %s, which %v", level.Name, topic, quoted(series), err)
			}
		}
	}
}

// nested rejects an invalid name of the collection of nested documents. It also rejects a name that several time series would
// share, and the name of a time series.
func (k *checker) nested() {
	const setting = "ROLLUP_NESTED"
	n := k.Rollup.Nested
	if n.Collection == "" {
		return
	}
	if (len(k.Kafka.Topics) > 1 || k.Kafka.HasPatterns()) && !strings.Contains(n.Collection, topicPlaceholder) {
		k.fail(setting, n.String(), "must have %s in the name of the collection, because there may be several topics", topicPlaceholder)
		return
	}
	taken := map[string]bool{}
	for _, topic := range k.Kafka.Named() {
		series := k.SeriesFor(topic)
		for _, name := range timeseries.Collections(series) {
			taken[name] = true
		}
		taken[series] = true
		for _, level := range k.Rollup.Levels {
			taken[level.SeriesName(series)] = true
		}
	}
	for _, topic := range k.Kafka.Named() {
		name := n.For(topic)
		if taken[name] {
			k.fail(setting, n.String(), "would use the collection %s, which belongs to a time series: choose another name", quoted(name))
		} else if err := timeseries.CheckSeriesName(k.MongoDB.Database, name, timeseries.MaxNamespace); err != nil {
			k.fail(setting, n.String(), "the collection for topic %s would be %s, which %v", topic, quoted(name), err)
		}
	}
}
