package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/internal/timeseries"
	"waterwheel/reader"
)

func TestQueryWords(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string // the filter
		rest  string // collection and fields
	}{
		{[]string{"m", "sensor=s-17"}, `{"meta.sensor":{"$eq":"s-17"}}`, "m []"},
		{[]string{"sensor=s-17", "celsius", "wind.speed"}, `{"meta.sensor":{"$eq":"s-17"}}`, " [celsius wind.speed]"},
		{[]string{"m", "n=17"}, `{"meta.n":{"$in":[17,"17"]}}`, "m []"},
		{[]string{"m", "n=1e3"}, `{"meta.n":{"$in":[1000.0,"1e3"]}}`, "m []"},
		{[]string{"m", "n=-0.5,x"}, `{"meta.n":{"$in":[-0.5,"-0.5","x"]}}`, "m []"},
		{[]string{"m", "n=0x11"}, `{"meta.n":{"$eq":"0x11"}}`, "m []"},
		{[]string{"m", "n=9223372036854775808"}, `{"meta.n":{"$in":[9.223372036854776E+18,"9223372036854775808"]}}`, "m []"},
		{[]string{"m", `n="17"`}, `{"meta.n":{"$eq":"17"}}`, "m []"},
		{[]string{"m", `n="a,b",c`}, `{"meta.n":{"$in":["a,b","c"]}}`, "m []"},
		{[]string{"m", `n="a\"b"`}, `{"meta.n":{"$eq":"a\"b"}}`, "m []"},
		{[]string{"m", "a=true", "b=null"}, `{"$and":[{"meta.a":{"$in":[true,"true"]}},{"meta.b":{"$in":[null,"null"]}}]}`, "m []"},
		{[]string{"m", "a!=x", "a!=y"}, `{"$and":[{"meta.a":{"$ne":"x"}},{"meta.a":{"$ne":"y"}}]}`, "m []"},
		{[]string{"m", "a!=1"}, `{"meta.a":{"$nin":[1,"1"]}}`, "m []"},
		{[]string{"m", "a="}, `{"meta.a":{"$eq":""}}`, "m []"},
		{[]string{"m", "a=b=c"}, `{"meta.a":{"$eq":"b=c"}}`, "m []"},
		{[]string{"m", "meta=s-17"}, `{"meta":{"$eq":"s-17"}}`, "m []"},
		{[]string{"m", "meta.a.b=x"}, `{"meta.a.b":{"$eq":"x"}}`, "m []"},
		{[]string{"m", `meta={"b": {"$numberLong": "1"}, "a": [1, 2]}`}, `{"meta":{"$eq":{"b":1,"a":[1,2]}}}`, "m []"},
	} {
		q, err := parseWords(c.words)
		if err != nil {
			t.Errorf("%q: %v", c.words, err)
			continue
		}
		filter, err := q.filter("meta", nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := bson.MarshalExtJSON(filter, false, false)
		if err != nil || string(text) != c.want || fmt.Sprint(q.collection, " ", q.fields) != c.rest {
			t.Errorf("%q: %s %v, want %s; %q %q, want %q", c.words, text, err, c.want, q.collection, q.fields, c.rest)
		}
	}
	for want, words := range map[string][]string{
		"conditions are name=value":      {"m", "celsius>20"},
		"names no part of the meta":      {"m", "=x"},
		"this is not Extended JSON":      {"m", "meta={sensor: 1}"},
		"is not a text in double quotes": {"m", `a="x`},
		`the field name "a" is empty`:    {"m", "a", "a"},
	} {
		if _, err := parseWords(words); !errors.As(err, &usageError{}) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", words, err, want)
		}
	}
}

func TestQueryWithoutMetaHasNoConditions(t *testing.T) {
	q, err := parseWords([]string{"m", "a=1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.filter("", nil); !errors.As(err, &usageError{}) {
		t.Errorf("%v", err)
	}
}

func TestQueryTimes(t *testing.T) {
	now := time.Date(2026, 3, 8, 12, 0, 0, 500, time.UTC)
	for _, c := range []struct{ from, to, last, want string }{
		{"", "", "", ""},
		{"2026-03-01", "", "", " from 2026-03-01T00:00:00Z"},
		{"-7d", "now", "", " from 2026-03-01T12:00:00Z to 2026-03-08T12:00:00Z"},
		{"-1w1d12h", "-90m", "", " from 2026-02-28T00:00:00Z to 2026-03-08T10:30:00Z"},
		{"", "", "1h", " from 2026-03-08T11:00:00Z to 2026-03-08T12:00:00Z"},
		{"", "2026-03-02", "1d", " from 2026-03-01T00:00:00Z to 2026-03-02T00:00:00Z"},
	} {
		got, err := parseRange("--", c.from, c.to, c.last, now, time.UTC)
		if err != nil || got.String() != c.want {
			t.Errorf("%v: %q %v, want %q", c, got, err, c.want)
		}
	}
	for want, c := range map[string][3]string{
		"--last and --from":    {"2026-03-01", "", "1h"},
		"--last is \"1x\"":     {"", "", "1x"},
		"--last is \"0s\"":     {"", "", "0s"},
		"--last is \"36600w":   {"", "", "36600w"},
		"--last is \"5200w3":   {"", "", "5200w36500d2500000h"},
		"--last is \"-1h\"":    {"", "", "-1h"},
		"--from is \"monday\"": {"monday", "", ""},
		"but begins at":        {"now", "-1h", ""},
		"--from is \"-1e9d\"":  {"-1e9d", "", ""},
	} {
		if _, err := parseRange("--", c[0], c[1], c[2], now, time.UTC); !errors.As(err, &usageError{}) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", c, err, want)
		}
	}
}

// TestQueryTimesAreOfTheZoneOfTheWindows checks that a day of --zone begins at its midnight, and so does --from.
func TestQueryTimesAreOfTheZoneOfTheWindows(t *testing.T) {
	now := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	for want, f := range map[string]queryFlags{
		" from 2026-09-06T04:00:00Z to 2026-09-07T03:00:00Z": {from: "2026-09-06", to: "2026-09-07", every: "1d", zone: "America/Santiago"}, // it has no midnight
		" from 2026-03-29T01:00:00Z to 2026-03-29T01:30:00Z": {from: "2026-03-29 02:30", to: "2026-03-29 03:30", every: "1h", zone: "Europe/Berlin"},
		" from 2026-03-01T00:00:00Z to 2026-03-01T17:00:00Z": {from: "2026-03-01", to: "2026-03-01 17:00"},
		" from 2026-03-01T05:00:00Z to 2026-03-01T17:00:00Z": {from: "2026-03-01", to: "2026-03-01T17:00:00Z", every: "1d", zone: "America/New_York"},
		" from 2026-07-01T04:00:00Z to 2026-07-01T05:30:00Z": {from: "2026-07-01", to: "2026-07-01 01:30", every: "1h", zone: "America/New_York"},
	} {
		if q, err := f.query(queryWords{}, now); err != nil || q.times.String() != want {
			t.Errorf("%+v: %v, %v, want %q", f, q, err, want)
		}
	}
}

// TestARequestIsToldOfItsParameters checks that errors name parameters, because a request has no flags.
func TestARequestIsToldOfItsParameters(t *testing.T) {
	for want, c := range map[string][3]string{
		"last and from both":     {"2026-03-01", "", "1h"},
		"last is \"1x\"":         {"", "", "1x"},
		"from is \"monday\"":     {"monday", "", ""},
		"from must be before to": {"now", "-1h", ""},
	} {
		if _, _, err := serveTimes(c[0], c[1], c[2], time.Now(), time.UTC); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "--") {
			t.Errorf("%v: %v, want %q", c, err, want)
		}
	}
}

// TestQueryRefusesWhatDoesNotGoTogether checks that the error names the remedy, and comes before anything is opened.
func TestQueryRefusesWhatDoesNotGoTogether(t *testing.T) {
	for want, args := range map[string][]string{
		"give only one of --latest, --follow": {"--latest", "--follow"},
		"--follow has no end":                 {"--follow", "--last", "1h"},
		"--series prints no fields":           {"--series", "celsius"},
		"--series cannot print csv":           {"--series", "--format", "csv"},
		"--plot draws a picture":              {"--plot", "celsius", "--format", "csv"},
		"--limit is -1":                       {"--limit", "-1"},
		"must be table or csv or json":        {"--output", "yaml"},
		"within single quotes":                {"--filter", "{meta.sensor: 1}"},
	} {
		if code, _, stderr := onShelf(t, nil, args...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, stderr, want)
		}
	}
	code, _, stderr := try(t, nil, nil, "query", "measurements")
	if code != exitUsage || !strings.Contains(stderr, "MONGODB_URI: is required") || strings.Contains(stderr, "KAFKA") {
		t.Errorf("without settings: exit code %d, %q", code, stderr)
	}
}

// TestQueryTakesTheCollectionOfTheTopic covers command lines that do not name the collection.
func TestQueryTakesTheCollectionOfTheTopic(t *testing.T) {
	env := map[string]string{"MONGODB_URI": "mongodb://mongo/db", "KAFKA_TOPICS": "events", "MONGODB_COLLECTION": "ts-{topic}"}
	opened := ""
	remember := func(p *Program) {
		p.read = func(_ context.Context, _ config.Config, _ *slog.Logger, name string, _ func(measurementSource) error) error {
			opened = name
			return nil
		}
	}
	if code, _, stderr := try(t, env, remember, "query", "sensor=s-17", "celsius"); code != exitDone || opened != "ts-events" {
		t.Errorf("exit code %d, %q is opened, %s", code, opened, stderr)
	}
	env["KAFKA_TOPICS"] = "events,others"
	if code, _, stderr := try(t, env, remember, "query", "--latest"); code != exitUsage || !strings.Contains(stderr, "which time series?") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestQueryAsksForWhatIsNamed(t *testing.T) {
	s := filled(t)
	code, stdout, stderr := onShelf(t, s, "sensor=s-17", "celsius", "--from", "2026-03-01T12:30:00Z", "--limit", "2", "--plot", "name")
	if code != exitDone || len(s.asked) != 1 {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	want := reader.Query{
		Meta: bson.D{{Key: "meta.sensor", Value: bson.D{{Key: "$eq", Value: "s-17"}}}},
		From: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC), Fields: []string{"celsius", "name"}, Limit: 2,
	}
	if diff := cmp.Diff(want, s.asked[0]); diff != "" {
		t.Error(diff)
	}
	const table = "time                      sensor  celsius\n2026-03-01T12:30:00.000Z  s-17         30\n2026-03-01T12:31:00.000Z  s-17         31\n"
	if stdout != table {
		t.Errorf("printed\n%s", stdout)
	}
}

// TestQueryTakesNoFieldsFromTimeAndMeta checks this because they are always printed, and cannot be drawn.
func TestQueryTakesNoFieldsFromTimeAndMeta(t *testing.T) {
	for format, want := range map[string]string{
		"table": "time                      sensor  celsius\n2026-03-01T12:00:00.000Z  s-17          0\n",
		"csv":   "time,sensor,celsius\n2026-03-01T12:00:00.000Z,s-17,0\n",
	} {
		code, stdout, stderr := onShelf(t, filled(t), "--limit=1", "--format", format, "time", "meta.sensor", "celsius", "meta")
		if code != exitDone || stdout != want || stderr != "" {
			t.Errorf("exit code %d, %q, printed\n%s", code, stderr, stdout)
		}
	}
	s := filled(t)
	if _, stdout, _ := onShelf(t, s, "--limit=1", "--format=json", "time"); stdout != `{"time":{"$date":"2026-03-01T12:00:00Z"},"meta":{"sensor":"s-17"}}`+"\n" ||
		s.asked[0].Fields == nil || len(s.asked[0].Fields) > 0 {
		t.Errorf("printed %s, and asked for %#v", stdout, s.asked)
	}
	if _, stdout, _ := onShelf(t, filled(t), "--limit=1", "time"); stdout != "time                      sensor\n2026-03-01T12:00:00.000Z  s-17\n" {
		t.Errorf("printed\n%s", stdout)
	}
	for _, name := range []string{"time", "meta", "meta.sensor"} {
		if code, _, stderr := onShelf(t, filled(t), "--plot", name); code != exitUsage || !strings.Contains(stderr, name+" is not a field") {
			t.Errorf("exit code %d, %q", code, stderr)
		}
	}
	if _, _, stderr := onShelf(t, filled(t), "sensor"); stderr != "\"sensor\" is not a field but a part of the meta, which is always printed.\n" {
		t.Errorf("it says %q", stderr)
	}
}

func TestQueryHints(t *testing.T) {
	for want, args := range map[string][]string{
		"None of the 120 measurements has celcius. Existing fields: celsius, name.": {"celcius"},
		`No measurement of sensor=s-17 to 2026-01-01T00:00:00Z: the newest`:         {"sensor=s-17", "--to", "2026-01-01"},
		"at 2026-03-01T12:59:00.000Z.":                                              {"--from", "2027-01-01"},
	} {
		if code, _, stderr := onShelf(t, filled(t), args...); code != exitDone || strings.Count(stderr, want) != 1 {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, stderr, want)
		}
	}
	many := &shelf{}
	for i := range sampleSize {
		many.all = append(many.all, reader.Measurement{Time: time.Unix(int64(i), 0), Meta: raw(t, i), Fields: raw(t, bson.D{}).Document()})
	}
	if _, _, stderr := onShelf(t, many, "--from", "2027-01-01"); !strings.Contains(stderr, "the newest of the first 40 series is at 1970-01-01T00:00:39.000Z") {
		t.Errorf("of many series it says %q", stderr)
	}
	s := filled(t)
	s.selected = nil
	_, _, stderr := onShelf(t, s, "senser=s-17", "celsius=1")
	for _, want := range []string{
		`No series matches senser=s-17 celsius=1. There is sensor=s-17, for example`, `The meta has no "senser": it has sensor.`,
		`"celsius" is a field of the measurements: conditions are on the meta`,
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is not in %q", want, stderr)
		}
	}
}

// TestQueryHintsEarly checks that a hint about a misspelt field comes before the end of the output.
func TestQueryHintsEarly(t *testing.T) {
	s := filled(t)
	for len(s.all) < 3*hintAfter {
		s.all = append(s.all, s.all...)
	}
	_, _, stderr := onShelf(t, s, "celcius")
	if strings.Count(stderr, "None of the 1000 measurements has celcius") != 1 || strings.Count(stderr, "celcius") != 1 {
		t.Errorf("it says %q", stderr)
	}
}

// TestQueryTellsOfBrokenBuckets checks that readable measurements are printed, and that the command fails.
func TestQueryTellsOfBrokenBuckets(t *testing.T) {
	s := filled(t)
	s.broken = &reader.BucketError{Namespace: "db.measurements.buckets", Err: errors.New("odd")}
	code, stdout, stderr := onShelf(t, s, "--format", "json")
	if code != exitFailed || strings.Count(stdout, "\n") != 120 || strings.Count(stderr, "cannot be read: odd") != badBucketsTold ||
		!strings.Contains(stderr, "120 buckets could not be read") {
		t.Errorf("exit code %d, %d lines, %q", code, strings.Count(stdout, "\n"), stderr)
	}
	s.broken = &reader.QueryError{Err: errors.New("no such operator")}
	if code, _, stderr := onShelf(t, s); code != exitUsage || !strings.Contains(stderr, "waterwheel: no such operator") {
		t.Errorf("a query that cannot be asked: exit code %d, %q", code, stderr)
	}
	s.broken = errors.New("no primary")
	if code, stdout, _ := onShelf(t, s); code != exitFailed || strings.Count(stdout, "\n") != 2 {
		t.Errorf("what came before the end is not in %q", stdout)
	}
	if code, stdout, stderr := onShelf(t, s, "--format", "json"); code != exitFailed || strings.Count(stdout, "\n") != 1 || !strings.Contains(stderr, "no primary") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}

// TestQueryFollowsInTheColumnsOfWhatThereIs covers a first measurement that lacks some fields.
func TestQueryFollowsInTheColumnsOfWhatThereIs(t *testing.T) {
	s := filled(t)
	s.all[0].Fields = raw(t, bson.D{{Key: "name", Value: "first"}}).Document()
	_, stdout, _ := onShelf(t, s, "--follow", "--format", "csv")
	if !strings.HasPrefix(stdout, "time,sensor,celsius,name\n2026-03-01T12:00:00.000Z,s-17,,first\n") {
		t.Errorf("printed %.100q", stdout)
	}
}

// TestQueryDrawsForWhoLooks checks colours and fine dots on terminals that support them.
func TestQueryDrawsForWhoLooks(t *testing.T) {
	for name, c := range map[string]struct {
		screen terminal
		env    map[string]string
		colors bool
		ascii  bool
		width  int
	}{
		"a file":       {terminal{}, nil, false, true, 80},
		"wide file":    {terminal{}, map[string]string{"COLUMNS": "132"}, false, true, 132},
		"a terminal":   {terminal{100, 40}, map[string]string{"LANG": "C.UTF-8"}, true, false, 100},
		"no locale":    {terminal{100, 40}, nil, true, false, 100},
		"old locale":   {terminal{100, 40}, map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, true, true, 100},
		"no colors":    {terminal{100, 40}, map[string]string{"NO_COLOR": "1"}, false, false, 100},
		"dumb":         {terminal{100, 40}, map[string]string{"TERM": "dumb"}, false, true, 80},
		"tiny, lowest": {terminal{10, 2}, nil, true, false, 10},
	} {
		p := &Program{screen: c.screen, Lookup: func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }}
		if o := p.plotOptions(&query{}); o.Color != c.colors || o.ASCII != c.ascii || o.Width != c.width {
			t.Errorf("%s: %+v", name, o)
		}
	}
	s := filled(t)
	env := map[string]string{"MONGODB_URI": "mongodb://mongo/db"}
	_, stdout, _ := try(t, env, func(p *Program) {
		p.screen = terminal{100, 40}
		p.read = func(_ context.Context, _ config.Config, _ *slog.Logger, _ string, use func(measurementSource) error) error {
			return use(s)
		}
	}, "query", "m", "--plot", "celsius")
	for _, want := range []string{"\x1b[36m", "sensor=s-18  min 0  mean 29.5  max 59  last 59  of 60", "celsius, 2026-03-01 12:00:00 to 2026-03-01 12:59:00 UTC"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
}

// endOfPaper is a writer that fails after some bytes.
type endOfPaper struct{ left int }

// Write implements io.Writer.
func (e *endOfPaper) Write(b []byte) (int, error) {
	if e.left -= len(b); e.left < 0 {
		return 0, errors.New("no space left")
	}
	return len(b), nil
}

// TestQueryStopsWhenNothingCanBePrinted checks that it does not read any further.
func TestQueryStopsWhenNothingCanBePrinted(t *testing.T) {
	s := filled(t)
	s.endless = true
	var errs bytes.Buffer
	env := map[string]string{"MONGODB_URI": "mongodb://mongo/db"}
	code, _, _ := try(t, env, func(p *Program) {
		p.Stdout, p.Stderr = &endOfPaper{200_000}, &errs
		p.read = func(_ context.Context, _ config.Config, _ *slog.Logger, _ string, use func(measurementSource) error) error {
			return use(s)
		}
	}, "query", "m", "--format", "csv")
	if code != exitFailed || !strings.Contains(errs.String(), "no space left") {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

// TestFiltersOfServe checks that a filter of a request cannot run scripts on the server.
func TestFiltersOfServe(t *testing.T) {
	o := timeseries.Options{TimeField: "time", MetaField: "meta"}
	for filter, want := range map[string]string{
		`{"meta.sensor": "s-17"}`: "",
		`{"$or": [{"meta.a": 1}, {"$expr": {"$function": {"body": "x", "args": [], "lang": "js"}}}]}`: "filter has $function",
		`{"$where": "true"}`: "filter has $where",
		`[`:                  "filter is not an object",
		`[]`:                 "filter is not an object",
		`{"meta.n": 1} {}`:   "filter is not an object",
	} {
		_, err := serveFilter(o, nil, filter)
		if want == "" && err != nil || want != "" && (!errors.As(err, new(usageError)) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", filter, err, want)
		}
	}
}
