package config

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"waterwheel/internal/measurement"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

func (k *checker) events() {
	e := k.Event
	k.meta()
	k.paths()
	if err := measurement.CheckTimeFormat(e.TimeFormat); err != nil {
		k.fail("EVENT_TIME_FORMAT", e.TimeFormat, "%v", err)
	} else if err := measurement.CheckTimeZone(e.TimeZone, e.TimeFormat, measurement.Format(e.Format)); err != nil {
		k.fail("EVENT_TIME_ZONE", e.TimeZone, "%v", err)
	}
	if err := measurement.CheckExact(e.TimeExact, k.MongoDB.TimeField, k.MongoDB.MetaField); err != nil {
		k.fail("EVENT_TIME_EXACT", e.TimeExact, "%v", err)
	}
	if k.good("EVENT_TIME_MIN", "EVENT_TIME_MAX") && e.TimeMin.Excludes(e.TimeMax) {
		k.fail("EVENT_TIME_MAX", e.TimeMax, "must be after EVENT_TIME_MIN = %s: no time would be accepted", e.TimeMin)
	}
	if k.good("EVENT_FORMAT", "EVENT_FRAMING") && e.Framing != "none" && !measurement.HasFrames(measurement.Format(e.Format)) {
		k.fail("EVENT_FRAMING", e.Framing, "cannot be combined with EVENT_FORMAT=%s: only events in JSON, Avro and Protobuf can have the frame of a schema registry", e.Format)
	}
	k.avro()
	k.protobuf()
	k.registry()
	if k.good("EVENT_FORMAT", "EVENT_LIST") && len(e.List) > 0 && !measurement.HasLists(measurement.Format(e.Format)) {
		k.fail("EVENT_LIST", strings.Join(e.List, ","), "cannot be combined with EVENT_FORMAT=%s: events in this format have no lists", e.Format)
	}
}

// avro checks the settings that go with EVENT_FORMAT=avro. With other formats, a schema may be that of other topics.
func (k *checker) avro() {
	e := k.Event
	if !k.good("EVENT_FORMAT", "EVENT_SCHEMA") || measurement.Format(e.Format) != measurement.Avro {
		return
	}
	switch {
	case e.Schema == "" && len(k.Registry.URLs) == 0:
		k.fail("EVENT_FORMAT", e.Format, "needs the schemas of the events: set SCHEMA_REGISTRY_URL to the address of their registry, or, if all events have the same schema, set EVENT_SCHEMA_FILE to the path of its file")
	case (e.Schema == "") != (e.Framing == "confluent"):
		k.fail("EVENT_FRAMING", e.Framing, "does not fit EVENT_FORMAT=avro: it must be confluent if SCHEMA_REGISTRY_URL has the schemas, and must not be confluent if EVENT_SCHEMA is set")
	case e.TimeExact != "":
		k.fail("EVENT_TIME_EXACT", e.TimeExact, "cannot be combined with EVENT_FORMAT=avro, because its times become dates with milliseconds: unset it")
	case e.Schema != "":
		if err := measurement.CheckSchema(e.Schema); err != nil {
			k.fail("EVENT_SCHEMA", "", "%v", err)
		}
	}
}

// protobuf checks the settings that go with EVENT_FORMAT=protobuf.
func (k *checker) protobuf() {
	e := k.Event
	if !k.good("EVENT_FORMAT", "EVENT_PROTOBUF_FILE", "EVENT_PROTOBUF_MESSAGE") || measurement.Format(e.Format) != measurement.Protobuf {
		return
	}
	switch hasFile := e.Descriptors.Path != ""; {
	case hasFile && e.Descriptors.Bytes == "":
		k.fail("EVENT_PROTOBUF_FILE", e.Descriptors.Path, "is an empty file: write the file with protoc --include_imports --descriptor_set_out=FILE, or with buf build -o FILE")
	case !hasFile && len(k.Registry.URLs) == 0:
		k.fail("EVENT_FORMAT", e.Format, "needs the schemas of the events: set SCHEMA_REGISTRY_URL to the address of their registry, or EVENT_PROTOBUF_FILE to the path of a descriptor file. protoc --include_imports --descriptor_set_out=FILE or buf build -o FILE writes this file")
	case !hasFile != (e.Framing == "confluent"):
		k.fail("EVENT_FRAMING", e.Framing, "does not fit EVENT_FORMAT=protobuf: it must be confluent if SCHEMA_REGISTRY_URL has the schemas, and must not be confluent if EVENT_PROTOBUF_FILE is set")
	case hasFile && e.Message == "":
		k.fail("EVENT_PROTOBUF_MESSAGE", "", "is not set: give the full name of the message type of the events, such as plant.air.Reading; EVENT_PROTOBUF_FILE must contain this type")
	case e.TimeExact != "":
		k.fail("EVENT_TIME_EXACT", e.TimeExact, "cannot be combined with EVENT_FORMAT=protobuf, because its times become dates with milliseconds: unset it")
	case hasFile:
		if err := measurement.CheckMessage(e.Descriptors.Bytes, e.Message); err != nil {
			k.fail("EVENT_PROTOBUF_MESSAGE", e.Message, "cannot be read from EVENT_PROTOBUF_FILE=%s: %v", e.Descriptors.Path, err)
		}
	}
}

// registry checks how the schema registry is reached.
func (k *checker) registry() {
	r := k.Registry
	for _, text := range r.URLs {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			k.fail("SCHEMA_REGISTRY_URL", "", "an entry is not the address of a server: write http://host:8081 or https://host")
		case u.User != nil:
			k.fail("SCHEMA_REGISTRY_URL", "", "an address contains a user name: write it into SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD")
		}
	}
	if r.Token != "" && r.Username != "" {
		k.fail("SCHEMA_REGISTRY_TOKEN", r.Token, "cannot be combined with SCHEMA_REGISTRY_USERNAME: set only one of them")
	}
	k.keyPair("SCHEMA_REGISTRY_TLS", r.TLSCertFile, r.TLSKeyFile)
}

// meta requires exactly one source of meta.
func (k *checker) meta() {
	e := k.Event
	if !k.good("EVENT_META_FROM", "EVENT_META_FIELDS") {
		return
	}
	switch several := strings.Join(e.MetaFields, ","); {
	case several != "" && e.MetaFrom != "value":
		k.fail("EVENT_META_FIELDS", several, "cannot be combined with EVENT_META_FROM=%s: set only one of them", e.MetaFrom)
	case several != "" && k.given["EVENT_META_FIELD"]:
		k.fail("EVENT_META_FIELDS", several, "cannot be combined with EVENT_META_FIELD=%s: set only one of them", e.MetaField)
	case several == "" && e.MetaField == "" && e.MetaFrom == "value":
		k.fail("EVENT_META_FIELD", "", "is empty: name the field, or set EVENT_META_FROM to key or none")
	}
}

// paths rejects invalid paths, and paths that cannot be extracted from one event together.
func (k *checker) paths() {
	if !k.good("EVENT_META_FROM", "EVENT_META_FIELD", "EVENT_META_FIELDS", "EVENT_DROP", "EVENT_PARSE", "EVENT_LIST", "EVENT_SKIP", "EVENT_RENAME") {
		return
	}
	if err := measurement.CheckPath(k.Event.MetaField); err != nil && k.given["EVENT_META_FIELD"] && k.Event.MetaFrom != "value" {
		k.fail("EVENT_META_FIELD", k.Event.MetaField, "%v", err) // the checks below do not cover it
		return
	}
	for _, wrong := range k.Event.Paths().CheckPaths() {
		k.fail(wrong.Setting, wrong.Value, "%s", wrong.Text)
	}
}

// Paths returns the settings for where the parts of a measurement lie in an event. It leaves out other options of decoding.
func (e Event) Paths() measurement.Options {
	o := measurement.Options{
		TimeField: e.TimeField, MetaFrom: measurement.MetaSource(e.MetaFrom), MetaField: e.MetaField, MetaFields: e.MetaFields,
		Root: e.Root, Fields: e.Fields, Drop: e.Drop,
		Parse: e.Parse, List: e.List, Skip: e.Skip, FieldName: e.FieldName, FieldValue: e.FieldValue, Rename: e.Rename,
	}
	if len(o.MetaFields) > 0 {
		o.MetaField = ""
	}
	return o
}

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
		k.fieldName(f[0], f[1])
	}
	if m.TimeField == m.MetaField && k.good("MONGODB_TIME_FIELD") {
		k.fail("MONGODB_META_FIELD", m.MetaField, "must differ from MONGODB_TIME_FIELD")
	}
}

// fieldName rejects what cannot be the name of a top-level field. False means that it did.
func (k *checker) fieldName(variable, name string) bool {
	if name == "" || strings.ContainsAny(name, ".\x00") || strings.HasPrefix(name, "$") || name == timeseries.FieldID {
		k.fail(variable, name, "must be the name of a top-level field: without dots, not beginning with $, and not _id")
		return false
	}
	return true
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
	for _, topic := range k.Kafka.Topics {
		if !isTopic(topic) { // a pattern, or reported already
			continue
		}
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
	return words.Duration(d)
}

// rollups rejects names that no field can have, and totals whose collections would be those of measurements.
func (k *checker) rollups() {
	for _, pattern := range k.Rollup.Fields {
		if err := rollup.CheckPattern(pattern); err != nil && k.good("ROLLUP_FIELDS") {
			k.fail("ROLLUP_FIELDS", pattern, "%v", err)
		}
	}
	const column = "ROLLUP_COUNT_FIELD"
	name := k.Rollup.CountField
	if k.fieldName(column, name) && (name == k.MongoDB.TimeField || name == k.MongoDB.MetaField) {
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
