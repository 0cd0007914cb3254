package config

import (
	"net/url"
	"strings"

	"waterwheel/internal/measurement"
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
