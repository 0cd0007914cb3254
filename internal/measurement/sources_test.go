package measurement

import (
	"strings"
	"testing"

	"waterwheel/internal/record"
)

// headersOf encodes headers, given as alternating names and values, as Kafka does. The value "null" means null.
func headersOf(list ...string) []byte {
	appendText := func(raw []byte, text string) []byte {
		n := uint64(len(text)) << 1
		for ; n >= 0x80; n >>= 7 {
			raw = append(raw, byte(n)|0x80)
		}
		return append(append(raw, byte(n)), text...)
	}
	raw := []byte{byte(len(list))}
	for i := 0; i < len(list); i += 2 {
		raw = appendText(raw, list[i])
		if list[i+1] == "null" {
			raw = append(raw, 1)
			continue
		}
		raw = appendText(raw, list[i+1])
	}
	return raw
}

// TestMetaComesFromTheRecord covers parts from the key, headers and fields together, with both readers.
func TestMetaComesFromTheRecord(t *testing.T) {
	parts := func(list ...string) Options { return Options{TimeField: "ts", MetaFields: list} }
	for _, test := range []struct {
		options     Options
		key         string // "-" means no key
		headers     []byte
		event, want string
	}{
		{parts("key:", "channel"), "d-7", nil, `{"ts":1700000000,"channel":2}`, `{"channel": {"$numberInt":"2"},"key": "d-7"} {}`},
		{parts("device=key:", "channel"), "-", nil, `{"ts":1700000000,"channel":2}`, `{"channel": {"$numberInt":"2"}} {}`},
		{parts("key:device", "site=key:at.site"), `{"device":"d","at":{"site":"n"},"x":1}`, nil, `{"ts":1700000000}`, `{"device": "d","site": "n"} {}`},
		{parts("id=key:"), `{"b":1,"a":2}`, nil, `{"ts":1700000000}`, `{"id": {"a": {"$numberInt":"2"},"b": {"$numberInt":"1"}}} {}`},
		{parts("header:topic", "channel"), "-", headersOf("topic", "old", "x", "y", "topic", "zigbee/kitchen"), `{"ts":1700000000,"v":1}`, `{"topic": "zigbee/kitchen"} {"v": {"$numberInt":"1"}}`},
		{parts("mqtt=header:mqtt.topic"), "-", headersOf("mqtt.topic", strings.Repeat("t", 200)), `{"ts":1700000000}`, `{"mqtt": "` + strings.Repeat("t", 200) + `"} {}`},
		{Options{TimeField: "ts", MetaField: "header:topic"}, "-", headersOf("topic", "t"), `{"ts":1700000000}`, `"t" {}`},
		{Options{TimeField: "ts", MetaField: "key:id"}, `{"id":5}`, nil, `{"ts":1700000000}`, `{"$numberInt":"5"} {}`},
		{parts("key:", "header:h"), "-", nil, `{"ts":1700000000,"v":1}`, `missing_meta: the event and its record have none of key:, header:h; it has v`},
		{parts("header:h"), "-", headersOf("h", "null"), `{"ts":1700000000}`, `missing_meta`},
		{Options{TimeField: "ts", MetaField: "header:h"}, "-", nil, `{"ts":1700000000}`, `missing_meta at header:h: the record has no such key or header`},
		{parts("header:h"), "-", headersOf("h", "\xff"), `{"ts":1700000000}`, `bad_utf8 at header:h`},
		{parts("key:"), "\xff", nil, `{"ts":1700000000}`, `bad_utf8 at key:`},
		{parts("key:device"), "d-7", nil, `{"ts":1700000000}`, `bad_meta at key:device: the record's key "d-7" is not an object`},
		{Options{TimeField: "ts", MetaField: "key:id"}, `{"other":5}`, nil, `{"ts":1700000000}`, `missing_meta at key:id`},
		{Options{TimeField: "ts", MetaField: "key:at.id"}, `{"at":5}`, nil, `{"ts":1700000000}`, `missing_meta at key:at.id`},
		{parts("key:at.id", "channel"), `{"at":{"x":5}}`, nil, `{"ts":1700000000,"channel":2}`, `{"channel": {"$numberInt":"2"}} {}`},
		{parts("key:"), "\x00\x00\x00\x00\x07{}", nil, `{"ts":1700000000}`, `bad_meta at key:`},
	} {
		for _, quickly := range []bool{true, false} {
			d := newDecoder(t, test.options)
			d.quick.off = !quickly
			r := recordOf(test.event)
			r.Headers, r.Key = test.headers, nil
			if test.key != "-" {
				r.Key = []byte(test.key)
			}
			results, err := d.Decode(r)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = strings.TrimPrefix(shown(t, results[0].Measurement), "1700000000000 ")
			}
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("%+v, key %q, quickly %v: %s, want %s", test.options.MetaFields, test.key, quickly, got, test.want)
			}
			if err == nil && quickly && d.quick.missed > 0 {
				t.Errorf("%v: not in one pass", test.options.MetaFields)
			}
		}
	}
}

func TestFramedKeyIsPartOfMeta(t *testing.T) {
	for _, framing := range []Framing{Confluent, AutoFrame} {
		d := newDecoder(t, Options{TimeField: "ts", MetaFields: []string{"key:device"}, Framing: framing})
		r := recordOf("\x00\x00\x00\x00\x07" + `{"ts":1700000000}`)
		r.Key = []byte("\x00\x00\x00\x00\x09" + `{"device":"d-8"}`)
		if got := shown(t, decodeOne(t, d, r)); got != `1700000000000 {"device": "d-8"} {}` {
			t.Error(got)
		}
	}
}

func TestTimeComesFromAHeader(t *testing.T) {
	o := Options{TimeField: "ts|header:ce_time", MetaFrom: MetaFromNone}
	d := newDecoder(t, o)
	r := recordOf(`{"v":1}`)
	r.Headers = headersOf("ce_time", "2023-11-14T22:13:20.5Z")
	if got := decodeOne(t, d, r).Time; got != 1700000000500 {
		t.Error(got)
	}
	r.Value = []byte(`{"ts":1700000001}`) // the first of the paths counts
	if got := decodeOne(t, d, r).Time; got != 1700000001000 {
		t.Error(got)
	}
	o.TimeField = "header:ce_time"
	if err := refusal(t, newDecoder(t, o), recordOf(`{"v":1}`)); err.Reason != MissingTime || !strings.Contains(err.Error(), "missing_time at header:ce_time: the record has no such header") {
		t.Error(err)
	}
	r.Headers = headersOf("ce_time", "noon")
	if err := refusal(t, newDecoder(t, o), r); err.Reason != BadTime || err.Path != "header:ce_time" {
		t.Error(err)
	}
}

func TestPathsToTheRecordAreChecked(t *testing.T) {
	for _, test := range []struct {
		change func(*Options)
		says   string
	}{
		{func(o *Options) { o.MetaFields = []string{"header:"} }, "names no header"},
		{func(o *Options) { o.MetaFields = []string{"key:a..b"} }, "not a dotted path"},
		{func(o *Options) { o.MetaFields = []string{"header:a.b"} }, "gives a part of meta the name"},
		{func(o *Options) { o.TimeField = "key:ts" }, "takes the time from the record's key"},
		{func(o *Options) { o.Drop = []string{"header:x"} }, "which only EVENT_TIME_FIELD, EVENT_META_FIELD and EVENT_META_FIELDS can use"},
		{func(o *Options) { o.Root = "key:x" }, "which only EVENT_TIME_FIELD, EVENT_META_FIELD and EVENT_META_FIELDS can use"},
		{func(o *Options) { o.TimeField = "a|" }, "not a dotted path"},
		{func(o *Options) { o.TimeField = "a|a" }, "already named"},
		{func(o *Options) { o.TimeField = "a|a.b" }, "lies inside"},
	} {
		o := Options{MetaFields: []string{"m"}}
		test.change(&o)
		if wrong := o.CheckPaths(); len(wrong) != 1 || !strings.Contains(wrong[0].Error(), test.says) {
			t.Errorf("%v, want %s", wrong, test.says)
		}
	}
}

// FuzzHeaders checks that no header bytes do harm, and that correctly encoded headers are read.
func FuzzHeaders(f *testing.F) {
	f.Add([]byte{2, 2, 'h', 2, 'v'}, "h", "v")
	f.Add([]byte{}, "", "")
	f.Add([]byte{0x80, 0x80}, "a", strings.Repeat("b", 100))
	f.Fuzz(func(t *testing.T, raw []byte, name, value string) {
		d := newDecoder(t, Options{TimeField: "ts|header:" + "h", MetaFields: []string{"header:h"}})
		if _, err := d.TryDecode(record.Record{Timestamp: recordTime, Value: []byte(`{"ts":1700000000}`), Headers: raw}); err != nil && strings.Contains(err.Error(), string(InternalError)) {
			t.Fatal(err)
		}
		if got := lastHeader(headersOf("x", "y", name, value), name); value != "null" && string(got) != value {
			t.Errorf("%q, want %q", got, value)
		}
	})
}

func TestFirstTimeThatIsThereCounts(t *testing.T) {
	o := Options{TimeField: "ts|timestamp|at.time", MetaFrom: MetaFromNone}
	for value, want := range map[string]string{
		`{"ts":1700000000}`:                        `1700000000000 absent {}`,
		`{"timestamp":1700000001,"x":1}`:           `1700000001000 absent {"x": {"$numberInt":"1"}}`,
		`{"at":{"time":1700000002}}`:               `1700000002000 absent {}`,
		`{"timestamp":1700000001,"ts":1700000000}`: `1700000000000 absent {}`,
		`{"ts":1700000000,"timestamp":1700000001}`: `1700000000000 absent {}`,
		`{"ts":null,"timestamp":1700000001}`:       `1700000001000 absent {}`,
		`{"timestamp":1700000001,"ts":null}`:       `1700000001000 absent {}`,
		`{"timestamp":"x","ts":1700000000}`:        `1700000000000 absent {}`,
		`{"timestamp":1700000001,"ts":"x"}`:        `bad_time at ts`,
		`{"ts":null}`:                              `bad_time at ts`,
		`{"x":1}`:                                  `missing_time at ts: the event has none of ts|timestamp|at.time`,
	} {
		for _, quickly := range []bool{true, false} {
			d := newDecoder(t, o)
			d.quick.off = !quickly
			results, err := d.Decode(recordOf(value))
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = shown(t, results[0].Measurement)
			}
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s, quickly %v: %s, want %s", value, quickly, got, want)
			}
		}
	}
}
