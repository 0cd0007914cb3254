package measurement

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"waterwheel/internal/record"
)

// compressed compresses a text with the standard library. For zstd it uses a stream, whose header lacks the size.
func compressed(t testing.TB, c Compression, text string) string {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch c {
	case Gzip:
		w = gzip.NewWriter(&out)
	case Zlib:
		w = zlib.NewWriter(&out)
	case Zstd:
		w, err = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	default:
		return text
	}
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// sizedZstd returns a text in a zstd frame whose header has its size.
func sizedZstd(t testing.TB, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

var realCompressions = []Compression{Gzip, Zlib, Zstd}

func withCompression(c Compression) Options {
	o := plainOptions
	o.Compression = c
	return o
}

// TestCompressedValuesAreRead checks that a compressed value decodes like the value itself. It covers each format, frames, and
// auto with values that are not compressed.
func TestCompressedValuesAreRead(t *testing.T) {
	framed := "\x00\x00\x00\x00\x07" + exampleEvent
	for _, test := range []struct {
		name   string
		change func(*Options)
		value  string
	}{
		{"json", func(*Options) {}, exampleEvent},
		{"extjson", func(o *Options) { o.Format = ExtJSON }, exampleEvent},
		{"bson", func(o *Options) { o.Format = BSON }, string(inBSON(t, exampleEvent))},
		{"frame", func(o *Options) { o.Framing = Confluent }, framed},
		{"large", func(*Options) {}, exampleEvent[:len(exampleEvent)-1] + `,"text":"` + strings.Repeat("wind ", 100_000) + `"}`},
	} {
		o := plainOptions
		test.change(&o)
		want := shown(t, decodeOne(t, newDecoder(t, o), recordOf(test.value)))
		automatic := o
		automatic.Compression = AutoCompression
		auto := newDecoder(t, automatic)
		for _, c := range realCompressions {
			o.Compression = c
			for i, value := range []string{compressed(t, c, test.value), sizedZstd(t, test.value)} {
				if i > 0 && c != Zstd {
					continue
				}
				d := newDecoder(t, o)
				if got := shown(t, decodeOne(t, d, recordOf(value))); got != want {
					t.Errorf("%s by %s: %s, want %s", test.name, c, got, want)
				}
				if d.ValueBytes() != len(test.value) {
					t.Errorf("%s by %s: %d bytes, want %d", test.name, c, d.ValueBytes(), len(test.value))
				}
				if got := shown(t, decodeOne(t, auto, recordOf(value))); got != want {
					t.Errorf("%s by %s, seen by its first bytes: %s, want %s", test.name, c, got, want)
				}
			}
		}
		if got := shown(t, decodeOne(t, auto, recordOf(test.value))); got != want {
			t.Errorf("%s without compression: %s, want %s", test.name, got, want)
		}
	}
}

// TestBadCompressionIsSaid checks the letters of values that cannot be decompressed.
func TestBadCompressionIsSaid(t *testing.T) {
	gz := compressed(t, Gzip, exampleEvent)
	for _, test := range []struct {
		name        string
		compression Compression
		value       string
		reason      Reason
		says        string
	}{
		{"cut", Gzip, gz[:len(gz)-9], BadCompression, "begins like gzip, but is damaged or truncated: \"unexpected EOF\""},
		{"damaged", Gzip, gz[:30] + "\xff" + gz[31:], BadCompression, "is damaged or truncated"},
		{"trailing", Gzip, gz + "x", BadCompression, "is damaged or truncated"},
		{"trailing", Zlib, compressed(t, Zlib, exampleEvent) + "x", BadCompression, "bytes follow the end"},
		{"cut", Zstd, compressed(t, Zstd, exampleEvent)[:40], BadCompression, "is damaged or truncated"},
		{"another", Gzip, compressed(t, Zstd, exampleEvent), BadCompression, "is compressed by zstd, but EVENT_COMPRESSION=gzip: correct the setting"},
		{"none", Zstd, exampleEvent, BadCompression, "is JSON that is not compressed, but EVENT_COMPRESSION=zstd: have its producer compress it"},
		{"snappy", Zlib, "\xff\x06\x00\x00sNaPpY\x01\x28\x00\x00", BadCompression, "is not compressed by zlib, which EVENT_COMPRESSION requires, and is compressed by snappy: let the Kafka producer"},
		{"text", Zlib, "21.4", BadCompression, `"21.4" is not compressed by zlib, which EVENT_COMPRESSION requires`},
		{"dictionary", Zstd, "\x28\xb5\x2f\xfd\x23\x07\x00\x00\x00\x20\x81\x02\x00{}", BadCompression, "with a dictionary"},
		{"nothing", Gzip, compressed(t, Gzip, ""), Empty, "decompresses by gzip to 0 bytes"},
		{"twice", Gzip, compressed(t, Gzip, gz), NotJSON, "is compressed by gzip inside its frame or another compression, which is not supported: let the Kafka producer"},
		{"no JSON", Gzip, compressed(t, Gzip, `{"time":`), NotJSON, "ends at byte 8"},
	} {
		err := refusal(t, newDecoder(t, withCompression(test.compression)), recordOf(test.value))
		if err.Reason != test.reason || !strings.Contains(err.Detail, test.says) {
			t.Errorf("%s by %s: %v, want %s …%s…", test.name, test.compression, err, test.reason, test.says)
		}
	}
}

// TestValueUnfoldsToTheBoundAndNoFurther checks that EVENT_MAX_BYTES bounds a value before and after decompression. A value that
// would become larger takes no more memory than the bound.
func TestValueUnfoldsToTheBoundAndNoFurther(t *testing.T) {
	const limit = 1 << 20
	head := exampleEvent[:len(exampleEvent)-1] + `,"text":"`
	padded := func(n int) string { return head + strings.Repeat("x", n-len(head)-2) + `"}` }
	for _, c := range realCompressions {
		o := withCompression(c)
		o.MaxBytes = limit
		d := newDecoder(t, o)
		fits, over, bomb := padded(limit), padded(limit+1), padded(20*limit)
		decodeOne(t, d, recordOf(compressed(t, c, fits)))
		for _, value := range []string{compressed(t, c, over), compressed(t, c, bomb), sizedZstd(t, over), sizedZstd(t, bomb)} {
			if c != compressionOf([]byte(value)) {
				continue
			}
			err := refusal(t, d, recordOf(value))
			if err.Reason != TooLarge || !strings.Contains(err.Detail, "decompresses by "+string(c)+" to more than EVENT_MAX_BYTES = 1048576") {
				t.Errorf("%s: %v", c, err)
			}
			if n := cap(d.inflater.out); n > limit+limit/2 {
				t.Errorf("%s: the buffer has %d bytes", c, n)
			}
		}
		o.MaxBytes = 100
		if err := refusal(t, newDecoder(t, o), recordOf(strings.Repeat("x", 101))); err.Reason != TooLarge {
			t.Errorf("%s: %v", c, err)
		}
	}
}

// TestLettersOfElementsAreCompressedAsTheirRecord checks this because they must be redrivable to its topic, with the frame
// inside.
func TestLettersOfElementsAreCompressedAsTheirRecord(t *testing.T) {
	const frame = "\x00\x00\x00\x00\x07"
	for _, c := range append([]Compression{NoCompression}, realCompressions...) {
		for _, setting := range []Compression{c, AutoCompression} {
			o := withCompression(setting)
			o.Framing = Confluent
			d := newDecoder(t, o)
			r := recordOf(compressed(t, c, frame+"["+exampleEvent+`,{"meta":"m"},`+exampleEvent+"]"))
			results, err := d.Decode(r)
			if err != nil || len(results) != 3 || results[1].Err == nil || results[2].Err != nil {
				t.Fatalf("%s: %v, %v", c, results, err)
			}
			value := results[1].Err.Value
			if compressionOf(value) != c {
				t.Errorf("%s: the letter is %q", c, value)
			}
			if text, by := d.Text(value); string(text) != frame+`{"meta":"m"}` || by != c {
				t.Errorf("%s: the letter decompresses by %s to %q", c, by, text)
			}
			element, ok := d.Element(r, 1)
			if !ok || !bytes.Equal(element, value) {
				t.Errorf("%s: the element is %q, %v", c, element, ok)
			}
			if err := refusal(t, d, record.Record{Offset: 1, Timestamp: recordTime, Value: element}); err.Reason != MissingTime {
				t.Errorf("%s: the letter, driven back, is refused for %v", c, err)
			}
		}
	}
}

// TestTextsAndDocumentsAreNotTakenForZlib checks this because zlib's header has only two bytes, with which other values may
// begin.
func TestTextsAndDocumentsAreNotTakenForZlib(t *testing.T) {
	document := inBSON(t, `{"a":"`+strings.Repeat("y", 0x5e78-14)+`"}`) // 0x5e78 bytes
	for _, value := range []string{"x^temperature=21.4", "x\x01 and more text", string(document)} {
		if c := compressionOf([]byte(value)); c != NoCompression {
			t.Errorf("%.20q is taken for %s", value, c)
		}
	}
	if c := compressionOf([]byte(compressed(t, Zlib, exampleEvent))); c != Zlib {
		t.Errorf("zlib is taken for %s", c)
	}
}

// TestEventsThatBeginLikeZlibAreRead checks auto with formats whose events can begin like zlib.
func TestEventsThatBeginLikeZlibAreRead(t *testing.T) {
	schema := `{"type":"record","name":"R","fields":[{"name":"meta","type":"string"},{"name":"v","type":"double"}]}`
	for _, name := range []string{"SENSOR-NORTH-HALL-01", "WATERLEVEL-1", "TATERLEVEL-1"} {
		value := string(binary.AppendVarint(nil, int64(len(name)))) + name + "\xa2\x45\xb6\xf3\xfd\x6f\x35\x40"
		o := avroOptions(schema)
		o.TimeField, o.Compression = "", AutoCompression
		if got := decodeOne(t, newDecoder(t, o), recordOf(value)); got.Meta.String() != `"`+name+`"` {
			t.Errorf("%s: %v", name, got.Meta)
		}
		if got := decodeOne(t, newDecoder(t, o), recordOf(compressed(t, Zlib, value))); got.Meta.String() != `"`+name+`"` {
			t.Errorf("%s, compressed: %v", name, got.Meta)
		}
	}
}

// FuzzInflate checks that any bytes decompress to at most the limit, in bounded memory, and to the same result as with the
// standard library's decoders.
func FuzzInflate(f *testing.F) {
	for _, c := range realCompressions {
		f.Add([]byte(compressed(f, c, exampleEvent)))
		f.Add([]byte(compressed(f, c, strings.Repeat("x", 1<<16))))
	}
	f.Add([]byte(sizedZstd(f, exampleEvent) + sizedZstd(f, strings.Repeat("y", 1<<15))))
	const limit = 1 << 15
	f.Fuzz(func(t *testing.T, value []byte) {
		inflater := NewInflater(limit)
		for _, c := range realCompressions {
			got, err := inflater.inflate(value, c)
			if len(got) > limit || cap(inflater.out) > 2*limit+smallestBuffer {
				t.Fatalf("%s: %d bytes in %d", c, len(got), cap(inflater.out))
			}
			if err != nil || c == Zstd {
				continue
			}
			var r io.Reader
			if r, err = gzip.NewReader(bytes.NewReader(value)); c == Zlib {
				r, err = zlib.NewReader(bytes.NewReader(value))
			}
			if err != nil {
				t.Fatalf("%s: the standard library says %v", c, err)
			}
			if want, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %q, and the standard library %q, %v", c, got, want, err)
			}
		}
		for _, setting := range []Compression{Gzip, Zlib, Zstd, AutoCompression} {
			o := fuzzOptions(JSON, 0)
			o.Compression = setting
			checkDecoded(t, o, value)
		}
	})
}
