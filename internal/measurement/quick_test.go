package measurement

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	"waterwheel/internal/record"
)

// fastFormats are the time formats that a fuzzed number selects from.
var fastFormats = []string{
	"auto", "rfc3339", "unix", "unix_ms", "unix_us", "unix_ns", "2006-01-02 15:04:05", time.RFC3339,
}

// fastOptions returns the settings that a fuzzed number selects. They include those of fuzzOptions.
func fastOptions(choice uint32) Options {
	format := JSON
	if choice>>8&1 != 0 {
		format = ExtJSON
	}
	o := fuzzOptions(format, uint8(choice))
	o.TimeFormat = fastFormats[choice>>9&7]
	switch choice >> 12 & 3 {
	case 1:
		o.TimeMin, o.TimeMax = FromRecord(-time.Hour), FromRecord(time.Hour)
	case 2:
		o.TimeMin, o.TimeMax = At(0), At(recordTime)
	}
	switch choice >> 14 & 7 {
	case 1:
		o.StoredTime, o.StoredMeta = "x", "y"
	case 2:
		o.StoredTime, o.StoredMeta = "", ""
	case 3:
		o.Root = "payload.after"
	case 4:
		o.Root, o.TimeField = "payload.after", "/payload.ts_ms"
	case 5:
		o.Drop = []string{"a", "b.c"}
	case 6:
		o.Fields = "v"
	case 7:
		o.MaxBytes = 300
	}
	switch choice >> 17 & 7 {
	case 1:
		o.TimeField = cmp.Or(o.TimeField, "time") + "|x|ts"
	case 2:
		o.TimeZone = "Europe/Berlin"
	case 3:
		o.TimeExact = "ns"
	case 4:
		o.Numbers = NumbersInText
	case 5:
		o.MetaFrom, o.MetaField, o.MetaFields = MetaFromValue, "", []string{"key:", "h=header:h", "b"}
	case 6:
		o.MetaFrom, o.MetaField, o.MetaFields = MetaFromValue, "header:h", nil
	case 7:
		o.TimeExact, o.TimeField = "temp", "time|header:h"
	}
	if choice>>21&1 != 0 {
		o.Nulls = DropNulls
	}
	if choice>>20&1 != 0 && o.Framing == Confluent {
		o.Framing = AutoFrame
	}
	return o
}

// fastPair holds two decoders with the same options, one of which lacks the quick reader.
type fastPair struct {
	options     Options
	fast, judge *Decoder
}

// newFastPair returns the decoders, or false if the options contradict each other.
func newFastPair(options Options) (p fastPair, ok bool) {
	fast, err := New(options)
	if err != nil {
		return p, false
	}
	judge, err := New(options)
	if err != nil {
		return p, false
	}
	judge.quick.off = true
	return fastPair{options, fast, judge}, true
}

// check decodes a record with both, and compares the complete results.
func (p *fastPair) check(t *testing.T, r record.Record) {
	t.Helper()
	got, want := described(p.fast.Decode(r)), described(p.judge.Decode(r))
	if got != want {
		t.Fatalf("%q\n%+v\nin one pass %s\nby tokens   %s", r.Value, p.options, got, want)
	}
}

// described returns the complete result of a decoder as text.
func described(results []Result, err error) string {
	var b bytes.Buffer
	for _, result := range results {
		m := &result.Measurement
		fmt.Fprintf(&b, "%v time %d meta %d %x elements %x", m.Position, m.Time, m.Meta.Type, m.Meta.Value, m.Elements)
		describeError(&b, result.Err)
		b.WriteByte('\n')
	}
	var refused *DecodeError
	if errors.As(err, &refused) {
		describeError(&b, refused)
	} else if err != nil {
		fmt.Fprintf(&b, "%T", err)
	}
	return b.String()
}

func describeError(b *bytes.Buffer, err *DecodeError) {
	if err != nil {
		fmt.Fprintf(b, " refused: part %d path %q value %q: %s", err.Part, err.Path, err.Value, err)
	}
}

// fastSeeds are usual records, and nearly correct ones.
var fastSeeds = []string{
	exampleEvent,
	`{"time":"2023-11-14T22:13:21.5+01:00","meta":{"host":"b","site":"c"},"temp":-0,"humidity":4e2,"pressure":12345678901234567890,"battery":1e-7,"rssi":0.1}`,
	`{"meta":"s","time":1700000000123,"x":{"y":1,"z":{"a":[1,2.5,"x",null,true,{"b":false,"a":1}]}},"v":{"x":1}}`,
	` { "time" : 1700000000 , "meta" : [ 1 , {"b":1,"a":{"d":1,"c":2}} ] , "x" : { } , "y" : [ ] } `,
	`[{"time":1700000000,"meta":1,"x":1},{"time":1700000001,"meta":1,"x":2},{"time":1700000002,"meta":1,"y":2}]`,
	`[{"time":1700000000,"meta":null,"x":"é\n"},{"time":0,"meta":1},{"time":1700000000,"meta":"\u0000","x":"\ud83d\ude00"},7]`,
	`{"time":1700000000,"meta":"a","temp.in":1,"temp.out":2,"a.b.c":1,"a.b.d":2,"a.e":3}`,
	`{"a.time":1700000000,"a.meta":{"x":1},"x.y":1,"x.z.a":2,"x.z.b":3,"a":{"b":1}}`,
	`{"a":{"time":1700000000,"meta":{"z":1,"y":2}},"x":{"y":1,"b":2,"z":{"a":1}}}`,
	`{"at":1700000000,"p":{"meta":{"k":1},"a":{"b":2},"x":{"y":1,"b":2.5,"z":{"a":1},"v":7}},"q":{"x":[{"s":1}]}}`,
	`{"schema":{"type":"struct","fields":[{"field":"x.y"}]},"payload":{"before":null,"after":{"time":1700000000123,"meta":"d","x":1.25,"b":{"c":1,"d":2}},"ts_ms":1700000000456,"op":"c"}}`,
	`{"payload":{"before":{"x":1},"after":null,"ts_ms":1700000000456}}`,
	`{"time":"2023-11-14 22:13:20","meta":"m","v":{"x":1,"x2":2},"time2":1}`,
	`{"time":{"$date":"2023-11-14T22:13:20Z"},"meta":{"$oid":"0123456789abcdef01234567"},"x":{"$numberLong":"5"}}`,
	`{"time":1700000000,"meta":"a","x":1,"x":2}`,
	`{"time":1700000000,"meta":{"a":1,"a":2},"x":[{"b":1,"b":2}]}`,
	`{"time":1700000000,"meta":"a","\u0078":1,"":2,"$y":3,"x.":4}`,
	`{"time":1e400,"meta":01,"x":-,"y":1.,"z":.5}`,
	`{"time":9223372036854775807,"meta":-9223372036854775808,"x":-2147483648,"y":2147483648,"z":9223372036854775808}`,
	`{"time":17000000001234567890,"meta":0.1000000000000000055511151231257827,"x":123456789012345678e-30}`,
	`{"time":1700000000,"meta":"a","x":tru}`, `{"time":1700000000,"meta":"a"} x`, `{"time":1700000000,"meta":"a",}`, `null`, ``, `[]`, `[{}]`,
	"{\"time\":1700000000,\"meta\":\"\xff\",\"\xc3\xa9\":1}", "{\"time\":1700000000,\"meta\":\"a\tb\"}",
}

// FuzzFastPath gives records to a decoder and to one without the quick reader. Both must give the same results. The quick reader
// learns from the first records what the last one repeats.
func FuzzFastPath(f *testing.F) {
	choices := []uint32{0, 1, 2, 4, 8, 12, 16, 32, 64, 96, 224, 1 << 8, 3 << 9, 4 << 9, 6 << 9, 1 << 12, 2 << 12, 1 << 14, 3 << 14, 4 << 14, 5 << 14, 6 << 14, 1 << 21}
	for i, value := range fastSeeds {
		next := fastSeeds[(i+1)%len(fastSeeds)]
		for _, choice := range choices {
			f.Add([]byte(value), []byte(next), []byte(value), choice)
		}
		f.Add([]byte("\x00\x00\x00\x00\x07"+value), []byte("\x00\x00\x00\x00\x07"+next), []byte(value), uint32(128))
	}
	f.Fuzz(func(t *testing.T, first, second, third []byte, choice uint32) {
		p, ok := newFastPair(fastOptions(choice))
		if !ok {
			return
		}
		for i, value := range [][]byte{first, second, third, second, first} {
			p.check(t, record.Record{Offset: int64(i), Timestamp: recordTime, Key: third, Value: value})
		}
	})
}
