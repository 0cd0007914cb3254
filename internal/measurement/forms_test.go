package measurement

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// inUTF16 encodes a text in UTF-16, in big-endian or little-endian order.
func inUTF16(text string, bigEndian bool) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		if bigEndian {
			b.Write([]byte{byte(unit >> 8), byte(unit)})
		} else {
			b.Write([]byte{byte(unit), byte(unit >> 8)})
		}
	}
	return b.String()
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestEncodingsAreNamed checks the error of a value in another encoding than the settings say. It names the encoding and the
// remedy, also after a frame and where BSON is expected.
func TestEncodingsAreNamed(t *testing.T) {
	const event = `{"time":1700000000,"meta":"m","x":1}`
	for _, test := range []struct{ value, says string }{
		{"\xff\xfe" + inUTF16(event, false), "is UTF-16 text, but JSON must be UTF-8: have the producer write UTF-8"},
		{"\xfe\xff" + inUTF16(event, true), "is UTF-16 text"},
		{inUTF16(event, false), "is UTF-16 text"},
		{inUTF16(event, true), "is UTF-16 text"},
		{inUTF16(`[1]`, true), "is UTF-16 text"},
		{gzipped(t, event), "is compressed by gzip"},
		{"\x28\xb5\x2f\xfd\x04\x00\x21\x01\x00" + event, "is compressed by zstd"},
		{"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x28", "is compressed by snappy"},
		{"\xff\x06\x00\x00sNaPpY\x01\x28\x00\x00", "is compressed by snappy"},
		{string([]byte{byte(len(event)), byte(len(event)-1) << 2}) + event, "is compressed by snappy"},
		{"\xc8\x01\xf0\x63" + event + strings.Repeat("x", 100-len(event)) + "\xfe\x64\x00", "is compressed by snappy"},
		{"\x04\x22\x4d\x18\x64\x40\xa7", "is compressed by lz4"},
		{"BZh91AY&SY", "is compressed by bzip2"},
		{"Obj\x01\x04\x14avro.codec", "begins like an Avro file"},
		{"cpu,cpu=cpu-total,host=a usage_idle=93.1,usage_user=4.2 1700000000000000000", "is InfluxDB's line protocol: set EVENT_FORMAT=influx"},
		{"mem,host=a free=12i,ok=true,state=\"fine, really\" 1700000000000000000\n", "is InfluxDB's line protocol"},
		{"weather\\ report,site=north\\,east temperature=21.4\r\nweather,site=south temperature=22.1\r\n", "is InfluxDB's line protocol"},
		{"m v=-1 -5", "is InfluxDB's line protocol"},
		{"<event/>", "begins like XML"},
	} {
		for name, o := range map[string]Options{"json": plainOptions, "extjson": {Format: ExtJSON, MetaFrom: MetaFromNone}, "bson": {Format: BSON, MetaFrom: MetaFromNone}} {
			want := NotJSON
			if name == "bson" {
				want = NotBSON
			}
			if err := refusal(t, newDecoder(t, o), recordOf(test.value)); err.Reason != want || err.Path != "" || !strings.Contains(err.Detail, test.says) {
				t.Errorf("%.20q as %s: %v, want …%s…", test.value, name, err, test.says)
			}
		}
		framed := plainOptions
		framed.Framing = Confluent
		err := refusal(t, newDecoder(t, framed), recordOf("\x00\x00\x00\x00\x07"+test.value))
		if err.Reason != NotJSON || !strings.Contains(err.Detail, test.says) {
			t.Errorf("%.20q behind a frame: %v, want …%s", test.value, err, test.says)
		}
		if strings.HasPrefix(test.value, "\x00") {
			continue // it begins like a frame
		}
		if err := refusal(t, newDecoder(t, framed), recordOf(test.value)); !strings.Contains(err.Detail, test.says) {
			t.Errorf("%.20q without a frame that is announced: %v, want …%s", test.value, err, test.says)
		}
	}
}

// TestOtherFormatsAreNamed covers BSON instead of JSON, JSON instead of BSON, and frames with longer ids.
func TestOtherFormatsAreNamed(t *testing.T) {
	framed, inBSONFormat := plainOptions, Options{Format: BSON, MetaFrom: MetaFromNone}
	framed.Framing = Confluent
	long := strings.Repeat("y", 300)
	for _, test := range []struct {
		options     Options
		value, says string
	}{
		{plainOptions, string(inBSON(t, `{"time": 1700000000}`)), "the value is a BSON document: set EVENT_FORMAT=bson"},
		{plainOptions, string(inBSON(t, `{"a": "`+long[:243]+`"}`)), "the value is a BSON document"}, // of 256 bytes, the first of which is zero
		{inBSONFormat, `[{"a": 1}]`, "begins as JSON does: set EVENT_FORMAT=json"},
		{inBSONFormat, "\x00\x00\x00\x00\x07{}", "set EVENT_FORMAT=json and EVENT_FRAMING=confluent"},
		{plainOptions, "\x00\x00\x00\x00\x00\x00\x00\x00\x07{}", "whose ids have eight bytes: let its serializer write ids of four"},
		{framed, "\x00\x00\x00\x00\x00\x00\x00\x00\x07{}", "an id that seems to have eight bytes"},
		{framed, "\x00\x00\x00\x00\x07\x06d-8", "for Avro or Protobuf set SCHEMA_REGISTRY_URL and EVENT_FORMAT=avro"},
	} {
		if err := refusal(t, newDecoder(t, test.options), recordOf(test.value)); !strings.Contains(err.Detail, test.says) {
			t.Errorf("%.20q in %s: %v, want …%s", test.value, test.options.Format, err, test.says)
		}
	}
}

// TestWhatIsNotJSONIsNamed checks that the error names the cause, its place and the remedy, instead of a parser's expectation.
func TestWhatIsNotJSONIsNamed(t *testing.T) {
	const null = `send null instead, leave the field out, or send {"$numberDouble": "NaN"} with EVENT_FORMAT=extjson`
	for _, test := range []struct{ value, path, what, wayOut string }{
		{`{"a":NaN}`, "a", `NaN is not a JSON value, at byte 5, before "NaN}"`, null},
		{`{"a":nan}`, "a", `nan is not a JSON value, at byte 5, before "nan}"`, null},
		{`{"a":-NaN}`, "a", `-NaN is not a JSON value`, null},
		{`{"a":Infinity}`, "a", `Infinity is not a JSON value`, `{"$numberDouble": "Infinity"}`},
		{`{"a": -Infinity }`, "a", `-Infinity is not a JSON value, at byte 6`, `{"$numberDouble": "-Infinity"}`},
		{`{"a":[1,-inf]}`, "a.1", `-inf is not a JSON value`, `{"$numberDouble": "-Infinity"}`},
		{`[{"a":1},{"a":NaN}]`, "1.a", `NaN is not a JSON value`, null},
		{`{"a":True}`, "a", `True is Python's notation`, "json.dumps"},
		{`{"a":None}`, "a", `None is Python's notation`, "json.dumps"},
		{`{"a":undefined}`, "a", `undefined is not a JSON value`, "send null"},
		{`{'a':1}`, "", `names and strings are in single quotes, at byte 1`, "in double quotes"},
		{`{"a":'x'}`, "a", `names and strings are in single quotes`, "in double quotes"},
		{`{a:1}`, "", `the name a is without quotes, at byte 1`, "in double quotes"},
		{`{"b":1, a : 1}`, "", `the name a is without quotes`, "in double quotes"},
		{`{"a":1,}`, "", `a comma precedes the end`, "remove the comm"},
		{`[1, ]`, "", `a comma precedes the end`, "remove the comm"},
		{`{"a":1 /* one */}`, "", `the text has a comment`, "remove the comm"},
		{"{\"a\":\"x\ny\"}", "a", `the text has a control character, at byte 7`, "write an escape"},
		{`{"a":418.}`, "a", `418. is not a JSON number`, "digits before and after the point"},
		{`{"a":1e}`, "a", `1e is not a JSON number`, "write digits"},
		{`{"a":;}`, "a", `invalid character ';' at start of value`, ""},
		{`{"a":007}`, "", `007 is not a JSON number, at byte 5`, "write digits before and after the point"},
		{`{"a":0x1F}`, "", `0x1F is not a JSON number`, "or send a string"},
		{`{"a":+1}`, "a", `+1 is not a JSON number`, "no plus"},
		{`{"a":.5}`, "a", `.5 is not a JSON number`, "before and after the point"},
		{`{"a":--1}`, "a", `--1 is not a JSON number`, "write digits"},
		{"{\"a\":1}\x00", "", `1 zero byte follows the JSON, at byte 7`, "the zero byte that ends a string in C"},
		{"{\"a\":1}\n\x00\x00", "", `2 zero bytes follow the JSON, at byte 8`, "the zero byte that ends a string in C"},
		{`{"a":1},`, "", `but "," follows at byte 7`, "leave it out"},
		{`{"a":1}}`, "", `but "}" follows`, "leave it out"},
		{`{"a":1} {"a":2} "x"`, "", `but "\"x\"" follows at byte 16`, "leave it out"},
		{"{\"a\":1}\nnot json\n", "", `but "not json\n" follows at byte 8`, "leave it out"},
		{"\x00\x00", "", "the value has only 2 zero bytes", "the zero byte that ends a string in C"},
	} {
		err := refusal(t, newDecoder(t, plainOptions), recordOf(test.value))
		if err.Reason != NotJSON || err.Path != test.path || !strings.Contains(err.Detail, test.what) || !strings.Contains(err.Detail, test.wayOut) {
			t.Errorf("%q: %v, want at %q: …%s…%s…", test.value, err, test.path, test.what, test.wayOut)
		}
		if strings.Contains(err.Detail, "invalid character") && test.wayOut != "" {
			t.Errorf("%q: the parser's words: %v", test.value, err)
		}
	}
}

// TestStrangeRecordsAreNamed checks that the error names the form of a value that is not supported.
func TestStrangeRecordsAreNamed(t *testing.T) {
	for value, want := range map[string]string{
		"\xff\xfe{\x00}\x00": "UTF-16", "{\"a\":1}\x00\x00": "zero bytes", "\x1f\x8b\x08": "gzip", "\x28\xb5\x2f\xfd": "zstd",
		"Obj\x01": "Avro file", "\x00\x00\x00\x00\x00\x00\x00\x00\x07{\"a\":1}": "nine bytes", "\x00\x00\x00\x00\x07\x02": "frame of a schema registry",
		"{\"a\":1}\n{\"a\":2}\nnot json": "other bytes after it", `{"a":NaN}`: "NaN", `{"a":[1,-Infinity]}`: "NaN", `{'a': 1}`: "names have no quotes", `{a:1}`: "names have no quotes",
		`{"a":1,}`: "a syntax error", "<a/>": "XML", "eyJhIjoxfQ==": "base64", "\x00{\x00\"\x00a\x00\"\x00:\x001\x00}": "UTF-16", `"{\"a\":1}"`: "encoded twice",
		"cpu,host=a usage=1": "line protocol", "mem free=1i,ok=t,s=\"a b\" 1772366400000000000": "line protocol",
		"21.5": "a single value", `"on"`: "a single value", "2026,a,21.5": "CSV", "a;b;c\n": "CSV", "level=info msg=hello": "text", "\x83\xa2ts": "MessagePack",
	} {
		if form := FormOf([]byte(value)); !strings.Contains(form.Many()+form.WayOut, want) {
			t.Errorf("%q is said to %q (%s), want %s", value, form.Many(), form.WayOut, want)
		}
	}
}

// FuzzForms checks that no bytes break the recognition of encodings, that messages are readable, and that no JSON text is taken
// for another encoding.
func FuzzForms(f *testing.F) {
	for _, value := range []string{"\xff\xfe{\x00", "\x05\x10{\"a\"", "\xc8\x01\xf0\x63{", "cpu,a=b c=1 5", "a\\ b,c=d e=\"f g\"", "{\"a\":NaN}", "\x16\x00\x00\x00", "{\x00{"} {
		f.Add([]byte(value), 3)
	}
	f.Fuzz(func(t *testing.T, value []byte, at int) {
		if form := FormOf(value); form == nil || strings.TrimSpace(form.Many()) == form.says {
			t.Errorf("%q has the form %+v", value, form)
		}
		if form := formOf(value); form != "" && (!utf8.ValidString(form) || isJSONStart(value)) && !isUTF16(value) {
			t.Errorf("%q is said to be %q", value, form)
		}
		if at < 0 || at > len(value) {
			return
		}
		notJSONHere(value, at)
	})
}
