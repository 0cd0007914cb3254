package check

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
)

// advised returns the advice about a sample of events. The sample is taken at the time at which they are recorded.
func advised(t *testing.T, change func(*measurement.Options), events ...string) Advice {
	t.Helper()
	view, _ := sampled(t, change, events...)
	return view.Advice
}

func TestKnownShapesAreProposed(t *testing.T) {
	document, err := bson.Marshal(bson.D{{Key: "ts", Value: 1_700_000_000}, {Key: "host", Value: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	const telegraf = `{"fields":{"usage":1.5},"name":"cpu","tags":{"host":"a"},"timestamp":1700000000}`
	for _, test := range []struct{ shape, line, event, becomes string }{
		{"flat events", "EVENT_TIME_FIELD=ts EVENT_META_FIELDS=device,site", `{"device":"d1","site":"n","ts":1700000000,"celsius":21.5,"status":"ok"}`, `"celsius":21.5,"status":"ok"`},
		{"flat events", "EVENT_TIME_FIELD=@timestamp EVENT_META_FIELDS=host", `{"@timestamp":"2023-11-14T22:13:20Z","host":"a","message":"x","v":1}`, `"message":"x","v":1`},
		{"flat events", "EVENT_TIME_FORMAT='2006-01-02 15:04:05' EVENT_META_FIELDS=sensor_id", `{"time":"2023-11-14 22:13:20.5","sensor_id":17,"v":1}`, `22:13:20.5Z`},
		{"flat events", "EVENT_TIME_FIELD=head.sent EVENT_META_FIELDS=device.id,device.site", `{"head":{"sent":"2023-11-14T22:13:20Z"},"device":{"id":"x","site":"n"},"v":1}`, `"meta":{"id":"x","site":"n"},"v":1`},
		{"flat events", "EVENT_TIME_FIELD=ts EVENT_META_FIELDS=device.id,site_id=site.id", `{"ts":1700000000,"device":{"id":"x"},"site":{"id":"n"},"v":1}`, `"meta":{"id":"x","site_id":"n"}`},
		{"flat events", "EVENT_TIME_FIELD=ts EVENT_META_FIELDS=node_id", `{"ts":1700000000,"node_id":3,"channel":5,"site":null,"v":1}`, `"channel":5,"site":null,"v":1`},
		{"flat events", "EVENT_TIME_FIELD=ts EVENT_META_FIELD=tags", `{"ts":1700000000,"tags":{"b":"x","a":"y"},"v":1}`, `"meta":{"a":"y","b":"x"},"v":1`},
		{"flat events, with the record's timestamp as time", "EVENT_TIME_FIELD= EVENT_META_FIELDS=host", `{"host":"a","v":1}`, `"v":1`},
		{"flat events, all of one series", "EVENT_META_FROM=none", `{"time":1700000000,"v":1}`, `{"time":{"$date":"2023-11-14T22:13:20Z"},"v":1}`},
		{"flat events", "EVENT_FRAMING=confluent EVENT_TIME_FIELD=ts EVENT_META_FIELDS=host", "\x00\x00\x00\x00\x07" + `{"ts":1700000000,"host":"a"}`, `"host":"a"`},
		{"flat events", "EVENT_FORMAT=bson EVENT_TIME_FIELD=ts EVENT_META_FIELDS=host", string(document), `"host":"a"`},
		{"flat events", "EVENT_FORMAT=extjson EVENT_TIME_FIELD=ts EVENT_META_FIELDS=host", `{"ts":{"$date":"2023-11-14T22:13:20Z"},"host":"a","v":{"$numberLong":"5"}}`, `"v":5`},
		{"Telegraf's events", "EVENT_TIME_FIELD=timestamp EVENT_META_FIELDS=name,tags EVENT_FIELDS=fields", telegraf, `"meta":{"name":"cpu","tags":{"host":"a"}},"usage":1.5`},
		{
			"Telegraf's events in Kafka Connect's envelope", "EVENT_ROOT=payload EVENT_TIME_FIELD=timestamp EVENT_META_FIELDS=name,tags EVENT_FIELDS=fields",
			`{"schema":null,"payload":` + telegraf + `}`, `"usage":1.5`,
		},
		{"Kafka Connect's envelope", "EVENT_ROOT=payload EVENT_TIME_FIELD=ts EVENT_META_FIELDS=host", `{"schema":{"type":"struct"},"payload":{"ts":1700000000,"host":"a","v":1}}`, `"v":1`},
		{
			"Debezium's changes of rows", "EVENT_ROOT=after EVENT_TIME_FIELD=measured_at EVENT_META_FIELDS=sensor_id",
			`{"before":null,"after":{"sensor_id":7,"v":1,"measured_at":1700000000123456},"source":{"ts_ms":1},"op":"c","ts_ms":1700000000000}`, `"meta":{"sensor_id":7},"v":1`,
		},
		{
			"Debezium's changes of rows in Kafka Connect's envelope", "EVENT_ROOT=payload.after EVENT_TIME_FIELD=/payload.source.ts_ms EVENT_META_FIELDS=sensor_id",
			`{"schema":{},"payload":{"before":null,"after":{"sensor_id":7,"v":1},"source":{"ts_ms":1700000000000},"op":"c"}}`, `"v":1`,
		},
		{
			"OpenTelemetry's data points", "EVENT_META_FIELDS=serviceName,name,unit,attributes EVENT_DROP=description",
			`{"kind":"GAUGE","name":"queue","description":"d","unit":"1","serviceName":"shop","time":"2023-11-14T22:13:20Z","value":4.5,"attributes":{"q":"a"}}`, `"kind":"GAUGE","value":4.5`,
		},
		{
			"OpenTelemetry's data points", "EVENT_TIME_FIELD=timeUnixNano EVENT_META_FIELDS=name,attributes EVENT_DROP=startTimeUnixNano",
			`{"name":"queue","attributes":{"q":"a"},"startTimeUnixNano":"1690000000000000000","timeUnixNano":"1700000000000000000","asDouble":4.5}`, `"asDouble":4.5`,
		},
		{"tickers", "EVENT_META_FIELDS=product_id EVENT_NUMBERS=text", `{"type":"ticker","product_id":"BTC-USD","price":"30281.22","time":"2023-11-14T22:13:20Z"}`, `"price":30281.22`},
		{"Telegraf's events in the list metrics", "EVENT_LIST=metrics EVENT_TIME_FIELD=timestamp EVENT_META_FIELDS=name,tags EVENT_FIELDS=fields", `{"metrics":[` + telegraf + `]}`, `"usage":1.5`},
		{
			"Kafka Connect's envelope in the list payload.readings", "EVENT_LIST=readings EVENT_ROOT=payload EVENT_TIME_FIELD=ts EVENT_META_FIELDS=device",
			`{"schema":null,"payload":{"device":"d","readings":[{"ts":1700000000,"v":1.5}]}}`, `"meta":{"device":"d"},"v":1.5`,
		},
		{
			"CloudEvents, parsed from the text data_base64", "EVENT_PARSE=/data_base64 EVENT_ROOT=data_base64 EVENT_TIME_FIELD=/time EVENT_META_FIELDS=/source",
			`{"specversion":"1.0","id":"1","source":"/n","type":"t","time":"2023-11-14T22:13:20Z","data_base64":"eyJjZWxzaXVzIjoyMS44fQ=="}`, `"celsius":21.8`,
		},
		{
			"Debezium's changes of rows, parsed from the text after", "EVENT_PARSE=/after EVENT_ROOT=after EVENT_TIME_FIELD=at EVENT_META_FIELDS=sensor_id",
			`{"after":"{\"sensor_id\":7,\"v\":1,\"at\":1700000000123}","source":{"ts_ms":1},"op":"c","ts_ms":1700000000000}`, `"meta":{"sensor_id":7},"v":1`,
		},
		{"tickers", "EVENT_TIME_FIELD=E EVENT_META_FIELDS=symbol=s,exchange EVENT_NUMBERS=text", `{"e":"trade","E":1700000000123,"s":"BNBBTC","exchange":"x","p":"0.001"}`, `"meta":{"exchange":"x","symbol":"BNBBTC"}`},
	} {
		a := advised(t, nil, test.event)
		if a.Proposal == nil {
			t.Errorf("%q: nothing is proposed: %+v", test.event, a)
			continue
		}
		if p := a.Proposal; p.Shape != test.shape || p.Line() != test.line || p.DeadLetters != 0 || !strings.Contains(string(p.Examples[0]), test.becomes) {
			t.Errorf("%q:\ngot  %s: %s\n     %s\nwant %s: %s\n     …%s…", test.event, p.Shape, p.Line(), p.Examples[0], test.shape, test.line, test.becomes)
		}
	}
}

func TestNothingIsProposedWithItsReason(t *testing.T) {
	for event, want := range map[string]string{
		`{"time":1700000000,"meta":"a","v":1}`:      "",
		`{"resourceMetrics":[{"scopeMetrics":[]}]}`: "the records can be read with EVENT_FORMAT=otlp_json, but have no measurements",
		`{"resourceLogs":[{"scopeLogs":[]}]}`:       "with many data points in lists inside lists",
		`{"a":[{"b":[{"v":1}]}]}`:                   "the list b inside the list a, but a list inside a list cannot be split",
		`{"name":"q","timeUnixNano":"1700000000000000000","attributes":[{"key":"a"}],"asDouble":4.5}`: "attributes are a list of keys and values",
		"\x00\x00\x00\x00\x07\x02\x06abc": "for Avro or Protobuf set SCHEMA_REGISTRY_URL and EVENT_FORMAT=avro or EVENT_FORMAT=protobuf",
		`7`:                               "the records hold a single value",
	} {
		a := advised(t, nil, event)
		if a.Proposal != nil || !strings.Contains(a.Unproposed, want) || (want == "") != (a.Unproposed == "") {
			t.Errorf("%q: %+v, want %q", event, a, want)
		}
	}
	fit := func(o *measurement.Options) { o.TimeField, o.MetaField, o.MetaFrom = "", "", measurement.MetaFromNone }
	if a := advised(t, fit, `{"resourceMetrics":[{"scopeMetrics":[]}]}`); a.Proposal != nil || a.Unproposed != "" {
		t.Errorf("the settings fit: %+v", a)
	}
	if a := advised(t, nil); a.Proposal != nil || a.Unproposed != "" {
		t.Errorf("no records: %+v", a)
	}
}

// TestFieldForEachQuantityIsTheOtherChoice checks that the proposal makes a series of each quantity, and names the settings for
// the other choice.
func TestFieldForEachQuantityIsTheOtherChoice(t *testing.T) {
	const hint = "EVENT_FIELD_NAME=metric EVENT_FIELD_VALUE=value, the values are fields of one series"
	for event, want := range map[string]bool{
		`{"time":%d,"sensor":"s%d","metric":"temp","value":1.5}`: true,
		`{"time":%d,"sensor":"s%d","metric":"temp","c":1.5}`:     false,
		`{"time":%d,"sensor":"s%d","value":1.5}`:                 false,
	} {
		a := advised(t, nil, repeat(40, event, func(i int) []any { return []any{1_700_000_000 + i, i % 4} })...)
		if a.Proposal == nil || strings.Contains(strings.Join(a.Proposal.Because, "; "), hint) != want {
			t.Errorf("%s: %+v", event, a.Proposal)
		}
	}
}

// TestShortNamesOfQuantitiesDivideSeries checks that a field with a usual name of a quantity becomes a part of meta if it divides
// the series of a device, and otherwise does not.
func TestShortNamesOfQuantitiesDivideSeries(t *testing.T) {
	quantity := func(i int) string { return []string{"temp", "hum"}[i%2] }
	ofDevice := func(i int) string { return []string{"TH10", "TH20"}[i/2%2] }
	for event, test := range map[string]struct {
		of          func(i int) string
		metas, hint string
	}{
		`{"device":"d%[3]d","ts":%[1]d,"n":"%[2]s","v":1.1}`:                          {quantity, "device,n", "EVENT_FIELD_NAME=n EVENT_FIELD_VALUE=v,"},
		`{"device":"d%[3]d","m":[{"ts":%[1]d,"n":"%[2]s","v":1.1}]}`:                  {quantity, "device,n", "EVENT_FIELD_NAME=n EVENT_FIELD_VALUE=v,"},
		`{"device":"d%[3]d","ts":%[1]d,"k":"%[2]s","v":1.1}`:                          {quantity, "device,k", "EVENT_FIELD_NAME=k EVENT_FIELD_VALUE=v,"},
		`{"device":"d%[3]d","ts":%[1]d,"name":"%[2]s","v":1.1}`:                       {quantity, "device,name", "EVENT_FIELD_NAME=name EVENT_FIELD_VALUE=v,"},
		`{"device":"d%[3]d","ts":%[1]d,"measure":"%[2]s","reading":1.1}`:              {quantity, "device,measure", "EVENT_FIELD_NAME=measure EVENT_FIELD_VALUE=reading,"},
		`{"device":"d%[3]d","ts":%[1]d,"parameter":"%[2]s","v":1.1}`:                  {quantity, "device,parameter", "EVENT_FIELD_NAME=parameter EVENT_FIELD_VALUE=v,"},
		`{"Device":"d%[3]d","ts":%[1]d,"Name":"%[2]s","Value":1.1}`:                   {quantity, "Device,Name", "EVENT_FIELD_NAME=Name EVENT_FIELD_VALUE=Value,"},
		`{"device":"d%[3]d","ts":%[1]d,"n":"%[2]s","%[4]s":"open"}`:                   {quantity, "device,n", "EVENT_FIELD_NAME=n EVENT_FIELD_VALUE='v|vs',"},
		`{"device":"d%[3]d","ts":%[1]d,"type":"%[2]s","v":1.1}`:                       {ofDevice, "device", ""},
		`{"device":"d%[3]d","ts":%[1]d,"name":"%[2]s","v":1.1}` + " ":                 {ofDevice, "device", ""},
		`{"device":"d%[3]d","ts":%[1]d,"n":"%[2]s","celsius":1.1}`:                    {quantity, "device", ""},
		`{"vehicle":"d%[3]d","ts":%[1]d,"type":"%[2]s","lat":1.5,"lon":2.5,"v":1.1}`:  {quantity, "vehicle", ""},
		`{"device":"d%[3]d","ts":%[1]d,"type":"%[2]s","v":3.3,"co2":4.5}`:             {quantity, "device", ""},
		`{"device":"d%[3]d","ts":%[1]d,"type":"%[2]s","reading":{"t":1.5,"h":2.5}}`:   {quantity, "device", ""},
		`{"device":"d%[3]d","ts":%[1]d,"type":"%[2]s","value":1.1,"status":"online"}`: {ofDevice, "device,type", "EVENT_FIELD_NAME=type EVENT_FIELD_VALUE=value,"},
	} {
		var events []string
		for i := range 40 {
			text := fmt.Sprintf(event, 1_700_000_000+i/2, test.of(i), i/2%4, []string{"v", "vs"}[i%2])
			events = append(events, strings.Split(text, "%!(EXTRA")[0])
		}
		a := advised(t, nil, events...)
		if a.Proposal == nil || a.Proposal.Confidence != High || !strings.Contains(a.Proposal.Line()+" ", " EVENT_META_FIELDS="+test.metas+" ") {
			t.Errorf("%s: %+v", event, a)
			continue
		}
		if because := strings.Join(a.Proposal.Because, "; "); !strings.Contains(because, test.hint) || (test.hint == "") != !strings.Contains(because, "EVENT_FIELD_NAME") {
			t.Errorf("%s: %s, want %s", event, because, test.hint)
		}
	}
}

// TestProposalTakesBackWhatIsSet checks that the proposed line is complete, whatever the present settings are.
func TestProposalTakesBackWhatIsSet(t *testing.T) {
	a := advised(t, func(o *measurement.Options) {
		o.TimeField, o.TimeFormat, o.MetaField, o.Root = "at", "unix", "id", "data"
		o.Drop = []string{"x"}
	}, `{"time":"2023-11-14T22:13:20Z","host":"a","v":1}`)
	const want = "EVENT_ROOT= EVENT_TIME_FIELD=time EVENT_TIME_FORMAT=auto EVENT_META_FIELD= EVENT_META_FIELDS=host EVENT_DROP="
	if a.Proposal == nil || a.Proposal.Line() != want {
		t.Errorf("got %+v, want %s", a, want)
	}
}

// TestProposalsStoreMoreThanTheSettings also covers a sample of which some events fit already.
func TestProposalsStoreMoreThanTheSettings(t *testing.T) {
	events := repeat(10, `{"time":%d,"meta":"a"}`, func(i int) []any { return []any{1_700_000_000 + i} })
	if a := advised(t, nil, append(events, `{"ts":1700000000,"host":"a"}`)...); a.Proposal != nil {
		t.Errorf("one of eleven is of another form: %+v", a)
	}
	view, found := sampledAndKept(t, append(events, repeat(90, `{"ts":%d,"host":"a"}`, func(i int) []any { return []any{1_700_000_000 + i} })...)...)
	if p := view.Proposal; p == nil || p.Measurements != 90 || p.DeadLetters != 10 {
		t.Fatalf("%+v", view.Advice)
	}
	last := found[len(found)-1]
	for _, one := range found {
		if one.State == Wrong {
			last = one
		}
	}
	if last.WayOut != "the events look like flat events: EVENT_TIME_FIELD=ts EVENT_META_FIELDS=host" {
		t.Errorf("%+v", found)
	}
}

func sampledAndKept(t *testing.T, events ...string) (Sample, Findings) {
	t.Helper()
	decoding, bucketing := eventOptions(t, nil)
	var found Findings
	view, err := Feed(strings.NewReader(strings.Join(events, "\n")), 1_700_000_000_000, decoding, bucketing, &found)
	if err != nil {
		t.Fatal(err)
	}
	return view, found
}

func TestLinesAreQuotedForAShell(t *testing.T) {
	p := Proposal{Settings: []Setting{{"A", ""}, {"B", "x y"}, {"C", "it's"}, {"D", "/a.b,c=@d"}}}
	if got, want := p.Line(), `A= B='x y' C='it'\''s' D=/a.b,c=@d`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := fmt.Sprint(Proposal{}.Line()); got != "" {
		t.Error(got)
	}
}

// TestFewLinesBesideJSONAreLines checks that a record of another format does not change what identifies the series of lines.
func TestFewLinesBesideJSONAreLines(t *testing.T) {
	a := advised(t, nil, "cpu,host=a u=1.5 1700000000000000000", "mem,host=a free=7 1700000001000000000", "cpu,host=b u=2.5 1700000002000000000", "mem,host=b free=8 1700000003000000000", `{"a":1}`)
	if a.Proposal == nil || a.Proposal.Line() != "EVENT_FORMAT=influx" || a.Proposal.Series != 4 {
		t.Errorf("%+v", a)
	}
}
