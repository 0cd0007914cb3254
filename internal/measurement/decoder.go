package measurement

import (
	"bytes"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

const (
	// maxDepth bounds how deep an event may be nested. The event itself is the first level. MongoDB allows 200 levels, and a
	// bucket adds three.
	maxDepth = 100
	// maxBadParts bounds the elements of one record that may be bad by themselves. Their errors, and the dead letters with the
	// record's key and headers, would otherwise take many thousand times the record's own bytes.
	maxBadParts = 100
	// keptBytes is how much of a large record's buffers is kept for the next records.
	keptBytes = 4 << 20
)

// Measurement is one reading of one series, ready for a bucket. Its byte slices belong to the Decoder that made it and are valid
// until its next Decode. A caller that keeps a measurement must copy them.
type Measurement struct {
	Position timeseries.Position
	// Time is the measurement's time in milliseconds since 1970 (a BSON date).
	Time int64
	// Meta is the identity of the series in its normal form, that is, with the fields of objects sorted bytewise at every depth.
	// Type 0 means that meta is absent, which is another series than null.
	Meta bson.RawValue
	// Elements are the other fields as BSON elements one after the other (type byte, name, NUL, value). They have no document's
	// length and end, and exclude time and meta.
	Elements []byte
}

// Result is the outcome of one element of a record. It is an error if Err is not nil, and else a measurement.
type Result struct {
	Measurement Measurement
	Err         *DecodeError
}

// Decoder turns records into measurements by one set of options. It is not for concurrent use.
type Decoder struct {
	options Options
	time    timeParser
	paths   paths
	json    *jsonReader
	bson    bsonChecker
	walker  *bsonWalker // for formats whose events are BSON
	lines   lineReader
	otlp    otlpReader
	avro    avroReader
	// avroRoot is the type of events in Avro.
	avroRoot *avroType
	// schemas holds the registry's schemas that the decoder was told. Nil means that all events have one schema.
	schemas map[SchemaID]*knownSchema
	need    *NeedSchemaError // the schema that the record needs and the decoder does not know
	frame   []byte           // the frame of the last event whose schema was chosen. Empty means that there is none.
	// avroPlan and protoPlan are nil if no plan fits the options and the schema.
	avroPlan  *avroPlan
	proto     protoReader
	protoRoot *protoMember // the message of events in Protobuf
	protoPlan *protoPlan
	// quickPoints means that readPointQuickly may be tried.
	quickPoints bool
	// quickLines is nil if the options do not allow reading lines quickly.
	quickLines *quickLines
	nester     nester
	stages     *stages
	quick      quick

	inflater *Inflater
	deflater deflater

	results  []Result
	out      []byte // elements and meta of the results
	parts    int    // events of the record, stored or not
	badParts int    // results that are errors
	// tombstones counts the events that are null and the data points without a recorded value.
	tombstones  int
	skipped     int // events that EVENT_SKIP leaves out
	deadLetters int // bytes of the errors' values that are not cut out of the record

	// The state of the record being decoded:
	record record.Record
	value  []byte // value of the record, decompressed
	// unfolded is the decompressed size of the record's value in bytes.
	unfolded int
	wrap     wrapping
	text     []byte // the content of the wrapping
	keyText  []byte // a BSON string
	keyMeta  bson.RawValue

	recordMeta []rawbson.Element // parts of meta from the record's key and headers, in their normal form. Kind 0 means absent.
	recordTime rawbson.Element   // time in a header. Kind 0 means none.
	recordRank int               // rank of the path of recordTime

	// The state of the event being decoded:
	names       [][]byte          // names in the open objects, to find duplicates
	fields      []rawbson.Element // fields of the open objects of meta, to sort them
	foundTime   rawbson.Element   // Kind 0 means not seen.
	timeRank    int               // rank of the path that led to foundTime
	foundMeta   []rawbson.Element // values of the parts of meta. Kind 0 means not seen.
	event       []byte            // the whole document
	foundRoot   []byte            // the document to which paths are relative. Nil means that it was not seen.
	foundStored bool              // the stored object was seen, if it is not the event itself
	nullRoot    bool              // the root is null, so there is no measurement
	dotted      bool              // a name may hold a dot
	taken       int               // how many values were taken out
	topCount    int               // number of fields at the top level, without those taken out
}

// New makes a Decoder. The error says what is wrong with the options.
func New(options Options) (*Decoder, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("the decoding options are wrong: %w", err)
	}
	d := &Decoder{
		options: options, json: newJSONReader(options.Format == ExtJSON), time: parserOf(&options),
		paths: newPaths(&options),
	}
	d.foundMeta, d.recordMeta = make([]rawbson.Element, len(d.paths.meta)), make([]rawbson.Element, len(d.paths.meta))
	d.inflater = NewInflater(options.MaxBytes)
	d.avro, d.proto = newAvroReader(&options), newProtoReader(&options)
	d.quick = newQuick(d)
	d.stages = newStages(&d.options)
	d.quick.off = d.stages.active || d.paths.inHeader
	if hasBSON(options.Format) && !d.stages.active && !d.paths.ofRecord && options.TimeExact == "" && options.Numbers == NumbersInJSON && options.Nulls == KeepNulls {
		d.walker = newBSONWalker(d)
	}
	d.quickLines = newQuickLines(d)
	d.quickPoints = d.takesPointsQuickly()
	switch {
	case options.NeedsRegistry():
		d.schemas = map[SchemaID]*knownSchema{}
	case options.Format == Avro:
		if d.avroRoot, err = compileAvro(options.Schema); err != nil {
			return nil, fmt.Errorf("options of decoding: schema: %w", err)
		}
		d.avroPlan = newAvroPlan(d, d.avroRoot)
	case options.Format == Protobuf:
		if d.protoRoot, err = compileProto(options.Descriptors, options.Message); err != nil {
			return nil, fmt.Errorf("options of decoding: message: %w", err)
		}
		d.protoPlan = newProtoPlan(d, d.protoRoot)
	}
	if options.DottedNames == Nest {
		d.otlp.nester = &nester{}
	}
	return d, nil
}

// Skipped returns how many events of the last decoded record were left out, because EVENT_SKIP says so or their list is empty.
func (d *Decoder) Skipped() int { return d.skipped }

// Tombstones returns how many events of the last decoded record hold nothing. Such an event has a null value or root, or is a
// data point without a recorded value.
func (d *Decoder) Tombstones() int { return d.tombstones }

// Decode returns the measurements of a record. An object gives one measurement, and so does each element of an array or of a list
// that is taken apart. A tombstone, an object whose root is null and a skipped event give none. The error concerns the whole
// record. It is a *DecodeError or a *NeedSchemaError. The results and all they refer to are valid until the next Decode, and the
// record's bytes must not change until then.
func (d *Decoder) Decode(r record.Record) ([]Result, error) {
	if r.Value == nil {
		d.skipped, d.unfolded, d.tombstones = 0, 0, 1
		return nil, nil
	}
	d.reset(r)
	if err := d.decode(); d.need != nil {
		return nil, d.need
	} else if err != nil {
		return nil, err
	}
	return d.results, nil
}

// reset drops the state of the previous record.
func (d *Decoder) reset(r record.Record) {
	if d.bufferBytes() > keptBytes {
		d.out, d.results, d.names, d.fields = nil, nil, nil, nil
		d.json.out, d.json.wrapped, d.nester = nil, nil, nester{}
		d.quick.drop()
		d.stages.drop()
		d.inflater.drop()
		d.lines.out, d.avro, d.proto = nil, newAvroReader(&d.options), newProtoReader(&d.options)
		d.otlp.drop()
	}
	d.value, d.unfolded, d.deflater, d.need = nil, 0, deflater{}, nil
	d.record, d.results, d.out = r, d.results[:0], d.out[:0]
	d.time.timestamp = r.Timestamp
	d.parts, d.badParts, d.skipped, d.tombstones, d.deadLetters = 0, 0, 0, 0, 0
}

// bufferBytes estimates the size of the buffers that a large record enlarges.
func (d *Decoder) bufferBytes() int {
	const resultBytes, viewBytes, sliceBytes = 112, 56, 24
	n := cap(d.inflater.out) + cap(d.lines.out) + cap(d.avro.out) + sliceBytes*cap(d.avro.keys) + d.proto.bufferBytes() + d.otlp.bufferBytes() + cap(d.out) + cap(d.json.out) + cap(d.json.wrapped) + cap(d.nester.out) + resultBytes*cap(d.results) + d.quick.bufferBytes() +
		viewBytes*(cap(d.names)+cap(d.fields)+cap(d.nester.entries))
	if d.stages.active {
		n += d.stages.bufferBytes()
	}
	return n
}

// decode fills the results. Its error concerns the whole record.
func (d *Decoder) decode() *DecodeError {
	if n := d.record.Cut; n > 0 {
		return newError(TooLarge, "", "the record has %d bytes, too many for EVENT_MAX_BYTES = %d: only its beginning was read", n, d.options.MaxBytes)
	}
	if n := len(d.record.Value); n > d.options.MaxBytes {
		return newError(TooLarge, "", "the value has %d bytes, more than EVENT_MAX_BYTES = %d", n, d.options.MaxBytes)
	}
	if len(d.record.Value) == 0 && !d.takesNothing() {
		return newError(Empty, "", "the value has 0 bytes: for a tombstone send a null value")
	}
	value, compression, err := d.inflate(d.record.Value)
	if err != nil {
		return err
	}
	d.value, d.wrap, d.text = value, wrapping{compression: compression}, value
	if d.options.MetaFrom == MetaFromKey {
		if err := d.readKey(); err != nil {
			return err
		}
	}
	if d.paths.ofRecord {
		if err := d.readSources(); err != nil {
			return err
		}
	}
	switch d.options.Format {
	case BSON:
		return d.decodeBSON()
	case OTLP:
		return d.decodeOTLP()
	case OTLPJSON:
		d.text = bytes.TrimPrefix(d.value, []byte(byteOrderMark))
		return d.decodeOTLP()
	case Avro, Protobuf:
		return d.decodeBySchema()
	case Influx:
		d.text = bytes.TrimPrefix(d.value, []byte(byteOrderMark))
		return d.decodeLines()
	default:
		return d.decodeJSON()
	}
}

// takesNothing reports whether a value of no bytes may be an event. In Protobuf it is a message whose fields are all zero. Behind
// a registry's frame there are bytes, unless a header of the record replaces the frame.
func (d *Decoder) takesNothing() bool {
	return d.options.Format == Protobuf && (d.schemas == nil || lastHeader(d.record.Headers, schemaHeader) != nil)
}

func (d *Decoder) decodeBSON() *DecodeError {
	var m Measurement
	if d.walked(d.value, &m) {
		d.add(m)
		return nil
	}
	if err := d.bson.check(d.value); err != nil {
		return err
	}
	return d.single(d.value, d.bson.dotted)
}

func (d *Decoder) decodeJSON() *DecodeError {
	d.wrap.frame, d.text = d.cutFrame(d.value)
	if err := d.checkFrame(); err != nil {
		return err
	}
	if d.decodeQuickly() {
		return nil
	}
	d.json.begin(d.text)
	switch d.json.next() {
	case '{':
		return d.decodeObject()
	case '[':
		return d.decodeTexts()
	}
	if len(bytes.TrimSpace(d.text)) == 0 {
		return d.nothing()
	}
	if err := d.json.skipValue(); err != nil {
		return d.notJSON(err)
	}
	return notObject(bytes.TrimSpace(d.text))
}

// nothing is the error of a record without an event.
func (d *Decoder) nothing() *DecodeError {
	if len(d.wrap.frame) > 0 && len(d.text) == 0 {
		return newError(Empty, "", "the value ends after the frame of EVENT_FRAMING=%s: for a tombstone send a null value", d.options.Framing)
	}
	return newError(Empty, "", "the value is only white space: for a tombstone send a null value")
}

// decodeObject decodes a record that begins with an object, which is its only event or the first of several.
func (d *Decoder) decodeObject() *DecodeError {
	d.json.clear()
	_, err := d.json.object(1)
	if d.json.broken || err != nil && d.json.skip() != nil {
		return err
	}
	if d.json.more() {
		return d.decodeTexts()
	}
	if err != nil {
		return err
	}
	if err := d.json.end(); err != nil {
		return err
	}
	return d.single(d.json.out, d.json.dotted)
}

// document makes the results of a record with one document that a reader made. The walker makes them if it takes the document.
func (d *Decoder) document(document []byte, dotted bool) *DecodeError {
	var m Measurement
	if d.walked(document, &m) {
		d.add(m)
		return nil
	}
	return d.single(document, dotted)
}

// walked reports whether the walker has made a measurement of a document.
func (d *Decoder) walked(document []byte, m *Measurement) bool {
	return d.walker != nil && d.walker.decode(document, m)
}

// single makes the results of a record with one document. They are the elements of its lists, or its only event.
func (d *Decoder) single(document []byte, dotted bool) *DecodeError {
	if d.stages.active {
		if err := d.stages.open(document, dotted); err != nil {
			return err
		}
		if !d.stages.whole {
			return d.decodeEvents(nil)
		}
		var skip bool
		var err *DecodeError
		if document, dotted, skip, err = d.stages.event(0); err != nil {
			return err
		}
		if skip {
			d.skipped++
			return nil
		}
	}
	var m Measurement
	if err := d.shape(document, dotted, &m); err != nil {
		return err
	}
	if d.nullRoot {
		d.tombstones++
		return nil
	}
	d.add(m)
	return nil
}

// add makes the measurement the only one of the record.
func (d *Decoder) add(m Measurement) {
	m.Position = timeseries.Position{Offset: d.record.Offset}
	d.results = append(d.results, Result{Measurement: m})
}

func notObject(value []byte) *DecodeError {
	return newError(NotObject, "", "%s is not an object: an event must be an object, or several objects in an array", quoteText(value))
}

// Guard, when deferred, turns a panic into the error of the record's dead letter. A record that triggers a bug must not end the
// program. Guard calls panicked with the cause, unless panicked is nil.
func Guard(err *error, panicked func(cause any)) {
	cause := recover()
	if cause == nil {
		return
	}
	if panicked != nil {
		panicked(cause)
	}
	*err = &DecodeError{Reason: InternalError, Detail: fmt.Sprintf("a bug of waterwheel: decoding this record failed with %v; please report this", cause), Part: record.WholeRecord}
}

// TryDecode is Decode, but turns a panic into the record's error.
func (d *Decoder) TryDecode(r record.Record) (results []Result, err error) {
	defer Guard(&err, nil)
	return d.Decode(r)
}
