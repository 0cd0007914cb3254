package measurement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Format is how the value of a record is encoded.
type Format string

// The formats.
const (
	JSON    Format = "json"    // one object, or an array of objects
	ExtJSON Format = "extjson" // the same in MongoDB's Extended JSON, relaxed or canonical
	BSON    Format = "bson"    // one document
	Influx  Format = "influx"  // lines of InfluxDB's line protocol

	OTLP     Format = "otlp"      // a request of OpenTelemetry's protocol with metrics, in Protobuf
	OTLPJSON Format = "otlp_json" // the same in JSON

	Avro     Format = "avro"     // one record in Avro's binary encoding
	Protobuf Format = "protobuf" // one message
)

// MetaSource says where the identity of a measurement's series comes from.
type MetaSource string

// The sources of meta.
const (
	MetaFromValue MetaSource = "value" // the event's MetaField
	MetaFromKey   MetaSource = "key"   // the record's key, parsed if it is a JSON object, else as text
	MetaFromNone  MetaSource = "none"  // the collection has a single series
)

// Framing says what stands before the event in a record's value.
type Framing string

// The framings.
const (
	NoFraming Framing = "none"      // the value is the event
	Confluent Framing = "confluent" // a zero byte and the four bytes of a schema's id
	AutoFrame Framing = "auto"      // confluent if a value begins with a zero byte, else none
)

// DottedNames says what becomes of field names with dots.
type DottedNames string

// The ways to treat dotted names.
const (
	Nest   DottedNames = "nest"   // a.b becomes b in the object a
	Reject DottedNames = "reject" // the record is refused with bad_field_name
)

// Nulls says what becomes of fields that are null.
type Nulls string

// The ways to treat nulls.
const (
	KeepNulls Nulls = "keep" // they are stored
	DropNulls Nulls = "drop" // they are left out, except elements of arrays and parts of meta
)

// maxMaxBytes keeps the BSON of a record below 2 GiB, the largest size in BSON. The BSON takes at most eight times the bytes of
// its JSON.
const maxMaxBytes = 128 << 20

// Options say how records are read. The zero value of a field means its default.
type Options struct {
	// Format is the encoding of the records' values. The default is JSON.
	Format Format
	// TimeField is the dotted path to the measurement's time in the event. Empty means that the record's timestamp is its time.
	// Several paths are separated by "|", and the first path with a value counts. One of them may name a header of the record, as
	// "header:name".
	TimeField string
	// TimeFormat is auto (default), rfc3339, unix, unix_ms, unix_us, unix_ns or a Go layout.
	TimeFormat string
	// TimeZone is the name of the zone of texts that do not name theirs. Empty means that the format auto refuses such texts, and
	// that a layout reads them as UTC.
	TimeZone string
	// TimeExact is the name of a field that gets the time in nanoseconds since 1970. Empty means that no field does.
	TimeExact string
	// TimeMin and TimeMax bound the accepted times, both included. The defaults are 1990, and a day after the record's timestamp.
	TimeMin, TimeMax Bound
	// MetaField is the dotted path to the series' identity in the event. It is "key:", "key:path" or "header:name" if the
	// identity is in the record's key or a header. It is used only with MetaFromValue.
	MetaField string
	// MetaFrom is the source of meta. The default is MetaFromValue.
	MetaFrom MetaSource
	// MetaFields are the parts of an object that is the series' identity. They replace MetaField. Each is "name=path", or a path
	// whose last name becomes the part's name. An event may lack some of the parts, but not all.
	MetaFields []string
	// Root is the dotted path to the event's object in an envelope. Empty means that the record's whole object is the event. The
	// other paths are relative to the root, but a path that begins with a slash begins at the envelope's top. A record whose root
	// is null is skipped like a tombstone.
	Root string
	// Fields is the dotted path to the object whose members become the measurement's fields. Empty means that all fields but time
	// and meta do.
	Fields string
	// Drop are the dotted paths of fields that are left out.
	Drop []string
	// Parse are the dotted paths to texts that hold JSON, or JSON in base64. Each text is replaced by its content.
	Parse []string
	// List are the dotted paths to lists of objects. Each object is an event of its own, which inherits the fields outside of the
	// lists.
	List []string
	// Skip are conditions: "path", "!path", "path=text" or "path!=text". An event that meets one of them is skipped.
	Skip []string
	// FieldName is the dotted path to the name of the event's value, and FieldValue is the path to the value. Several paths in
	// FieldValue are separated by "|", and the first path with a value counts. Either both are set or neither is.
	FieldName, FieldValue string
	// Rename are new names of fields, each as "path=name". The other paths of time, meta, fields and dropped fields use the new
	// names.
	Rename []string
	// Numbers says how numbers in fields are written. The default is NumbersInJSON.
	Numbers Numbers
	// Nulls says what becomes of fields that are null. The default is KeepNulls.
	Nulls Nulls
	// Schema is the Avro schema of all events, as JSON. Empty means that each record names its own schema, which Learn tells the
	// decoder. Framing is then Confluent.
	Schema string
	// Descriptors is the set of descriptors with the message of events in Protobuf, as protoc writes it. Empty means that each
	// record names its schema and its message, as in Avro.
	Descriptors string
	// Message is the full name of the message of events in Protobuf. It may be empty if records name their message, and then
	// accepts any message.
	Message string
	// Ask returns a schema that the decoder was not told. It may block. If Ask is nil, a record with an unknown schema is a
	// *NeedSchemaError.
	Ask func(SchemaID) (Schema, error)
	// Decimals says what becomes of the decimals of Avro and Protobuf. The default is AsDecimals.
	Decimals Decimals
	// Compression is the compression of the records' values. The default is NoCompression.
	Compression Compression
	// Framing is the framing of the records' values. The default is NoFraming.
	Framing Framing
	// DottedNames says what becomes of field names with dots. The default is Nest.
	DottedNames DottedNames
	// MaxBytes bounds a record's value, both compressed and decompressed. The default is 1 MiB.
	MaxBytes int
	// StoredTime and StoredMeta are the names of time and meta in the stored measurement. No other field of an event may have
	// these names. Empty means that the name is not checked.
	StoredTime, StoredMeta string
}

// withDefaults returns the options with every default filled in. The error says what is wrong with them.
func (o Options) withDefaults() (Options, error) {
	o.Format = cmp.Or(o.Format, JSON)
	o.TimeFormat = cmp.Or(o.TimeFormat, formatAuto)
	o.TimeMin = cmp.Or(o.TimeMin, At(time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()))
	o.TimeMax = cmp.Or(o.TimeMax, FromRecord(24*time.Hour))
	o.MetaFrom = cmp.Or(o.MetaFrom, MetaFromValue)
	o.Compression = cmp.Or(o.Compression, NoCompression)
	o.Framing = cmp.Or(o.Framing, NoFraming)
	o.DottedNames = cmp.Or(o.DottedNames, Nest)
	o.Numbers = cmp.Or(o.Numbers, NumbersInJSON)
	o.Nulls, o.Decimals = cmp.Or(o.Nulls, KeepNulls), cmp.Or(o.Decimals, AsDecimals)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<20)
	return o, o.validate()
}

func (o Options) validate() error {
	if err := cmp.Or(
		oneOf("format", o.Format, JSON, ExtJSON, BSON, Influx, OTLP, OTLPJSON, Avro, Protobuf),
		oneOf("source of meta", o.MetaFrom, MetaFromValue, MetaFromKey, MetaFromNone),
		oneOf("treatment of dotted names", o.DottedNames, Nest, Reject),
		oneOf("notation of numbers", o.Numbers, NumbersInJSON, NumbersInText),
		oneOf("treatment of nulls", o.Nulls, KeepNulls, DropNulls),
		oneOf("treatment of decimals", o.Decimals, AsDecimals, AsDoubles),
		oneOf("compression", o.Compression, NoCompression, Gzip, Zlib, Zstd, AutoCompression),
	); err != nil {
		return err
	}
	if len(o.List) > 0 && !HasLists(o.Format) {
		return fmt.Errorf("lists cannot be split: events of the format %s have no lists", o.Format)
	}
	if o.MaxBytes < 0 || o.MaxBytes > maxMaxBytes {
		return fmt.Errorf("largest size of an event is %d bytes, not between 1 and %d", o.MaxBytes, maxMaxBytes)
	}
	if err := CheckTimeFormat(o.TimeFormat); err != nil {
		return fmt.Errorf("time format %q is %w", o.TimeFormat, err)
	}
	if err := o.validateSchema(); err != nil {
		return err
	}
	if err := CheckTimeZone(o.TimeZone, o.TimeFormat, o.Format); err != nil {
		return fmt.Errorf("time zone %q %w", o.TimeZone, err)
	}
	if err := CheckExact(o.TimeExact, o.StoredTime, o.StoredMeta); err != nil {
		return fmt.Errorf("field for the exact time %q %w", o.TimeExact, err)
	}
	if o.Framing != NoFraming && (o.Framing != Confluent && o.Framing != AutoFrame || !HasFrames(o.Format)) {
		return fmt.Errorf("framing %q of %s is not supported: use none, confluent or auto for json and extjson, and none or confluent for avro and protobuf", o.Framing, o.Format)
	}
	if err := o.validateMeta(); err != nil {
		return err
	}
	if wrong := o.CheckPaths(); wrong != nil {
		return wrong[0]
	}
	return nil
}

// oneOf refuses a value that is not one of those allowed. what names the option.
func oneOf[T ~string](what string, value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	var names []string
	for _, name := range allowed {
		names = append(names, string(name))
	}
	return fmt.Errorf("%s %q is not one of %s", what, value, strings.Join(names, ", "))
}

// hasBSON reports whether the reader of a format hands its events on as BSON documents, which a bsonWalker can take.
func hasBSON(f Format) bool { return f != JSON && f != ExtJSON }

// HasFrames reports whether a schema registry's frame may stand before events of a format.
func HasFrames(f Format) bool { return f == JSON || f == ExtJSON || f == Avro || f == Protobuf }

// NeedsRegistry reports whether each record names the schema of its value, and perhaps of its key.
func (o *Options) NeedsRegistry() bool {
	return o.Format == Avro && o.Schema == "" || o.Format == Protobuf && o.Descriptors == ""
}

// HasLists reports whether events of a format may have lists of objects.
func HasLists(f Format) bool { return f == JSON || f == ExtJSON || f == BSON }

// validateSchema refuses options of schemas that do not fit the format or each other.
func (o *Options) validateSchema() error {
	switch {
	case (o.Format == Avro || o.Format == Protobuf) && o.NeedsRegistry() != (o.Framing == Confluent):
		return fmt.Errorf("events of the format %s need either one schema for all of them, or the framing confluent with a schema for each", o.Format)
	case o.Format == Protobuf && o.Descriptors != "" && o.Message == "":
		return errors.New("events in Protobuf need the name of a message in the descriptor set")
	case (o.Format == Avro || o.Format == Protobuf) && o.TimeExact != "":
		return fmt.Errorf("field for the exact time %q is not filled from %s: its times become dates of milliseconds", o.TimeExact, o.Format)
	}
	return nil
}

// validateMeta refuses options that name no source of meta, or more than one.
func (o *Options) validateMeta() error {
	switch {
	case len(o.MetaFields) > 0 && o.MetaFrom != MetaFromValue:
		return fmt.Errorf("meta cannot be made of fields and taken from %s: choose one", o.MetaFrom)
	case len(o.MetaFields) > 0 && o.MetaField != "":
		return fmt.Errorf("meta can be one field (%q) or made of several fields, but not both", o.MetaField)
	case len(o.MetaFields) == 0 && o.MetaField == "" && o.MetaFrom == MetaFromValue:
		return errors.New("meta field is empty: give the name of the meta field, or take meta from key or none")
	}
	return nil
}

// The names of the parts of a line's event.
const (
	lineTime   = "timestamp"
	lineFields = "fields"
)

var (
	lineMeta = []string{"name", "tags"}
	otlpMeta = []string{"kind", "name", "unit", "temporality", "monotonic", "resource", "scope", "attributes"}
)

// DefaultPaths returns the paths that a format implies. False means that the format implies none.
func DefaultPaths(f Format) (o Options, known bool) {
	switch f {
	case Influx:
		return Options{TimeField: lineTime, MetaFields: lineMeta, Fields: lineFields}, true
	case OTLP, OTLPJSON:
		return Options{TimeField: "time", MetaFields: otlpMeta}, true
	}
	return Options{}, false
}
