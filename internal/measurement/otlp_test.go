package measurement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protowire"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries/rawbson"
)

// otlpOptions returns the default settings of requests.
func otlpOptions(f Format) Options {
	o, _ := DefaultPaths(f)
	o.Format, o.StoredTime, o.StoredMeta = f, "time", "meta"
	return o
}

// inProtobuf converts a JSON request to protobuf. An e2e test compares the decoding with OpenTelemetry's own encoder.
func inProtobuf(t testing.TB, text string) string {
	t.Helper()
	out, err := appendOTLP(nil, inBSON(t, text), "Request", 1)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// requestOf returns a request with metrics, each with its data.
func requestOf(metrics ...string) string {
	return `{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"schemaUrl":"https://opentelemetry.io/schemas/1.30.0",
		"scopeMetrics":[{"scope":{"name":"queues","version":"1.2"},"metrics":[` + strings.Join(metrics, ",") + `]}]}]}`
}

// pointAt is the time of the tests' events.
const pointAt = `"timeUnixNano":"1700000000123456789"`

const (
	gaugeMetric = `{"name":"queue.length","description":"waiting","unit":"{message}","gauge":{"dataPoints":[{"attributes":[{"key":"queue","value":{"stringValue":"orders"}}],` +
		pointAt + `,"asInt":"17"},{` + pointAt + `,"asDouble":1.5}]}}`
	sumMetric = `{"name":"requests","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{"startTimeUnixNano":"1699999999999999999",` +
		pointAt + `,"asInt":"12345678901"}]}}`
	histogramMetric = `{"name":"latency","unit":"s","histogram":{"aggregationTemporality":1,"dataPoints":[{` + pointAt +
		`,"count":"5","sum":1.25,"min":0.1,"max":0.5,"explicitBounds":[0.2,0.4],"bucketCounts":["1","3","1"],"exemplars":[{"asDouble":1}]}]}}`
	exponentialMetric = `{"name":"size","exponentialHistogram":{"aggregationTemporality":1,"dataPoints":[{` + pointAt +
		`,"count":"5","sum":10,"scale":-3,"zeroCount":"1","zeroThreshold":0.5,"positive":{"offset":-2,"bucketCounts":["1","2"]},"negative":{"offset":0}}]}}`
	summaryMetric = `{"name":"gc","summary":{"dataPoints":[{` + pointAt + `,"count":"3","sum":6,"quantileValues":[{"quantile":0.5,"value":2},{"quantile":1,"value":3}]}]}}`
)

const (
	inShop  = `"resource":{"service":{"name":"shop"}},"scope":{"name":"queues","version":"1.2"}`
	started = `{"start":{"$date":"2023-11-14T22:13:19.999Z"},`
)

// TestDataPointsBecomeMeasurements covers each kind of metric, in protobuf and in JSON.
func TestDataPointsBecomeMeasurements(t *testing.T) {
	for _, test := range []struct {
		metric string
		metas  []string
		fields []string
	}{
		{
			gaugeMetric,
			[]string{`{"attributes":{"queue":"orders"},"kind":"gauge","name":"queue.length",` + inShop + `,"unit":"{message}"}`, `{"kind":"gauge","name":"queue.length",` + inShop + `,"unit":"{message}"}`},
			[]string{`{"value":17}`, `{"value":1.5}`},
		},
		{sumMetric, []string{`{"kind":"sum","monotonic":true,"name":"requests",` + inShop + `,"temporality":"cumulative"}`}, []string{started + `"value":12345678901}`}},
		{
			histogramMetric,
			[]string{`{"kind":"histogram","name":"latency",` + inShop + `,"temporality":"delta","unit":"s"}`},
			[]string{`{"count":5,"sum":1.25,"min":0.1,"max":0.5,"bounds":[0.2,0.4],"counts":[1,3,1]}`},
		},
		{
			exponentialMetric,
			[]string{`{"kind":"exponential","name":"size",` + inShop + `,"temporality":"delta"}`},
			[]string{`{"count":5,"sum":10.0,"scale":-3,"zeroCount":1,"zeroThreshold":0.5,"positive":{"offset":-2,"counts":[1,2]},"negative":{"offset":0}}`},
		},
		{summaryMetric, []string{`{"kind":"summary","name":"gc",` + inShop + `}`}, []string{`{"count":3,"sum":6.0,"quantiles":[{"q":0.5,"value":2.0},{"q":1.0,"value":3.0}]}`}},
	} {
		request := requestOf(test.metric)
		for format, value := range map[Format]string{OTLP: inProtobuf(t, request), OTLPJSON: "\ufeff" + request} {
			results, err := newDecoder(t, otlpOptions(format)).Decode(recordOf(value))
			if err != nil || len(results) != len(test.fields) {
				t.Fatalf("%s of %s: %v, %v", format, test.metric, results, err)
			}
			for i := range results {
				m := results[i].Measurement
				var fields, meta bytes.Buffer
				text, err := bson.MarshalExtJSON(document(t, m.Elements), false, false)
				if err == nil && results[i].Err == nil {
					err = json.Compact(&fields, text)
				}
				if err == nil {
					err = json.Compact(&meta, []byte(m.Meta.String()))
				}
				if err != nil || m.Time != 1700000000123 || fields.String() != test.fields[i] || meta.String() != test.metas[i] || m.Position.Part != int32(i) {
					t.Errorf("%s of %s\nis %v %d %s\n%s, %v, %v", format, test.metric, m.Position, m.Time, &meta, &fields, results[i].Err, err)
				}
			}
		}
	}
}

// TestAttributesKeepTheirTypes covers each type of an attribute's value.
func TestAttributesKeepTheirTypes(t *testing.T) {
	attributes := `[{"key":"s","value":{"stringValue":"ü"}},{"key":"b","value":{"boolValue":true}},{"key":"i","value":{"intValue":"-9007199254740993"}},{"key":"d","value":{"doubleValue":"NaN"}},
		{"key":"l","value":{"arrayValue":{"values":[{"intValue":1},{"stringValue":"x"},{}]}}},{"key":"o","value":{"kvlistValue":{"values":[{"key":"k","value":{"boolValue":false}}]}}},
		{"key":"r","value":{"bytesValue":"AQI="}},{"key":"n"},{"key":"a.b","value":{"intValue":2}}]`
	request := requestOf(`{"name":"m","gauge":{"dataPoints":[{"attributes":` + attributes + `,` + pointAt + `,"asInt":1}]}}`)
	const want = `{"a": {"b": {"$numberInt":"2"}},"b": true,"d": {"$numberDouble":"NaN"},"i": {"$numberLong":"-9007199254740993"},` +
		`"l": [{"$numberInt":"1"},"x",null],"n": null,"o": {"k": false},"r": {"$binary":{"base64":"AQI=","subType":"00"}},"s": "ü"}`
	for format, value := range map[Format]string{OTLP: inProtobuf(t, request), OTLPJSON: request} {
		m := decodeOne(t, newDecoder(t, otlpOptions(format)), recordOf(value))
		if got := m.Meta.Document().Lookup("attributes").String(); got != want {
			t.Errorf("%s: %s\nwant %s", format, got, want)
		}
	}
}

// TestExampleOfTheProtocolIsRead reads an example request of OpenTelemetry. testdata/README.md names its origin.
func TestExampleOfTheProtocolIsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/otlp/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	for format, value := range map[Format]string{OTLP: inProtobuf(t, string(text)), OTLPJSON: string(text)} {
		results, err := newDecoder(t, otlpOptions(format)).Decode(recordOf(value))
		if err != nil || len(results) != 4 {
			t.Fatalf("%s: %v, %v", format, results, err)
		}
		if format == OTLP { // a part of the same, encoded by OpenTelemetry's own encoder
			theirs, err := os.ReadFile("testdata/otlp/metrics.protobuf-bin")
			if err != nil {
				t.Fatal(err)
			}
			same, err := newDecoder(t, otlpOptions(OTLP)).Decode(recordOf(string(theirs)))
			if err != nil || len(same) != 3 {
				t.Fatalf("%v, %v", same, err)
			}
			for i := range same {
				if got, want := shown(t, same[i].Measurement), shown(t, results[i].Measurement); got != want {
					t.Errorf("the encoder's point %d is %s, want %s", i, got, want)
				}
			}
		}
		for i, kind := range []string{"sum", "gauge", "histogram", "exponential"} {
			m := results[i].Measurement
			meta := m.Meta.Document()
			if got := meta.Lookup("kind").StringValue(); results[i].Err != nil || got != kind || m.Time != 1544712660300 ||
				meta.Lookup("scope", "attributes", "my", "scope", "attribute").StringValue() != "some scope attribute" {
				t.Errorf("%s: %v %s at %d, want %s", format, results[i].Err, m.Meta, m.Time, kind)
			}
		}
	}
}

// TestNothingRecordedIsATombstone checks that such a point is neither stored nor a letter, and that later points keep their
// positions.
func TestNothingRecordedIsATombstone(t *testing.T) {
	const nothing = `{` + pointAt + `,"flags":1}`
	for name, test := range map[string]struct {
		points     string
		stored     int
		tombstones int
	}{"alone": {nothing, 0, 1}, "between": {`{` + pointAt + `,"asInt":1},` + nothing + `,{` + pointAt + `,"asInt":3}`, 2, 1}} {
		request := requestOf(`{"name":"m","gauge":{"dataPoints":[` + test.points + `]}}`)
		for format, value := range map[Format]string{OTLP: inProtobuf(t, request), OTLPJSON: request} {
			d := newDecoder(t, otlpOptions(format))
			results, err := d.Decode(recordOf(value))
			if err != nil || len(results) != test.stored || d.Tombstones() != test.tombstones || d.Skipped() != 0 {
				t.Errorf("%s, %s: %v, %v, %d tombstones", format, name, results, err, d.Tombstones())
			}
			if len(results) == 2 && results[1].Measurement.Position.Part != 2 {
				t.Errorf("%s: the third point is at %v", format, results[1].Measurement.Position)
			}
		}
	}
}

// TestLetterOfADataPointIsItsRequest checks that the letter is the request with only this point. Redriven, it makes the same
// letter.
func TestLetterOfADataPointIsItsRequest(t *testing.T) {
	const bad = `{"name":"bad","unit":"s","sum":{"aggregationTemporality":2,"dataPoints":[{` + pointAt + `,"asInt":1},{` + pointAt + `},{"asInt":3}]}}`
	request := requestOf(gaugeMetric, bad, histogramMetric)
	for format, value := range map[Format]string{OTLP: inProtobuf(t, request), OTLPJSON: request} {
		o := otlpOptions(format)
		o.Compression = AutoCompression
		d := newDecoder(t, o)
		r := recordOf(value)
		results, err := d.Decode(r)
		if err != nil || len(results) != 6 {
			t.Fatalf("%s: %v, %v", format, results, err)
		}
		for i, want := range []Reason{3: MissingField, 4: MissingTime, 5: ""} {
			wrong := results[i].Err
			if want == "" {
				if wrong != nil {
					t.Errorf("%s: point %d is refused: %v", format, i, wrong)
				}
				continue
			}
			if wrong == nil || wrong.Reason != want || wrong.Part != int32(i) {
				t.Fatalf("%s: point %d is %v, want %s", format, i, wrong, want)
			}
			letter := bytes.Clone(wrong.Value)
			if element, ok := d.Element(r, int32(i)); !ok || !bytes.Equal(element, letter) {
				t.Errorf("%s: element %d is %q, the letter %q", format, i, element, letter)
			}
			for _, part := range []string{"shop", "queues", "schemas/1.30.0"} {
				if format == OTLPJSON && !bytes.Contains(letter, []byte(part)) {
					t.Errorf("%s: the letter lacks %s: %s", format, part, letter)
				}
			}
			if again := refusal(t, newDecoder(t, o), recordOf(string(letter))); again.Reason != want {
				t.Errorf("%s: the letter, driven back, is refused for %v", format, again)
			}
		}
		if _, ok := d.Element(recordOf(value), 6); ok {
			t.Errorf("%s: there is a seventh point", format)
		}
	}
}

// TestLetterOfADataPointBelowASingleObject checks requests that have an object instead of a list of one.
func TestLetterOfADataPointBelowASingleObject(t *testing.T) {
	const good, bad = `{` + pointAt + `,"asInt":1}`, `{` + pointAt + `}`
	request := func(points string) string {
		return `{"resourceMetrics":{"scopeMetrics":{"metrics":[` + points + `]}}}`
	}
	one := `{"name":"q","gauge":{"dataPoints":` + good + `}}`
	for _, second := range []string{`{"name":"r","gauge":{"dataPoints":` + bad + `}}`, `{"name":"r","gauge":{"dataPoints":[` + bad + `]}}`} {
		d := newDecoder(t, otlpOptions(OTLPJSON))
		results, err := d.Decode(recordOf(request(one + "," + second)))
		if err != nil || len(results) != 2 || results[0].Err != nil || results[1].Err == nil {
			t.Fatalf("%v, %v", results, err)
		}
		letter := string(results[1].Err.Value)
		if again, err := newDecoder(t, otlpOptions(OTLPJSON)).Decode(recordOf(letter)); err == nil || strings.Contains(letter, `"q"`) || !strings.Contains(letter, `"r"`) {
			t.Errorf("the letter %s gives %v", letter, again)
		}
	}
}

// TestBadRequestsAreSaid checks the letters of values that are no requests.
func TestBadRequestsAreSaid(t *testing.T) {
	good := inProtobuf(t, requestOf(gaugeMetric))
	point := func(text string) string {
		return requestOf(`{"name":"m","gauge":{"dataPoints":[` + text + `]}}`)
	}
	for _, test := range []struct {
		format Format
		value  string
		reason Reason
		path   string
		says   string
	}{
		{OTLP, good[:len(good)-3], NotOTLP, "", "is not an OTLP metrics request: a message cannot be decoded"},
		{OTLP, requestOf(gaugeMetric), NotOTLP, "", "begins as JSON does: set EVENT_FORMAT=otlp_json"},
		{OTLP, compressed(t, Gzip, good), NotOTLP, "", "is compressed by gzip: set EVENT_COMPRESSION=gzip"},
		{OTLP, string(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nil)), Empty, "", "no data points of metrics (traces and logs are not read)"},
		{OTLPJSON, `{"resourceLogs":[]}`, Empty, "", "no data points"},
		{OTLPJSON, `[1]`, NotOTLP, "", "is not a request of OpenTelemetry's protocol in JSON"},
		{OTLPJSON, `{"resourceMetrics":[{]}`, NotJSON, "resourceMetrics.0", ""},
		{OTLPJSON, `{"resourceMetrics":[7]}`, NotOTLP, "resourceMetrics.0", "7 has the wrong type: OpenTelemetry's protocol requires the type object"},
		{OTLPJSON, point(`{"timeUnixNano":"noon","asInt":1}`), NotOTLP, "resourceMetrics.0.scopeMetrics.0.metrics.0.gauge.dataPoints.0.timeUnixNano", `"noon" has the wrong type: OpenTelemetry's protocol requires the type integer of 64 bits`},
		{OTLPJSON, point(`{"timeUnixNano":"1700000000123456789","asDouble":true}`), NotOTLP, "resourceMetrics.0.scopeMetrics.0.metrics.0.gauge.dataPoints.0.asDouble", "requires the type number"},
		{OTLPJSON, point(`{` + pointAt + `}`), MissingField, "value", "has no value"},
		{OTLPJSON, point(`{"asInt":1}`), MissingTime, "time", ""},
		{OTLPJSON, point(`{"timeUnixNano":"18446744073709551615","asInt":1}`), BadTime, "time", "after the year 2262"},
		{OTLPJSON, point(`{"timeUnixNano":"5","asInt":1}`), TimeOutOfRange, "time", ""},
		{OTLPJSON, point(`{` + pointAt + `,"asInt":1,"attributes":[{"key":"a","value":{"intValue":1}},{"key":"a","value":{"intValue":2}}]}`), DuplicateField, "attributes.a", ""},
		{OTLPJSON, point(`{` + pointAt + `,"asInt":1,"attributes":[{"key":"a\u0000b","value":{"intValue":1}}]}`), BadFieldName, "attributes", "zero byte"},
	} {
		err := refusal(t, newDecoder(t, otlpOptions(test.format)), recordOf(test.value))
		if err.Reason != test.reason || err.Path != test.path || !strings.Contains(err.Detail, test.says) {
			t.Errorf("%s %.90q: %v, want %s at %q …%s…", test.format, test.value, err, test.reason, test.path, test.says)
		}
	}
}

// FuzzDecodeOTLP checks that a request in protobuf decodes in bounded time and memory, and that its redriven letters make the
// same letters.
// TestAttributesInAnyLayout checks that the usual layout of an attribute, which is read at once, means the same as others.
func TestAttributesInAnyLayout(t *testing.T) {
	key := func(name string) []byte { return wireBytes(1, name) }
	value := func(texts ...string) []byte {
		var any []byte
		for _, text := range texts {
			any = append(any, wireBytes(1, text)...)
		}
		return wireBytes(2, string(any))
	}
	long := strings.Repeat("x", 128)
	for _, test := range []struct {
		message   []byte
		name, got string
	}{
		{slices.Concat(key("k"), value("v")), "k", "v"},
		{slices.Concat(value("v"), key("k")), "k", "v"},
		{slices.Concat(key("j"), key("k"), value("v")), "k", "v"},
		{slices.Concat(key("k"), value("u"), value("v")), "k", "v"},
		{slices.Concat(key("k"), value("u", "v")), "k", "v"},
		{slices.Concat(key("k"), value("v"), wireVarint(9, 1)), "k", "v"},
		{slices.Concat(key("k"), value("")), "k", ""},
		{slices.Concat(key(long), value("v")), long, "v"},
		{slices.Concat(key("k"), value(long)), "k", long},
		{slices.Concat(key(long[:127]), value(long[:125])), long[:127], long[:125]},
	} {
		var e otlpEvent
		if err := e.attribute(test.message, 2); err != nil {
			t.Errorf("%q: %v", test.message, err)
			continue
		}
		if want := rawbson.AppendString(rawbson.AppendHeader(nil, bson.TypeString, test.name), []byte(test.got)); !bytes.Equal(e.out, want) {
			t.Errorf("%q is %q, want %q", test.message, e.out, want)
		}
	}
	for _, message := range [][]byte{key("k"), slices.Concat(key("k"), wireBytes(2, ""))} {
		var e otlpEvent
		if err := e.attribute(message, 2); err != nil || bson.Type(e.out[0]) != bson.TypeNull {
			t.Errorf("%q: %q and %v, want null", message, e.out, err)
		}
	}
	for _, message := range [][]byte{key("k")[:2], slices.Concat(key("k"), value("v")[:4]), slices.Concat(key("k"), value("v"), []byte{0})} {
		var e otlpEvent
		if err := e.attribute(message, 2); err == nil {
			t.Errorf("%q: %q, want an error", message, e.out)
		}
	}
}

func FuzzDecodeOTLP(f *testing.F) {
	for _, metric := range []string{gaugeMetric, sumMetric, histogramMetric, exponentialMetric, summaryMetric} {
		for _, request := range []string{requestOf(metric, gaugeMetric), requestOf(metric)} {
			f.Add([]byte(inProtobuf(f, request)), false)
			f.Add([]byte(request), true)
		}
	}
	f.Fuzz(func(t *testing.T, value []byte, inJSON bool) {
		o := otlpOptions(OTLP)
		if inJSON {
			o.Format = OTLPJSON
		}
		o.MaxBytes, o.TimeMin, o.TimeMax = 1<<16, At(firstMillis), At(lastMillis)
		d := newDecoder(t, o)
		r := record.Record{Offset: 1, Timestamp: recordTime, Value: value}
		first := lineFates(t, d, r)
		if again := lineFates(t, d, r); again != first {
			t.Fatalf("the second time it is\n%s\nand not\n%s", again, first)
		}
		slow := newDecoder(t, o)
		if slow.walker, slow.quickPoints = nil, false; lineFates(t, slow, r) != first {
			t.Fatalf("without the quick way it is\n%s\nand not\n%s", lineFates(t, slow, r), first)
		}
		results, _ := d.Decode(r)
		for i := range results {
			if wrong := results[i].Err; wrong != nil {
				checkDeadLetter(t, d, r, wrong)
			} else {
				checkMeasurement(t, results[i].Measurement, results[i].Measurement.Position.Part)
			}
		}
	})
}

// checkDeadLetter checks that a part's letter is the result of Element, and is refused for the same reason by itself.
func checkDeadLetter(t *testing.T, d *Decoder, r record.Record, wrong *DecodeError) {
	t.Helper()
	checkError(t, wrong, wrong.Part)
	if element, ok := d.Element(r, wrong.Part); !ok || !bytes.Equal(element, wrong.Value) {
		t.Fatalf("element %d is %q, its letter's value %q", wrong.Part, element, wrong.Value)
	}
	again := newDecoder(t, d.options)
	results, err := again.Decode(record.Record{Offset: 1, Timestamp: recordTime, Value: wrong.Value})
	if text := fmt.Sprint(err); err == nil || !strings.HasPrefix(text, string(wrong.Reason)) {
		t.Fatalf("the letter of %v, driven back, is %v, %v", wrong, results, err)
	}
}
