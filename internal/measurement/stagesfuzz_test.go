package measurement

import (
	"bytes"
	"errors"
	"testing"

	"waterwheel/internal/record"
)

// stageOptions returns the settings of stages that a fuzzed number selects.
func stageOptions(choice uint16) Options {
	o := Options{TimeField: "t|a.t", MetaFields: []string{"m", "k=key:", "h=header:h"}, MaxBytes: 1 << 14, StoredTime: "time", StoredMeta: "meta"}
	set := func(bit int) bool { return choice>>bit&1 != 0 }
	if set(0) {
		o.List = []string{"l", "a.l"}
	}
	if set(1) {
		o.Parse = []string{"p", "l", "a.p", "p.p"}
	}
	if set(2) {
		o.Skip = []string{"s=1", "!l", "a.s", "/x!=x"}
	}
	if set(3) {
		o.FieldName, o.FieldValue = "n", "v|a.v"
	}
	if set(4) {
		o.Rename = []string{"ts=t", "a.x=y", "v=w"}
	}
	if set(5) {
		o.Numbers, o.TimeExact = NumbersInText, "ns"
	}
	if set(6) {
		o.Root = "a"
	}
	if set(7) {
		o.DottedNames = Reject
	}
	if set(8) {
		o.Format = ExtJSON
	}
	if set(9) {
		o.Framing = AutoFrame
	}
	if set(10) {
		o.Fields = "f"
	}
	if set(11) {
		o.Format = BSON
		o.Framing = ""
	}
	if set(12) && o.List != nil {
		o.List = []string{"/l"}
	}
	return o
}

// FuzzStages checks that positions of events rise, and that a second decoding gives the same, for any record. Each event that is
// an element of a list or array must decode to the same alone, as its redriven letter does.
func FuzzStages(f *testing.F) {
	for _, value := range []string{
		`{"m":1,"l":[{"t":1700000000,"n":"x","v":1},{"t":1700000001,"n":"y.z","v":"2,5"},3,[]],"a":{"l":[{"ts":"2023-11-14T22:13:20.123456789Z"}],"x":1,"t":1700000002}}`,
		`{"m":1,"p":"{\"p\":\"{\\\"q.r\\\":1}\"}","l":"[{\"t\":1700000000},{\"s\":1}]","t":1700000000}`,
		`{"m":1,"l":{"t":1700000000},"f":{"x":"1.5"}}` + "\n" + `[{"m":2,"l":[]},{"l":null},{"m":3,"t":1700000000}]`,
		`{"a":{"m":1,"l":[{"t":1700000000,"f":{"$numberLong":"5"}}],"p":"eyJhIjoxfQ=="},"x":"x"}`,
		`{"a":null}`, `{"a":{"l":[{"a":{"l":[]}}]}}`, `[]`, `{"l":[{"l":[{"l":1}]}]}`, "\ufeff{}", `{"m":{"$date":1},"t":{"$date":{"$numberLong":"1700000000000"}},"d":{"$numberDouble":"-0"},"l":[{},{}]}`,
	} {
		for _, choice := range []uint16{0, 1, 3, 7, 15, 31, 63, 127, 1<<8 | 31, 1<<9 | 1, 1<<10 | 1, 1<<6 | 3, 1<<12 | 1<<6 | 3, 128 | 3} {
			f.Add([]byte(value), "key", choice)
		}
	}
	f.Add(inBSON(f, `{"m":1,"l":[{"t":1700000000,"n":"x","v":1},{"v":2},3]}`), `{"k":1}`, uint16(1<<11|1))
	f.Fuzz(func(t *testing.T, value []byte, key string, choice uint16) {
		o := stageOptions(choice)
		d := newDecoder(t, o)
		r := record.Record{Offset: 1, Timestamp: recordTime, Key: []byte(key), Value: value, Headers: headersOf("h", "v")}
		first := fates(t, d, r)
		if second := fates(t, d, r); len(first) != len(second) {
			t.Fatalf("%v, the second time %v", first, second)
		} else {
			for i := range first {
				if first[i] != second[i] {
					t.Fatalf("%v, the second time %v", first[i], second[i])
				}
			}
		}
		for _, of := range first {
			checkAlone(t, d, r, of)
		}
	})
}

// fate is the result of one event.
type fate struct {
	part  int32
	shown string
	value string // value of an error
}

// fates returns the results of a record's events. An error of the whole record has no parts.
func fates(t *testing.T, d *Decoder, r record.Record) (list []fate) {
	results, err := d.Decode(r)
	if err != nil {
		checkError(t, asDecodeError(t, err), record.WholeRecord)
		return nil
	}
	last := int32(-1)
	for _, result := range results {
		of := fate{part: result.Measurement.Position.Part}
		if of.part <= last {
			t.Fatalf("part %d follows %d", of.part, last)
		}
		last = of.part
		if result.Err != nil {
			checkError(t, result.Err, of.part)
			of.shown, of.value = string(result.Err.Reason), string(result.Err.Value)
		} else {
			checkMeasurement(t, result.Measurement, of.part)
			of.shown = shown(t, result.Measurement)
		}
		list = append(list, of)
	}
	return list
}

func asDecodeError(t *testing.T, err error) *DecodeError {
	t.Helper()
	var refused *DecodeError
	if !errors.As(err, &refused) {
		t.Fatalf("error %T: %v", err, err)
	}
	return refused
}

// checkAlone decodes an event alone, as its redriven letter.
func checkAlone(t *testing.T, d *Decoder, r record.Record, of fate) {
	element, ok := d.Element(r, of.part)
	if ok != (of.value != "") && of.value != "" || of.value != "" && !bytes.Equal(element, []byte(of.value)) {
		t.Fatalf("part %d is %q, its letter's value %q", of.part, element, of.value)
	}
	if !ok || len(element) > d.options.MaxBytes || d.options.Format != BSON && !isJSONStart(element) && !hasFrame(element) || bytes.HasPrefix(element, []byte{'['}) {
		return // an array within an array is no event, but alone it is several
	}
	alone := r
	alone.Value = bytes.Clone(element)
	results, err := d.Decode(alone)
	got := "nothing"
	switch {
	case err != nil:
		got = string(asDecodeError(t, err).Reason)
	case len(results) != 1:
	case results[0].Err != nil:
		got = string(results[0].Err.Reason)
	default:
		got = shown(t, results[0].Measurement)
	}
	if got == "nothing" && of.shown == string(NotObject) { // a null root is skipped if the record is one event
		return
	}
	if got != of.shown {
		t.Fatalf("part %d of %q, %q, becomes %s, and %s in it", of.part, r.Value, element, got, of.shown)
	}
}
