package measurement

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"waterwheel/internal/record"
)

// anyTime accepts every time.
var anyTime = Options{TimeField: "time", MetaFrom: MetaFromNone, TimeMin: At(-1 << 60), TimeMax: At(1 << 60)}

func TestTimeFormats(t *testing.T) {
	const layout = "02.01.2006 15:04"
	tests := []struct {
		format, value string
		want          int64
	}{
		{"auto", `99999999999`, 99999999999_000},
		{"auto", `100000000000`, 100000000000},
		{"auto", `99999999999999`, 99999999999999},
		{"auto", `100000000000000`, 100000000000},
		{"auto", `1700000000123999`, 1700000000123},
		{"auto", `99999999999999999`, 99999999999999},
		{"auto", `100000000000000000`, 100000000000},
		{"auto", `1700000000123999999`, 1700000000123},
		{"auto", `-1`, -1000},
		{"auto", `1700000000.123`, 1700000000123},
		{"auto", `1700000000.123999`, 1700000000123},
		{"auto", `1.7e9`, 1700000000000},
		{"auto", `1700000000123.9`, 1700000000123},
		{"auto", `-0.0015`, -2},
		{"auto", `"2023-11-14T22:13:20Z"`, 1700000000000},
		{"auto", `"2023-11-15t00:13:20.1239+02:00"`, 1700000000123},
		{"auto", `"2023-11-15T00:13:20.1239+0200"`, 1700000000123},
		{"auto", `"2023-11-14 20:13:20-02"`, 1700000000000},
		{"auto", `"1700000000"`, 1700000000000},
		{"auto", `"1700000000.25"`, 1700000000250},
		{"auto", `"1700000000.1239999999999999999999"`, 1700000000123},
		{"auto", `"1700000000123"`, 1700000000123},
		{"auto", `"1700000000123.9"`, 1700000000123},
		{"auto", `"1700000000123999"`, 1700000000123},
		{"auto", `"1700000000123999999"`, 1700000000123},
		{"auto", `{"$date": "2023-11-14T22:13:20.5Z"}`, 1700000000500},
		{"auto", `{"$date": {"$numberLong": "1700000000123"}}`, 1700000000123},
		{"auto", `{"$date": 1700000000123}`, 1700000000123},
		{"rfc3339", `"0000-01-01T00:00:00-23:59"`, -62167132860000},
		{"rfc3339", `"9999-12-31T23:59:59.999Z"`, 253402300799999},
		{"unix", `5`, 5000},
		{"unix", `0.0019`, 1},
		{"unix", `"5.25"`, 5250},
		{"unix", `"-5"`, -5000},
		{"unix_us", `"5999"`, 5},
		{"unix_ms", `5`, 5},
		{"unix_ms", `-5.5`, -6},
		{"unix_us", `5999`, 5},
		{"unix_us", `-1`, -1},
		{"unix_ns", `5999999`, 5},
		{"unix_ns", `1.7e18`, 1700000000000},
		{layout, `"14.11.2023 22:13"`, 1699999980000},
		{"auto", `"2023-11-14T22:13:20,5Z"`, 1700000000500},
		{"auto", `"2023-11-15T00:13:20,1239+02:00"`, 1700000000123},
		{"auto", `"2023-11-14T22:13Z"`, 1699999980000},
		{"auto", `"2023-11-15 00:13 +02"`, 1699999980000},
		{"auto", `"2023-11-15T00:13:20 +0200"`, 1700000000000},
		{"auto", `"2023-11-15 00:13:20.5 +02:00"`, 1700000000500},
		{"auto", `"20231114T221320Z"`, 1700000000000},
		{"auto", `"20231115t001320.1239+0200"`, 1700000000123},
		{"auto", `"20231115 001320,5 +02"`, 1700000000500},
		{"auto", `"20231114T2213Z"`, 1699999980000},
		{"RFC3339", `"2023-11-14T22:13:20Z"`, 1700000000000},
		{"Unix-MS", `1700000000123`, 1700000000123},
		{"20060102150405", `20231114221320`, 1700000000000},
		{"20060102150405", `20231114221320.5`, 1700000000500},
		{"20060102150405", `"20231114221320"`, 1700000000000},
		{"20060102", `20231114`, 1699920000000},
		{"%Y%m%d%H%M%S", `20231114221320`, 1700000000000},
		{"%Y-%m-%d %H:%M:%S", `"2023-11-14 22:13:20"`, 1700000000000},
		{"%Y-%m-%d %H:%M:%S", `"2023-11-14 22:13:20.25"`, 1700000000250},
		{"%Y-%m-%dT%H:%M:%S.%fZ", `"2023-11-14T22:13:20.123456Z"`, 1700000000123},
		{"%d/%b/%Y:%H:%M:%S %z", `"15/Nov/2023:00:13:20 +0200"`, 1700000000000},
		{"%d/%b/%Y:%H:%M:%S %z", `"15/Nov/2023:00:13:20 +02:00"`, 1700000000000},
		{"%FT%T,%3N%z", `"2023-11-14T22:13:20,250Z"`, 1700000000250},
		{"%-d.%-m.%y um %I:%M:%S %p", `"14.11.23 um 10:13:20 PM"`, 1700000000000},
		{"%Y-%j %R", `"2023-318 22:13"`, 1699999980000},
		{"%A, %d %B %Y %H%%%M", `"Tuesday, 14 November 2023 22%13"`, 1699999980000},
	}
	for _, test := range tests {
		o := anyTime
		o.TimeFormat = test.format
		m := decodeOne(t, newDecoder(t, o), recordOf(`{"time": `+test.value+`}`))
		if m.Time != test.want {
			t.Errorf("%s as %s: %d, want %d", test.value, test.format, m.Time, test.want)
		}
	}
}

func TestBadTimes(t *testing.T) {
	tests := []struct{ format, value, message string }{
		{"auto", `"2023-11-14T22:13:20"`, "no time zone"},
		{"auto", `"20231114"`, "a date in digits without separators: set EVENT_TIME_FORMAT=20060102, which is read as UTC"},
		{"auto", `"20231114221320"`, "set EVENT_TIME_FORMAT=20060102150405, which is read as UTC"},
		{"auto", `"20231314"`, "its unit is unknown: send it without quotes"},
		{"auto", `"20231114T2213"`, "no time zone"},
		{"auto", `"2023-11-14 22:13:20,5"`, "no time zone"},
		{"auto", `"2023-11-14"`, "a date without a time: set EVENT_TIME_FORMAT=2006-01-02, which is read as 00:00 UTC"},
		{"auto", `"2023-11-14T22Z"`, "is not a time"},
		{"auto", `"2023-11-14T24:00Z"`, "is not a time"},
		{"auto", `"2023-11-14T22:60Z"`, "is not a time"},
		{"auto", `"2023-11-14T22:13:60Z"`, "is not a time"},
		{"auto", `"2023-11-14T22:13:20  +0200"`, "is not a time"},
		{"auto", `"2023-11-14T22:13:20 "`, "is not a time"},
		{"auto", `"20231314T221320Z"`, "is not a time"},
		{"auto", `"20231114T2213200Z"`, "is not a time"},
		{"auto", `"20231114T221320,Z"`, "is not a time"},
		{"auto", `"20231114221320Z"`, "is not a time"},
		{"auto", `"-1700000000"`, "its unit is unknown"},
		{"auto", `"0700000000"`, "its unit is unknown"},
		{"auto", `"1700000000."`, "its unit is unknown"},
		{"auto", `"1700000000.2.5"`, "is not a time"},
		{"auto", `"1.7e9"`, "is not a time"},
		{"auto", `"9999999999999999999"`, "its unit is unknown"},
		{"auto", `"2023-11-14T22:13:20+1"`, "is not a time"},
		{"auto", `"2023-11-14T22:13:20+2400"`, "is not a time"},
		{"auto", `"2023-11-14T22:13:20+010"`, "is not a time"},
		{"rfc3339", `"1700000000"`, "set EVENT_TIME_FORMAT to its unit"},
		{"rfc3339", `"2023-11-14T22:13:20+0100"`, "is not a time"},
		{"rfc3339", `"2023-11-14T22:13:20,5Z"`, "is not a time"},
		{"rfc3339", `"20231114T221320Z"`, "is not a time"},
		{"rfc3339", `20231114221320`, "20231114221320 is not a time in the format rfc3339"},
		{"unix", `"5.25x"`, "is not a time"},
		{"auto", `true`, "true is not a time"},
		{"auto", `[]`, "is not a time"},
		{"auto", `{"$date": "noon"}`, "is not a time"},
		{"auto", `{"$date": 1, "x": 2}`, "is not a time"},
		{"auto", `{"$date": 1.5}`, "is not a time"},
		{"auto", `{"$oid": "0123456789abcdef01234567"}`, "is not a time"},
		{"rfc3339", `1700000000`, "in the format rfc3339"},
		{"rfc3339", `"2023-02-29T00:00:00Z"`, "is not a time"},
		{"rfc3339", `{"$date": 5}`, "is not a time"},
		{"unix", `"2023-11-14T22:13:20Z"`, "in the format unix"},
		{"unix", `9223372036854776`, "is not a time"},
		{"unix_us", `1e300`, "is not a time"},
		{"2006-01-02", `"2023-11-31"`, "is not a time"},
		{"2006-01-02", `20231114`, "20231114 is not a time in the format 2006-01-02"},
		{"20060102", `20231131`, "20231131 is not a time"},
		{"20060102", `1e300`, "is not a time"},
		{"%Y-%m-%d %H:%M", `"2023-11-14T22:13"`, "in the format %Y-%m-%d %H:%M"},
	}
	for _, test := range tests {
		o := anyTime
		o.TimeFormat = test.format
		d := newDecoder(t, o)
		err := refusal(t, d, recordOf(`{"time": `+test.value+`}`))
		if err.Reason != BadTime || err.Path != "time" || !strings.Contains(err.Detail, test.message) {
			t.Errorf("%s as %s: %v, want …%s…", test.value, test.format, err, test.message)
		}
	}
}

func TestDatesNeedNoFormat(t *testing.T) {
	for _, format := range []string{"auto", "rfc3339", "unix", "unix_ns", "2006-01-02"} {
		o := anyTime
		o.Format, o.TimeFormat = ExtJSON, format
		if m := decodeOne(t, newDecoder(t, o), recordOf(`{"time": {"$date": "2023-11-14T22:13:20.5Z"}}`)); m.Time != 1700000000500 {
			t.Errorf("%s: %d", format, m.Time)
		}
	}
}

func TestRFC3339AgreesWithTimePackage(t *testing.T) {
	check := func(text string) {
		want, err := time.Parse(time.RFC3339Nano, text)
		got, ok := parseRFC3339([]byte(text))
		if ok != (err == nil) || ok && got != want.UnixMilli() {
			t.Errorf("%q: %d, %t; want %d, %v", text, got, ok, want.UnixMilli(), err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		r := func(n int) int { return random.IntN(n) }
		text := fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d", r(10000), r(14), r(33), r(25), r(61), r(61))
		if r(2) == 0 {
			text += "." + fmt.Sprintf("%09d", r(1e9))[:r(10)]
		}
		text += []string{"Z", fmt.Sprintf("%+03d:%02d", r(47)-23, r(60)), "", "z", "+0100", "Z "}[min(r(8), 5)]
		if r(8) == 0 {
			at := r(len(text))
			text = text[:at] + string("0:-TZ. x"[r(8)]) + text[at+1:]
		}
		if strings.ContainsAny(text, "z ") || strings.Contains(text, ",") {
			continue // RFC 3339 allows lower-case letters and a space, but the time package does not
		}
		check(text)
	}
	for _, text := range []string{"2024-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2023-06-30T23:59:60Z", "2023-06-30T24:00:00Z", ""} {
		check(text)
	}
	for _, text := range []string{"2023-06-30T00:00:00+24:00", "2023-06-30T00:00:00-00:60"} { // the time package accepts them
		if millis, ok := parseRFC3339([]byte(text)); ok {
			t.Errorf("%q: %d", text, millis)
		}
	}
}

// TestMonthsAgreeWithTimePackage parses the first and last days of all months in the range of times, and days that do not exist.
func TestMonthsAgreeWithTimePackage(t *testing.T) {
	for year := range 10000 {
		for month := time.January; month <= time.December; month++ {
			for _, day := range [...]int{1, 28, 29, 30, 31} {
				want := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
				text := fmt.Appendf(nil, "%04d-%02d-%02dT00:00:00Z", year, month, day)
				if got, ok := parseRFC3339(text); ok != (want.Month() == month) || ok && got != want.UnixMilli() {
					t.Fatalf("%s: %d, %t; want %d", text, got, ok, want.UnixMilli())
				}
			}
		}
	}
}

func TestWindow(t *testing.T) {
	o := Options{TimeField: "time", MetaFrom: MetaFromNone, TimeMin: FromRecord(-time.Hour), TimeMax: At(recordTime)}
	d := newDecoder(t, o)
	decode := func(millis, timestamp int64) error {
		_, err := d.Decode(record.Record{Timestamp: timestamp, Value: fmt.Appendf(nil, `{"time": %d}`, millis)})
		return err
	}
	const hour = 3600_000
	for _, test := range []struct {
		time, timestamp int64
		in              bool
	}{
		{recordTime, recordTime, true},
		{recordTime + 1, recordTime, false},
		{recordTime - hour, recordTime, true},
		{recordTime - hour - 1, recordTime, false},
		{recordTime - hour - 1, recordTime - 1, true},
		{recordTime - 1000*hour, -1, true}, // a record without a timestamp
	} {
		if err := decode(test.time, test.timestamp); (err == nil) != test.in {
			t.Errorf("time %d of a record at %d: %v", test.time, test.timestamp, err)
		}
	}
	inherits := newDecoder(t, Options{MetaFrom: MetaFromNone})
	if err := refusal(t, inherits, record.Record{Timestamp: 5, Value: []byte(`{}`)}); err.Reason != TimeOutOfRange {
		t.Error(err)
	}
	micros := record.Record{Timestamp: recordTime * 1000, Value: []byte(`{}`)}
	if err := refusal(t, inherits, micros); err.Reason != TimeOutOfRange || !strings.Contains(err.Detail, "looks like microseconds") {
		t.Error(err)
	}
	if err := refusal(t, inherits, record.Record{Timestamp: -1, Value: []byte(`{}`)}); err.Reason != MissingTime {
		t.Error(err)
	}
}

func TestHintNamesTheRightUnit(t *testing.T) {
	tests := []struct{ format, value, hint string }{
		{"unix_ms", `1700000000123000`, "1700000000123000 looks like microseconds and was read as milliseconds"},
		{"unix_ms", `1700000000`, "looks like seconds and was read as milliseconds"},
		{"unix", `1700000000123`, "looks like milliseconds and was read as seconds"},
		{"unix", `1700000000123.5`, "looks like milliseconds and was read as seconds"},
		{"unix_us", `1700000000123000000`, "looks like nanoseconds and was read as microseconds"},
		{"unix_ns", `1700000000`, "looks like seconds and was read as nanoseconds"},
		{"auto", `20231114221320`, "20231114221320 seems to be a date in digits without separators and was read as milliseconds: set EVENT_TIME_FORMAT=20060102150405"},
		{"auto", `"2023111422"`, "2023111422 seems to be a date in digits without separators and was read as seconds: set EVENT_TIME_FORMAT=2006010215"},
		{"auto", `20231114`, "20231114 seems to be a date in digits without separators and was read as seconds: set EVENT_TIME_FORMAT=20060102"},
		{"auto", `202311142213`, "set EVENT_TIME_FORMAT=200601021504"},
		{"unix_ms", `20231114221320`, "set EVENT_TIME_FORMAT=20060102150405"},
		{"auto", `20311114221320`, "correct the clock of its source"},
		{"auto", `{"$date": 20231114221320}`, "correct the clock of its source"},
		{"auto", `{"$date": 1700000000}`, "1700000000 looks like seconds and was read as milliseconds"},
		{"auto", `"1970-01-20T16:13:20Z"`, "the source seems to have sent 1700000000 seconds as milliseconds"},
		{"auto", `"9999-12-31T23:59:59Z"`, "correct the clock of its source"},
		{"rfc3339", `"9999-12-31T23:59:59.999+14:00"`, "correct the clock of its source"},
		{"auto", `"2044-01-01T00:00:00Z"`, "correct the clock of its source"},
		{"auto", `5`, "correct the clock of its source"},
	}
	for _, test := range tests {
		d := newDecoder(t, Options{TimeField: "time", TimeFormat: test.format, MetaFrom: MetaFromNone})
		err := refusal(t, d, recordOf(`{"time": `+test.value+`}`))
		if err.Reason != TimeOutOfRange || !strings.Contains(err.Detail, test.hint) {
			t.Errorf("%s as %s: %v, want …%s…", test.value, test.format, err, test.hint)
		}
	}
	d := newDecoder(t, Options{TimeField: "time", MetaFrom: MetaFromNone, TimeMin: At(0)})
	if err := refusal(t, d, recordOf(`{"time": "9999-12-31T23:59:59Z"}`)); !strings.Contains(err.Detail, "correct the clock") {
		t.Errorf("of a text it is said that it looks like another unit: %v", err)
	}
}

func TestBoundsAsText(t *testing.T) {
	for text, want := range map[string]Bound{
		"1990-01-01T00:00:00Z": At(631152000000), "+24h": FromRecord(24 * time.Hour), "-1m30s": FromRecord(-90 * time.Second), "+1h0m1s": FromRecord(3601 * time.Second),
		"+30d": FromRecord(720 * time.Hour), "-1w": FromRecord(-168 * time.Hour), "1990-01-01": At(631152000000), "1990-01-01T02:00 +0200": At(631152000000),
	} {
		var got Bound
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		var again Bound
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != want {
			t.Errorf("%s, written as %s: %v, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "24h", "+", "1990", "+1x", "1990-01-01T00:00:00"} {
		if err := new(Bound).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestUnitsKeepMilliseconds(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 10000 {
		millis := random.Int64N(1 << 41)
		if got, ok := seconds.millisOfFloat(float64(millis) / 1e3); !ok || got != millis {
			t.Fatalf("%d ms as seconds: %d", millis, got)
		}
		if got, ok := milliseconds.millisOfFloat(float64(millis) + 0.25); !ok || got != millis {
			t.Fatalf("%d ms and a quarter: %d", millis, got)
		}
	}
}

func TestRecordTimestampIsTheTime(t *testing.T) {
	d := newDecoder(t, Options{MetaFrom: MetaFromNone, StoredTime: "time"})
	if m := decodeOne(t, d, recordOf(`{"x": 1}`)); m.Time != recordTime {
		t.Error(m.Time)
	}
	if err := refusal(t, d, recordOf(`{"time": 1}`)); err.Reason != DuplicateField {
		t.Error(err)
	}
}

func TestTimeOfBSON(t *testing.T) {
	o := anyTime
	o.Format = BSON
	value := append([]byte{0x13, 0, 0, 0, 0x09, 't', 'i', 'm', 'e', 0}, binary.LittleEndian.AppendUint64(nil, 1700000000123)...)
	if m := decodeOne(t, newDecoder(t, o), record.Record{Value: append(value, 0)}); m.Time != 1700000000123 || len(m.Elements) != 0 {
		t.Error(m)
	}
}

// TestNoSettingLiftsTheYears checks that neither a record's negative timestamp nor a bound beyond the range of years makes every
// time acceptable.
func TestNoSettingLiftsTheYears(t *testing.T) {
	const first, last = -62167219200000, 253402300799999
	widest := anyTime
	widest.TimeFormat, widest.TimeMin, widest.TimeMax = "unix_ms", At(-1<<63), At(1<<63-1)
	relative := widest
	relative.TimeMin, relative.TimeMax = FromRecord(-1<<62), FromRecord(1<<62)
	defaults := Options{TimeField: "time", TimeFormat: "unix_ms", MetaFrom: MetaFromNone}
	for _, test := range []struct {
		options   Options
		timestamp int64
		in        []int64
		out       []int64
	}{
		{widest, recordTime, []int64{first, 0, last}, []int64{first - 1, last + 1, -1 << 63, 1<<63 - 1}},
		{widest, -1 << 63, []int64{first, last}, []int64{first - 1, last + 1}},
		{relative, -1, []int64{first, last}, []int64{first - 1, last + 1}},
		{relative, 1<<63 - 1, []int64{last}, []int64{last + 1}},
		{defaults, -1, []int64{recordTime, last}, []int64{first, last + 1}}, // a record without a timestamp
		{defaults, -2, nil, []int64{recordTime, last, last + 1, first}},
		{defaults, -1 << 63, nil, []int64{recordTime, last, last + 1}},
		{defaults, 1<<63 - 1, []int64{recordTime, last}, []int64{last + 1}},
	} {
		d := newDecoder(t, test.options)
		for _, time := range test.in {
			decodeOne(t, d, record.Record{Timestamp: test.timestamp, Value: fmt.Appendf(nil, `{"time": %d}`, time)})
		}
		for _, time := range test.out {
			err := refusal(t, d, record.Record{Timestamp: test.timestamp, Value: fmt.Appendf(nil, `{"time": %d}`, time)})
			if err.Reason != TimeOutOfRange {
				t.Errorf("time %d of a record at %d: %v", time, test.timestamp, err)
			}
		}
	}
	err := refusal(t, newDecoder(t, widest), recordOf(`{"time": 253402300800000}`))
	if !strings.Contains(err.Detail, "outside the years 0 to 9999") {
		t.Error(err)
	}
}
