// Package measurement turns the bytes of a Kafka record into measurements whose fields are already BSON, or into an error
// with a reason of a closed set. It is pure: the same bytes and options always give the same result.
//
//	options.go      the options of a decoder, the default paths of formats; checkpaths.go: paths that exclude each other;
//	                window.go: bounds of times
//	decoder.go      records to results, also past panics; measurement.go: a result's measurement
//	inflate.go      compressed values; framing.go: frames before events; wrapping.go: compression and frame of one element of a record
//	parts.go        records of several events; element.go: one of these events alone; sources.go: the record's key and headers
//	stages.go       documents to events, before the rules of paths; checkstages.go: checks of the stages' settings; edit.go: edits of values in
//	                documents
//	parsetext.go    the stage that parses texts with JSON; skip.go: the stage that skips events; tall.go: the stage that names values by fields
//	paths.go        where the parts of a measurement lie; envelope.go: the walk to the stored object; shape.go: the stored object to a
//	                measurement
//	cause.go        recognition of encodings, and the mistake in a text that is not JSON; forms.go: forms of values that cannot be read
//	influx.go       lines of InfluxDB's line protocol to BSON; lines.go: records of lines; quickline.go: the usual lines in one pass
//	otlp.go         requests of OpenTelemetry's protocol to data points; otlpevent.go, otlppoint.go: data points to BSON; otlpjson.go:
//	                requests in JSON; otlprecord.go: records of requests; quickpoint.go: the usual points in one pass
//	schema.go       schemas of a registry, which the decoder is told
//	avroschema.go   Avro's schemas, compiled; avro.go: Avro to BSON; decimal.go: decimals of Avro and Protobuf; avrorecord.go: records in Avro;
//	                avroplan.go: the usual events in one pass
//	protoschema.go  Protobuf's messages, compiled; protomessages.go: the choice of a message from a registry's schema; proto.go,
//	                protovalue.go: Protobuf to BSON; protorecord.go: records in Protobuf; protoplan.go: the usual events in one pass
//	plan.go         the common part of the plans of Avro and Protobuf
//	jsonreader.go   JSON to BSON; jsontext.go: tokens of JSON; number.go: numbers in JSON; numeral.go: numbers in texts
//	quick.go        the usual JSON in one pass; quickrecord.go: record by record; quickobject.go, quickvalue.go: nested values;
//	                quickextended.go: Extended JSON's values
//	place.go        remembered names; step.go: the remembered way from value to value; textscan.go: strings and numbers
//	extjson.go      Extended JSON's notation; extvalue.go: single values
//	bsonwalk.go     BSON to measurements in one walk; bsonvalue.go, bsonmeta.go: values; bsonlevel.go: known names
//	checkbson.go    the check that bytes are BSON; nest.go: dotted names to objects; names.go: allowed names
//	time.go         reading times; rfc3339.go, iso.go, unit.go: texts and numbers; strftime.go: patterns; zone.go: local times;
//	                exact.go: nanoseconds
//	meta.go         the normal form of the identity of a series, also of metas that do not come from records;
//	                key.go: meta of the record's key
//	reason.go       the reasons, and texts of errors; fields.go: the fields that they name
//
// # Why stages
//
// A few settings change the shape of events. Each is a stage (stages.go). One setting in an expression language would replace them,
// but it would be slower and larger.
//
// The measured event has ten readings that inherit their device. The times are processor time. Parsing the event into Go's values and
// mapping them takes:
//
//   - 20 µs with expr-lang/expr 1.17.8 (MIT, February 2026),
//
//   - 23 µs with cel.dev/cel-go 0.32.0 (Apache 2, August 2026),
//
//   - 16 µs with go-jmespath 0.4.0 (of 2020).
//
// These times do not include BSON and the rules for time and meta. With both, the stages take 4.2 µs, and 1.2 µs for the same events in
// an array. A small program grows by 2.3 MB with expr, and by 8.6 MB with CEL and its dependencies antlr, protobuf and YAML. This
// program has 24.7 MB. Bloblang is part of a module that requires about forty others. Other reasons for stages:
//
//   - Positions. A mapping makes any number of events in any order, so a small change of it moves the positions of later events.
//     Stages number the events by the document.
//
//   - Values. Go's maps lose the order of fields. Without care they also lose digits of integers above 2^53.
//
//   - Errors. expr refuses the mapping that most users would write first with: unexpected token Operator(":") (1:24). A stage names
//     its setting, the field, the value and the way out.
//
//   - Learning. A user who sets EVENT_LIST=readings has no language to learn, and check can propose the setting. JMESPath cannot name
//     fields outside of a list at all.
package measurement
