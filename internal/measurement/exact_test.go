package measurement

import (
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestExactTimeIsKept(t *testing.T) {
	for _, test := range []struct {
		format, value string
		want          int64
	}{
		{"", `"2026-03-02T14:30:00.123456789Z"`, 1772461800123456789},
		{"", `"2026-03-02T15:30:00,1234567891+0100"`, 1772461800123456789},
		{"", `"20260302T143000.5Z"`, 1772461800500000000},
		{"", `"2026-03-02T14:30:00Z"`, 1772461800000000000},
		{"", `1772461800123999999`, 1772461800123999999},
		{"", `"1772461800123000001"`, 1772461800123000001},
		{"", `1772461800123456`, 1772461800123456000},
		{"", `1772461800123`, 1772461800123000000},
		{"", `1772461800`, 1772461800000000000},
		{"", `1772461800.123456`, 1772461800123456000},
		{"", `"1772461800.123456789"`, 1772461800123456789},
		{"", `"1772461800123.456789"`, 1772461800123456789},
		{"", `"1772461800123456.789"`, 1772461800123456789},
		{"", `-1`, -1000000000},
		{"unix_ns", `-1`, -1},
		{"unix_us", `-1`, -1000},
		{"2006-01-02 15:04:05.999999999", `"2026-03-02 14:30:00.123456789"`, 1772461800123456789},
	} {
		for _, quickly := range []bool{true, false} {
			d := newDecoder(t, Options{TimeField: "t", MetaFrom: MetaFromNone, TimeFormat: test.format, TimeExact: "ns", TimeMin: At(-5000), TimeMax: At(lastMillis)})
			d.quick.off = !quickly
			m := decodeOne(t, d, recordOf(`{"x":1,"t":`+test.value+`}`))
			e := elementOf(document(t, m.Elements), "ns")
			if e.Kind != bson.TypeInt64 || integerOf(e.Kind, e.Value) != test.want || m.Time != floorMilli(test.want) {
				t.Errorf("%s (%s), quickly %v: %d at %d, want %d", test.value, test.format, quickly, integerOf(bson.TypeInt64, e.Value), m.Time, test.want)
			}
		}
	}
}

func floorMilli(nanos int64) int64 {
	return time.Unix(0, nanos).UnixMilli()
}

func TestExactTimeHasItsBounds(t *testing.T) {
	o := Options{TimeField: "t", MetaFrom: MetaFromNone, TimeExact: "ns", StoredTime: "time", TimeMin: At(0), TimeMax: At(lastMillis)}
	if err := refusal(t, newDecoder(t, o), recordOf(`{"t":"2300-01-01T00:00:00Z"}`)); err.Reason != TimeOutOfRange || !strings.Contains(err.Detail, "outside the years 1678 to 2261") {
		t.Error(err)
	}
	if err := refusal(t, newDecoder(t, o), recordOf(`{"t":1700000000,"ns":1}`)); err.Reason != DuplicateField || !strings.Contains(err.Detail, "has its exact time under this name") || !strings.Contains(err.Detail, "another EVENT_TIME_EXACT") {
		t.Error(err)
	}
	o.TimeField = "" // the record's timestamp
	m := decodeOne(t, newDecoder(t, o), recordOf(`{}`))
	if e := elementOf(document(t, m.Elements), "ns"); integerOf(e.Kind, e.Value) != recordTime*1_000_000 {
		t.Error(m)
	}
	for _, name := range []string{"time", "a.b", "$x"} {
		o.TimeExact = name
		if _, err := New(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
