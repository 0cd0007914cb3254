// Package measurement turns the bytes of a Kafka record into measurements whose fields are already BSON, or into an error
// with a reason of a closed set. It is pure: the same bytes and options always give the same result.
//
// A record's value is unwrapped: decompressed, and its frame cut off. The reader of its format makes BSON documents of it. Stages
// may change the documents. One walk over each document then takes time and meta out and copies the other fields:
//
//	value → wrapping → reader of the format → BSON → stages → shape → Measurement
//
// Most records are usual, and a usual record takes a shorter way: quick (JSON), quickLines, readPointQuickly (OpenTelemetry),
// avroPlan, protoPlan and bsonWalker make measurements in one pass, without a document. They return false for all that is wrong
// or rare. The long way then reads the record, and is the only one that makes errors. Tests compare both ways.
//
//	decoder.go      records to results, also past panics; options.go: the options of a decoder, and the default paths of formats
//	checkpaths.go   checks of the settings of paths and stages
//	wrapping.go     compression and frame around the events of a record
//	parts.go        records of several events, and one of these events alone; sources.go: the record's key and headers
//	stages.go       documents to events; eventstages.go: the stages that skip events and name values; edit.go: edits of values in
//	                documents, and texts that hold JSON
//	paths.go        where the parts of a measurement lie; shape.go: the walk over an event; names.go: allowed names, and dotted names
//	                to objects
//	meta.go         the normal form of the identity of a series, also of metas that do not come from records
//	reason.go       the reasons, texts of errors, and the fields that they name; forms.go: forms of values that cannot be read
//	time.go         reading times; timeformat.go: formats and zones; timevalue.go: texts and numbers; window.go: bounds of times
//	number.go       numbers in JSON and in texts, and decimals of Avro and Protobuf
//
//	jsonreader.go   JSON to tokens and BSON; extjson.go: values in Extended JSON
//	quick.go        the usual JSON in one pass; quickvalue.go: objects and values; quickextended.go: Extended JSON's values
//	place.go        remembered names; step.go: the remembered way from value to value; textscan.go: strings and numbers
//	checkbson.go    the check that bytes are BSON
//	bsonwalk.go     BSON to measurements in one walk; bsonvalue.go: values and meta; bsonlevel.go: known names
//	influx.go       lines of InfluxDB's line protocol to BSON; lines.go: records of lines, and the usual lines in one pass
//	otlp.go         requests of OpenTelemetry's protocol to data points; otlpevent.go, otlppoint.go: data points to BSON; otlpjson.go:
//	                requests in JSON; otlprecord.go: records of requests, and the usual points in one pass
//	schema.go       schemas of a registry, which the decoder is told, and the choice of a message from a schema in Protobuf
//	schemarecord.go records in Avro and Protobuf
//	avroschema.go   Avro's schemas, compiled; avro.go: Avro to BSON; avroplan.go: the usual events in one pass
//	protoschema.go  Protobuf's messages, compiled; proto.go, protovalue.go: Protobuf to BSON; protoplan.go: the usual events in one pass
//	draft.go        measurements in the making, which the readers in one pass fill; the common part of the plans of Avro and Protobuf
//
// # Why stages
//
// A few settings change the shape of events. Each is a stage (stages.go). One setting in an expression language would replace them,
// but it would be slower and larger.
//
// The measured event has ten readings that inherit their device. The times are processor time. Parsing the event into Go's values
// and mapping them takes:
//
//   - 20 µs with expr-lang/expr 1.17.8 (MIT, February 2026),
//
//   - 23 µs with cel.dev/cel-go 0.32.0 (Apache 2, August 2026),
//
//   - 16 µs with go-jmespath 0.4.0 (of 2020).
//
// These times do not include BSON and the rules for time and meta. With both, the stages take 4.2 µs, and 1.2 µs for the same
// events in an array. A small program grows by 2.3 MB with expr, and by 8.6 MB with CEL and its dependencies antlr, protobuf and
// YAML. This program has 24.7 MB. Bloblang is part of a module that requires about forty others. Other reasons for stages:
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
