package config

import (
	"slices"
	"strings"
	"time"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

func (k *checker) database() {
	name := k.MongoDB.Database
	variable, called := "MONGODB_DATABASE", "the database name "+quoted(name)
	if name == k.MongoDB.URI.Database() {
		variable, called = "MONGODB_URI", "the name of its database"
	}
	if err := timeseries.CheckDatabaseName(name); err != nil && k.good("MONGODB_URI", "MONGODB_DATABASE") {
		k.fail(variable, "", "%s %v", called, err)
	}
}

func (k *checker) storedFields() {
	m := k.MongoDB
	for _, f := range [][2]string{{"MONGODB_TIME_FIELD", m.TimeField}, {"MONGODB_META_FIELD", m.MetaField}} {
		if strings.ContainsAny(f[1], ".\x00") || strings.HasPrefix(f[1], "$") || f[1] == "_id" {
			k.fail(f[0], f[1], "must be the name of a top-level field: without dots, not beginning with $, and not _id")
		}
	}
	if m.TimeField == m.MetaField && k.good("MONGODB_TIME_FIELD") {
		k.fail("MONGODB_META_FIELD", m.MetaField, "must differ from MONGODB_TIME_FIELD")
	}
}

// metaIndexes rejects paths outside of meta. Paths are spelled as in queries.
func (k *checker) metaIndexes() {
	const name = "META_INDEXES"
	paths := k.MongoDB.MetaIndexes
	if len(paths) == 0 || !k.good("MONGODB_META_FIELD", "EVENT_META_FROM") {
		return
	}
	if k.Event.MetaFrom == "none" {
		k.fail(name, strings.Join(paths, ","), "cannot be combined with EVENT_META_FROM=none, because measurements then have no meta: unset one of them")
		return
	}
	meta := k.MongoDB.MetaField
	for i, path := range paths {
		below, within := strings.CutPrefix(path, meta+".")
		switch {
		case path == meta:
			k.fail(name, path, "the whole meta always has an index: give paths within it, such as %s.sensor", meta)
		case !within:
			k.fail(name, path, "is not a path within the meta: write it as queries do, %s.%s (MONGODB_META_FIELD=%s)", meta, path, meta)
		case slices.ContainsFunc(strings.Split(below, "."), func(n string) bool { return n == "" || n[0] == '$' || strings.Contains(n, "\x00") }):
			k.fail(name, path, "contains a name that is empty or begins with $")
		case slices.Contains(paths[:i], path):
			k.fail(name, path, "is listed twice")
		}
	}
}

// collections rejects names that MongoDB does not allow, and time series that would share a collection.
func (k *checker) collections() {
	if !k.good("KAFKA_TOPICS", "MONGODB_COLLECTION") {
		return
	}
	owner := map[string]string{} // collection → the series it belongs to
	for _, topic := range slices.DeleteFunc(slices.Clone(k.Kafka.Topics), isNoTopic) {
		series := k.SeriesFor(topic)
		if err := timeseries.CheckSeriesName(k.MongoDB.Database, series, timeseries.MaxNamespace); err != nil {
			k.fail("MONGODB_COLLECTION", k.MongoDB.Collection, "the time series of topic %s would be %s, which %v", topic, quoted(series), err)
			continue
		}
		for _, name := range timeseries.Collections(series) {
			if other, taken := owner[name]; taken && other != series {
				k.fail("MONGODB_COLLECTION", k.MongoDB.Collection, "the time series %q and %q would both use the collection %q: "+
					"rename one of them, or read the topics with separate consumers that have different databases", other, series, name)
			}
			owner[name] = series
		}
	}
}

func (k *checker) bucketing() {
	m := k.MongoDB
	k.wholeSeconds("MONGODB_BUCKET_MAX_SPAN", m.BucketMaxSpan)
	k.wholeSeconds("MONGODB_BUCKET_ROUNDING", m.BucketRounding)
	k.wholeSeconds("MONGODB_EXPIRE_AFTER", m.ExpireAfter)
	if custom := m.BucketMaxSpan != 0 || m.BucketRounding != 0; custom && k.good("MONGODB_BUCKET_MAX_SPAN", "MONGODB_BUCKET_ROUNDING") {
		if m.BucketMaxSpan != m.BucketRounding {
			k.fail("MONGODB_BUCKET_ROUNDING", shownOrUnset(m.BucketRounding), "must equal MONGODB_BUCKET_MAX_SPAN (%s)",
				shownOrUnset(m.BucketMaxSpan))
		}
		if m.Granularity != "" {
			k.fail("MONGODB_GRANULARITY", m.Granularity, "cannot be combined with MONGODB_BUCKET_MAX_SPAN or MONGODB_BUCKET_ROUNDING: set the granularity, or these two")
		}
	}
	if b := k.Bucket; k.good("BUCKET_MIN_COUNT", "BUCKET_MAX_COUNT") && b.MinCount > b.MaxCount {
		k.fail("BUCKET_MIN_COUNT", b.MinCount, "must be at most BUCKET_MAX_COUNT = %s", words.Count(b.MaxCount, "measurement"))
	}
}

func shownOrUnset(d time.Duration) string {
	if d == 0 {
		return "not set"
	}
	return formatDuration(d)
}
