// Package measurement turns the bytes of a Kafka record into measurements whose fields are BSON already, or into an
// error with a reason of a closed set. It is pure: the same bytes and options give the same answer, at any time.
//
//	options.go      what a decoder is told; checkpaths.go: paths that go together; window.go: bounds of times
//	decoder.go      records to results; measurement.go: what comes out; guard.go: panics
//	inflate.go      compressed values; framing.go: what stands before an event; wrapping.go: both around one element of a record
//	parts.go        records of several events; element.go: one of them alone; sources.go: the record's key and headers
//	stages.go       documents to events, before the rules of paths; checkstages.go: what stages are told; edit.go: values in place
//	parsetext.go    the stage of texts that hold JSON; skip.go: of events that are left out; tall.go: of names in fields
//	paths.go        where the parts of a measurement lie; envelope.go: the walk to what is stored; shape.go: that to a measurement
//	cause.go        how encodings are recognised, and what stands where a text ceases to be JSON; forms.go: what a value is instead
//	influx.go       lines of InfluxDB's line protocol to BSON; lines.go: records of them; quickline.go: the usual
//	                lines in one pass; ownpaths.go: the paths that formats have by themselves
//	otlp.go         requests of OpenTelemetry's protocol to data points; otlpevent.go, otlppoint.go: these to BSON; otlpjson.go: requests
//	                in JSON; otlprecord.go: records of requests; quickpoint.go: the usual points in one pass
//	schema.go       schemas of a registry, which the decoder is told
//	avroschema.go   Avro's schemas, compiled; avro.go: Avro to BSON; decimal.go: decimals of both; avrorecord.go: records of it; avroplan.go: the usual
//	                events in one pass
//	protoschema.go  Protobuf's messages, compiled; protomessages.go: which message of a registry's schema a value is; proto.go,
//	                protovalue.go: Protobuf to BSON; protorecord.go: records of it; protoplan.go: the usual events in one pass
//	plan.go         what the plans of both have in common
//	jsonreader.go   JSON to BSON; jsontext.go: its tokens; number.go: its numbers; numeral.go: numbers in texts
//	quick.go        the usual JSON in one pass; quickrecord.go: record by record; quickobject.go, quickvalue.go: what is nested;
//	                quickextended.go: Extended JSON's values
//	place.go        the names it has met; step.go: the way from value to value, remembered; textscan.go: strings and numbers
//	extjson.go      Extended JSON's notation; extvalue.go: value by value
//	bsonwalk.go     BSON to measurements in one walk; bsonvalue.go, bsonmeta.go: its values; bsonlevel.go: the names it knows
//	checkbson.go    whether bytes are BSON; nest.go: dotted names to objects; names.go: what names may be
//	time.go         reading times; rfc3339.go, iso.go, unit.go: texts and numbers; strftime.go: its patterns; zone.go: local times;
//	                exact.go: nanoseconds
//	meta.go         the identity of a series in its normal form; key.go: the record's key; normal.go: of a meta that comes from elsewhere
//	reason.go       the reasons; detail.go, fields.go: what an error says
//
// # Why stages
//
// The shape of events is changed by a few settings, each a stage (stages.go), and not by one setting in an expression language.
// The measure was an event of ten readings that inherit their device, in processor time: parsing it into Go's values and mapping
// them took 20 µs with expr-lang/expr 1.17.8 (MIT, February 2026), 23 µs with cel.dev/cel-go 0.32.0 (Apache 2, August 2026) and
// 16 µs with go-jmespath 0.4.0 (of 2020), all before BSON and the rules for time and meta. The stages take 4.2 µs with them, and
// the same events in an array 1.2 µs. A small program grows by 2.3 MB with expr, and by 8.6 MB with CEL and its antlr, protobuf and
// YAML; this one has 24.7 MB. Bloblang stands in a module that requires some forty others. What decided besides:
//
//   - Positions. A mapping makes any number of events in any order, so a small change of it moves the positions of those behind.
//     Stages number them by the document.
//
//   - Values. Go's maps lose the order of fields and, without care, digits of integers above 2^53.
//
//   - Errors. expr refuses the mapping that most would write first with: unexpected token Operator(":") (1:24). A stage names
//     its setting, the field, the value and the way out.
//
//   - Learning. Who sets EVENT_LIST=readings has no language to learn, and check can propose it. JMESPath cannot name what is
//     outside of a list at all.
package measurement
