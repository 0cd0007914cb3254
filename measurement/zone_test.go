package measurement

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/record"
)

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

// zoned is the time of a text in a zone, for a record of some timestamp.
func zoned(t *testing.T, o Options, text string, timestamp int64) string {
	t.Helper()
	o.TimeField, o.MetaFrom = "t", MetaFromNone
	o.TimeMin, o.TimeMax = At(0), At(lastMillis)
	var got [2]string
	for i := range got {
		d := newDecoder(t, o)
		d.quick.off = i == 1
		results, err := d.Decode(record.Record{Timestamp: timestamp, Value: []byte(`{"t":` + text + `}`)})
		if err != nil {
			got[i] = err.Error()
		} else {
			got[i] = time.UnixMilli(results[0].Measurement.Time).UTC().Format(time.RFC3339)
		}
	}
	if got[0] != got[1] {
		t.Errorf("%s: in one pass %s, else %s", text, got[0], got[1])
	}
	return got[0]
}

func TestTimesWithoutZoneAreLocal(t *testing.T) {
	berlin := Options{TimeZone: "Europe/Berlin"}
	layout := func(format string) Options { return Options{TimeZone: "Europe/Berlin", TimeFormat: format} }
	millis := func(text string) int64 {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixMilli()
	}
	for _, test := range []struct {
		options   Options
		text      string
		timestamp int64
		want      string
	}{
		{berlin, `"2026-08-24T07:17:52"`, noTimestamp, "2026-08-24T05:17:52Z"},
		{berlin, `"2026-01-24T07:17:52"`, noTimestamp, "2026-01-24T06:17:52Z"},
		{berlin, `"2026-01-24 07:17"`, noTimestamp, "2026-01-24T06:17:00Z"},
		{berlin, `"20260124T071752"`, noTimestamp, "2026-01-24T06:17:52Z"},
		{berlin, `"2026-01-24T07:17:52Z"`, noTimestamp, "2026-01-24T07:17:52Z"},
		{berlin, `"2026-01-24T07:17:52-05:00"`, noTimestamp, "2026-01-24T12:17:52Z"},
		{berlin, `1769239072`, noTimestamp, "2026-01-24T07:17:52Z"},
		{layout("02.01.2006 15:04:05"), `"24.08.2026 07:17:52"`, noTimestamp, "2026-08-24T05:17:52Z"},
		{layout("%Y%m%d%H%M%S"), `20260824071752`, noTimestamp, "2026-08-24T05:17:52Z"},
		{layout("2006-01-02"), `"2026-08-24"`, noTimestamp, "2026-08-23T22:00:00Z"},
		// The hour that comes twice: what is nearer to the record.
		{berlin, `"2025-10-26T02:30:00"`, noTimestamp, "2025-10-26T00:30:00Z"},
		{berlin, `"2025-10-26T02:30:00"`, millis("2025-10-26T00:30:04Z"), "2025-10-26T00:30:00Z"},
		{berlin, `"2025-10-26T02:30:00"`, millis("2025-10-26T01:30:04Z"), "2025-10-26T01:30:00Z"},
		{berlin, `"2025-10-26T02:30:00"`, millis("2025-10-26T01:29:00Z"), "2025-10-26T01:30:00Z"},
		{berlin, `"2025-10-26T02:00:00"`, noTimestamp, "2025-10-26T00:00:00Z"},
		{berlin, `"2025-10-26T01:59:59"`, millis("2025-10-27T00:00:00Z"), "2025-10-25T23:59:59Z"},
		{berlin, `"2025-10-26T03:00:00"`, noTimestamp, "2025-10-26T02:00:00Z"},
		// The hour that does not come.
		{berlin, `"2026-03-29T01:59:59"`, noTimestamp, "2026-03-29T00:59:59Z"},
		{berlin, `"2026-03-29T02:30:00"`, noTimestamp, "2026-03-29T01:30:00Z"},
		{berlin, `"2026-03-29T03:00:00"`, noTimestamp, "2026-03-29T01:00:00Z"},
		{Options{TimeZone: "Asia/Kathmandu"}, `"2026-03-29T06:00:00"`, noTimestamp, "2026-03-29T00:15:00Z"},
		{Options{TimeZone: "America/New_York"}, `"2025-11-02T01:30:00"`, noTimestamp, "2025-11-02T05:30:00Z"},
		{Options{TimeZone: "UTC"}, `"2025-11-02T01:30:00"`, noTimestamp, "2025-11-02T01:30:00Z"},
		{Options{}, `"2025-11-02T01:30:00"`, noTimestamp, `bad_time at t: "2025-11-02T01:30:00" is no time in the format auto: it has no zone: add Z or an offset at its source, or set EVENT_TIME_ZONE`},
	} {
		if got := zoned(t, test.options, test.text, test.timestamp); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s in %s for %d: %s, want %s", test.text, test.options.TimeZone, test.timestamp, got, test.want)
		}
	}
}

// TestLocalTimesComeBack: what the clocks of a zone show at a moment is read as that moment, if it is that of the record.
func TestLocalTimesComeBack(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, zone := range []string{"Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Tehran", "Africa/Casablanca", "Pacific/Apia"} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		p := timeParser{zone: location}
		for range 20000 {
			at := time.Unix(1_200_000_000+random.Int64N(600_000_000), 0)
			p.timestamp = at.UnixMilli() + random.Int64N(20000) - 10000
			wall := at.In(location)
			asUTC := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, time.UTC).UnixMilli()
			if got := p.local(asUTC); got != at.UnixMilli() {
				t.Fatalf("%s: %s is read as %s", zone, wall, time.UnixMilli(got).In(location))
			}
		}
	}
}

func TestZonesAreChecked(t *testing.T) {
	for _, test := range []struct{ zone, format, says string }{
		{"Europe/Berlin", "auto", ""},
		{"UTC", "2006-01-02 15:04:05", ""},
		{"", "unix", ""},
		{"Berlin", "auto", "is no time zone"},
		{"Local", "auto", "is no time zone"},
		{"+02:00", "auto", "is no time zone"},
		{"UTC", "unix_ms", "has no effect"},
		{"UTC", "rfc3339", "has no effect"},
		{"UTC", "2006-01-02T15:04:05Z07:00", "say their offset"},
		{"UTC", "%Y-%m-%d %H:%M:%S %z", "say their offset"},
	} {
		err := CheckTimeZone(test.zone, test.format)
		if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s with %s: %v, want %s", test.zone, test.format, err, test.says)
		}
	}
}

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
			e, found := elementOf(document(t, m.Elements), "ns")
			if !found || e.Kind != bson.TypeInt64 || integerOf(e.Kind, e.Value) != test.want || m.Time != floorMilli(test.want) {
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
	if e, _ := elementOf(document(t, m.Elements), "ns"); integerOf(e.Kind, e.Value) != recordTime*1_000_000 {
		t.Error(m)
	}
	for _, name := range []string{"time", "a.b", "$x"} {
		o.TimeExact = name
		if _, err := New(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestNumbersInTextsAreRead(t *testing.T) {
	o := Options{TimeField: "t", MetaField: "m", Numbers: NumbersInText}
	for text, want := range map[string]string{
		"0": `{"$numberInt":"0"}`, "-5": `{"$numberInt":"-5"}`, "21.50": `{"$numberDouble":"21.5"}`, "2.4385e-05": `{"$numberDouble":"2.4385e-05"}`,
		"NaN": `{"$numberDouble":"NaN"}`, "+Inf": `{"$numberDouble":"Infinity"}`, "-Inf": `{"$numberDouble":"-Infinity"}`, "Infinity": `{"$numberDouble":"Infinity"}`,
		"18446744073709551615": `{"$numberDouble":"1.8446744073709552e+19"}`, "9007199254740993": `{"$numberLong":"9007199254740993"}`, "+5": `{"$numberInt":"5"}`,
		" 21.5 ": `{"$numberDouble":"21.5"}`, "007": `"007"`, "1.": `"1."`, ".5": `".5"`, "0x1F": `"0x1F"`, "21.5 C": `"21.5 C"`, "": `""`, "-": `"-"`, "1e999": `"1e999"`,
		"1e": `"1e"`, "on": `"on"`, "1,2,3": `"1,2,3"`, "10.0.0.1": `"10.0.0.1"`, "Inf.": `"Inf."`, "--1": `"--1"`, "+-1": `"+-1"`, "+": `"+"`, "1-2": `"1-2"`,
	} {
		for _, quickly := range []bool{true, false} {
			for _, around := range []string{`%`, `[%]`, `{"y":[1,{"z":%}]}`} {
				d := newDecoder(t, o)
				d.quick.off = !quickly
				m := decodeOne(t, d, recordOf(`{"t":1700000000,"m":"5","x":`+strings.ReplaceAll(around, "%", `"`+text+`"`)+`}`))
				full := `{"x": ` + strings.NewReplacer("%", want, `"y":[1,`, `"y": [{"$numberInt":"1"},`, `"z":`, `"z": `).Replace(around) + `}`
				if got := shown(t, m); !strings.EqualFold(got, `1700000000000 "5" `+full) {
					t.Errorf("%q, quickly %v: %s, want %s", text, quickly, got, full)
				}
			}
		}
	}
}

func TestDecimalCommaIsRefused(t *testing.T) {
	o := Options{TimeField: "t", MetaFrom: MetaFromNone, Numbers: NumbersInText}
	for _, text := range []string{"21,5", "1.234,5", "-0,25", "1,234.5", "1,234,567", " 3,0"} {
		err := refusal(t, newDecoder(t, o), recordOf(`{"t":1700000000,"a":{"x":"`+text+`"}}`))
		if err.Reason != BadNumber || err.Path != "a.x" || !strings.Contains(err.Detail, `"`+text+`" has a comma, and EVENT_NUMBERS=text reads numbers with a point`) {
			t.Errorf("%s: %v", text, err)
		}
	}
	o.Numbers = ""
	if got := shown(t, decodeOne(t, newDecoder(t, o), recordOf(`{"t":1700000000,"x":"21,5"}`))); got != `1700000000000 absent {"x": "21,5"}` {
		t.Errorf("without the setting: %s", got)
	}
}

func TestFramesMayBeMixed(t *testing.T) {
	d := newDecoder(t, Options{TimeField: "t", MetaFrom: MetaFromNone, Framing: AutoFrame})
	for _, before := range []string{"", "\x00\x00\x00\x00\x07", "\ufeff", "\x00\x00\x00\x00\x07\ufeff"} {
		decodeOne(t, d, recordOf(before+`{"t":1700000000}`))
	}
	if err := refusal(t, d, recordOf("\x00\x00\x00\x00\x07\x06abc")); err.Reason != NotJSON || !strings.Contains(err.Detail, "EVENT_FRAMING=auto is not JSON") {
		t.Error(err)
	}
	if err := refusal(t, d, recordOf("\x00\x00\x00\x00\x07")); err.Reason != Empty {
		t.Error(err)
	}
}
