package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/dlq"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// eventOptions returns the options of events with a time in seconds, as check uses them.
func eventOptions(t *testing.T, change func(*measurement.Options)) (measurement.Options, bucketer.Options) {
	t.Helper()
	definition, err := timeseries.Options{TimeField: "time", MetaField: "meta"}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	decoding := measurement.Options{
		TimeField: "time", TimeFormat: "auto", MetaField: "meta", StoredTime: "time", StoredMeta: "meta",
		TimeMin: measurement.At(946_684_800_000), TimeMax: measurement.FromRecord(24 * time.Hour),
	}
	if change != nil {
		change(&decoding)
	}
	return decoding, bucketer.Options{
		Collection: definition, DeltaMax: 2, Limits: timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10, CacheBytes: 1 << 30},
	}
}

// sampled runs events through a sampler, at the time at which they are recorded.
func sampled(t *testing.T, change func(*measurement.Options), events ...string) (Sample, Findings) {
	t.Helper()
	decoding, bucketing := eventOptions(t, change)
	s, err := newSampler("events", decoding, bucketing)
	if err != nil {
		t.Fatal(err)
	}
	for i, event := range events {
		r := &record.Record{Offset: int64(i), Timestamp: 1_700_000_000_000, Value: []byte(event)}
		if event == "" {
			r.Value = nil
		}
		s.take(0, r)
	}
	view := s.finish()
	var found Findings
	s.judge(&found)
	return view, found
}

func repeat(n int, format string, args func(int) []any) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(format, args(i)...))
	}
	return list
}

// has reports whether a finding of this state contains the text.
func (f Findings) has(state State, text string) bool {
	return slices.ContainsFunc(f, func(one Finding) bool { return one.State == state && strings.Contains(one.Text, text) })
}

func TestSampleShowsWhatEventsBecome(t *testing.T) {
	events := repeat(60, `{"time":%d,"meta":{"host":"h%d"},"v":1}`, func(i int) []any { return []any{1_700_000_000 + i, i % 3} })
	events = append(events, "", `{"time":1700000000,"meta":1`, `[{"time":1700000000,"meta":"x"},7]`)
	view, found := sampled(t, nil, events...)
	if view.Records != 63 || view.Tombstones != 1 || view.Measurements != 61 || view.Series != 4 || len(view.Examples) != 3 {
		t.Errorf("%+v", view)
	}
	if got := string(view.Examples[0]); got != `{"time":{"$date":"2023-11-14T22:13:20Z"},"meta":{"host":"h0"},"v":1}` {
		t.Errorf("the first measurement is %s", got)
	}
	reasons := map[string]int{}
	for _, b := range view.Bad {
		reasons[b.Reason] = b.Count
	}
	if len(reasons) != 2 || reasons["not_json"] != 1 || reasons["not_object"] != 1 {
		t.Errorf("bad: %v", reasons)
	}
	// A minute begins at 22:13, so every series has a bucket for it and one for the next minute.
	if view.Buckets < 4 || view.Largest[0].Measurements < view.Largest[len(view.Largest)-1].Measurements || view.Largest[0].Bytes == 0 {
		t.Errorf("%d buckets: %+v", view.Buckets, view.Largest)
	}
	if !found.has(Warning, "2 of 63 events would become dead letters") || found.Count(Wrong) != 0 {
		t.Errorf("%+v", found)
	}
	if _, err := json.Marshal(view); err != nil {
		t.Error(err)
	}
}

func TestSampleSeesAWrongUnitOfTime(t *testing.T) {
	events := repeat(60, `{"time":%d,"meta":"a"}`, func(i int) []any { return []any{1_700_000_000 + i} })
	_, found := sampled(t, func(o *measurement.Options) { o.TimeFormat = "unix_ms" }, events...)
	if !found.has(Wrong, "looks like seconds and was read as milliseconds") {
		t.Errorf("%+v", found)
	}
	events = repeat(60, `{"time":%d,"meta":"a"}`, func(i int) []any { return []any{1_700_000_000 + i + 20*3600} })
	if _, found = sampled(t, nil, events...); !found.has(Warning, "20h0m30s or more after the timestamps of their records") {
		t.Errorf("times of tomorrow: %+v", found)
	}
	events = repeat(60, `{"time":%d,"meta":"a"}`, func(i int) []any { return []any{1_600_000_000 + i} })
	if _, found = sampled(t, nil, events...); !found.has(Warning, "before the timestamps of their records") {
		t.Errorf("times of years ago: %+v", found)
	}
}

func TestSampleSeesTooManySeries(t *testing.T) {
	events := repeat(100, `{"time":1700000000,"meta":{"host":"h%d","trace":{"id":%d}}}`, func(i int) []any { return []any{i % 4, i} })
	view, found := sampled(t, nil, events...)
	if !found.has(Warning, "100 measurements belong to 100 series") || !found.has(Warning, "meta.trace.id (100 values in 100 measurements), meta.host (4 values in 100 measurements)") {
		t.Errorf("%+v", found)
	}
	if view.Buckets != 100 {
		t.Errorf("%d buckets", view.Buckets)
	}
	events = repeat(100, `{"time":1700000000,"meta":{"host":"h%d"}}`, func(i int) []any { return []any{i % 40} })
	if _, found = sampled(t, nil, events...); found.Count(OK) != len(found) {
		t.Errorf("few series: %+v", found)
	}
}

func TestVarietyOfAnyMeta(t *testing.T) {
	v := newVariety()
	for _, meta := range []any{"a", "b", bson.Null{}, bson.D{}, bson.A{1, bson.D{{Key: "x", Value: 1}}}, "a"} {
		kind, value, err := bson.MarshalValue(meta)
		if err != nil {
			t.Fatal(err)
		}
		v.add(bson.RawValue{Type: kind, Value: value}, 0)
	}
	v.add(bson.RawValue{}, 0)
	got := fmt.Sprint(v.fields(9))
	if want := "[{ 4 5} {0 1 1} {1.x 1 1}]"; got != want || v.series() != 6 {
		t.Errorf("%d series, fields %s, want %s", v.series(), got, want)
	}
}

func TestSharesOfASample(t *testing.T) {
	span := func(first, end int64) dlq.Span { return dlq.Span{First: first, End: end} }
	cases := []struct {
		spans []dlq.Span
		n     int64
		want  []int64
	}{
		{[]dlq.Span{span(0, 100), span(50, 150)}, 10, []int64{5, 5}},
		{[]dlq.Span{span(0, 100), span(0, 2), span(7, 7)}, 10, []int64{8, 2, 0}},
		{[]dlq.Span{span(0, 3), span(0, 2)}, 10, []int64{3, 2}},
		{nil, 10, []int64{}},
	}
	for _, c := range cases {
		if got := shares(c.spans, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.spans, got, c.want)
		}
	}
}

func TestSampleOutlastsARecordThatMakesTheDecoderFail(t *testing.T) {
	s := sampler{bad: map[string]*Bad{}, evidence: newEvidence("events", true), kept: &kept{}}
	s.take(0, &record.Record{Offset: 7, Value: []byte(`{"time":1700000000}`)})
	if bad := s.bad["internal_error"]; bad == nil || bad.Count != 1 {
		t.Errorf("%+v", s.bad)
	}
}

// TestSampleDropsACatalogThatFailed checks this because the content of a catalog after a panic is unknown.
func TestSampleDropsACatalogThatFailed(t *testing.T) {
	decoding, bucketing := eventOptions(t, nil)
	s, err := newSampler("events", decoding, bucketing)
	if err != nil {
		t.Fatal(err)
	}
	s.catalogs[4] = new(bucketer.Catalog) // without its maps it panics at an insertion
	for offset := range int64(2) {
		s.take(4, &record.Record{Offset: offset, Timestamp: 1_700_000_000_000, Value: []byte(`{"time":1700000000,"meta":"a"}`)})
	}
	view := s.finish()
	if view.Measurements != 1 || view.Buckets != 1 || len(view.Bad) != 1 || view.Bad[0].Reason != "internal_error" || view.Bad[0].Count != 1 {
		t.Errorf("%+v", view)
	}
}

// TestSampleSeesPartsOfMetaThatNoEventHas checks this because a misspelt path makes no letter if another part exists.
func TestSampleSeesPartsOfMetaThatNoEventHas(t *testing.T) {
	parts := func(list ...string) func(*measurement.Options) {
		return func(o *measurement.Options) { o.MetaField, o.MetaFields = "", list }
	}
	const event = `{"time":1700000000,"host":"a","tags":{"x":1}}`
	if _, found := sampled(t, parts("host", "tags", "site=locaton.site"), event); !found.has(Warning, "no event has site=locaton.site, a part of meta") || found.Count(Warning) != 1 {
		t.Errorf("%+v", found)
	}
	if _, found := sampled(t, parts("host", "all=tags"), event); found.Count(Warning) != 0 {
		t.Errorf("%+v", found)
	}
}

// TestSampleSeesPathsOfTheShapeThatNoEventHas checks this because such settings do nothing, or skip every event, without a letter.
func TestSampleSeesPathsOfTheShapeThatNoEventHas(t *testing.T) {
	const event = `{"time":1700000000,"meta":"a","st":"up","air":{"t":1},"r":[{"time":1700000000,"v":1}]}`
	for _, test := range []struct {
		change func(*measurement.Options)
		says   string
	}{
		{func(o *measurement.Options) { o.Skip = []string{"v is null"} }, "no event has v is null, which EVENT_SKIP=v is null names"},
		{func(o *measurement.Options) { o.Skip, o.Rename = []string{"status=join"}, []string{"st=status"} }, "no event has status, which EVENT_SKIP=status=join names"},
		{func(o *measurement.Options) { o.Drop = []string{"air.tt"} }, "no event has tt, which EVENT_DROP=air.tt names"},
		{func(o *measurement.Options) { o.Rename = []string{"zz=q"} }, "no event has zz, which EVENT_RENAME=zz=q names"},
		{func(o *measurement.Options) { o.Skip, o.Drop = []string{"st=join"}, []string{"air.t"} }, ""},
		{func(o *measurement.Options) { o.Rename, o.Drop = []string{"st=status"}, []string{"status"} }, ""},
		{func(o *measurement.Options) { o.List, o.Skip = []string{"r"}, []string{"v=0"} }, ""},
	} {
		_, found := sampled(t, test.change, event)
		if test.says != "" && !found.has(Warning, test.says) || test.says == "" && found.has(Warning, "no event has") {
			t.Errorf("%s: %+v", test.says, found)
		}
	}
}

// TestSampleWarnsOfSeriesInSeveralPartitions checks this because such series have separate buckets in each partition.
func TestSampleWarnsOfSeriesInSeveralPartitions(t *testing.T) {
	look := func(partitions int, change func(*measurement.Options)) Findings {
		decoding, bucketing := eventOptions(t, change)
		s, err := newSampler("events", decoding, bucketing)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			value := fmt.Appendf(nil, `{"time":%d,"meta":"s%d"}`, 1_700_000_000+i, i%3)
			s.take(int32(i%partitions), &record.Record{Offset: int64(i), Timestamp: 1_700_000_000_000, Value: value})
		}
		s.finish()
		var found Findings
		s.judge(&found)
		return found
	}
	if found := look(2, nil); !found.has(Warning, "3 of 3 series have records in several partitions") {
		t.Errorf("%+v", found)
	}
	if found := look(3, nil); found.Count(Warning) > 0 {
		t.Errorf("each series has one partition: %+v", found)
	}
}

// TestBucketsAreCountedWhateverMemoryTheyTake checks that a bucket written early to free memory is counted once.
func TestBucketsAreCountedWhateverMemoryTheyTake(t *testing.T) {
	decoding, bucketing := eventOptions(t, nil)
	views := map[int64]Sample{}
	for _, heaviest := range []int64{1 << 10, 1 << 30} {
		s, err := newSampler("events", decoding, bucketing)
		if err != nil {
			t.Fatal(err)
		}
		s.heaviest = heaviest
		for i := range 5 * weighedEvery {
			value := fmt.Appendf(nil, `{"time":%d,"meta":"s%d","v":%d}`, 1_700_000_000+i/100, i%20, i)
			s.take(0, &record.Record{Offset: int64(i), Timestamp: 1_700_000_000_000, Value: value})
		}
		views[heaviest] = s.finish()
	}
	light, heavy := views[1<<10], views[1<<30]
	if heavy.Buckets != 20 || light.Buckets < 20 || light.Buckets > 6*20 || light.Measurements != heavy.Measurements || light.Series != heavy.Series {
		t.Errorf("%d buckets, %d with little memory", heavy.Buckets, light.Buckets)
	}
}
