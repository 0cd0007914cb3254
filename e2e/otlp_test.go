package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

func attribute(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

func ofShop(list ...*metrics.Metric) *metrics.MetricsData {
	return &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{
		Resource:     &resource.Resource{Attributes: []*common.KeyValue{attribute("service.name", "shop")}},
		ScopeMetrics: []*metrics.ScopeMetrics{{Scope: &common.InstrumentationScope{Name: "queues", Version: "1.2"}, Metrics: list}},
	}}}
}

func encoded(t *testing.T, request proto.Message) []byte {
	t.Helper()
	value, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestRequestsOfOpenTelemetryAreStored stores requests that OpenTelemetry's own types encode, with many data points. A point
// without a recorded value is skipped. The letter of a bad point is a request with only this point.
func TestRequestsOfOpenTelemetryAreStored(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(n int) uint64 { return uint64(begin.Add(time.Duration(n) * time.Second).UnixNano()) }
	point := func(n int) *metrics.NumberDataPoint {
		return &metrics.NumberDataPoint{
			TimeUnixNano: at(n), Attributes: []*common.KeyValue{attribute("queue", fmt.Sprintf("q%d", n%4))}, Value: &metrics.NumberDataPoint_AsInt{AsInt: int64(n)},
		}
	}
	length := func(points ...*metrics.NumberDataPoint) *metrics.Metric {
		return &metrics.Metric{Name: "queue.length", Unit: "{message}", Description: "waiting", Data: &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: points}}}
	}
	part := func(n int) events.Part {
		return events.Part{Reading: &events.Reading{
			Time: begin.Add(time.Duration(n) * time.Second).UnixMilli(),
			Meta: bson.D{
				{Key: "attributes", Value: bson.D{{Key: "queue", Value: fmt.Sprintf("q%d", n%4)}}},
				{Key: "kind", Value: "gauge"},
				{Key: "name", Value: "queue.length"},
				{Key: "resource", Value: bson.D{{Key: "service", Value: bson.D{{Key: "name", Value: "shop"}}}}},
				{Key: "scope", Value: bson.D{{Key: "name", Value: "queues"}, {Key: "version", Value: "1.2"}}},
				{Key: "unit", Value: "{message}"},
			},
			Fields: bson.D{{Key: "value", Value: int32(n)}},
		}}
	}
	var made []events.Event
	stored := 0
	for ; stored < 900; stored += 3 {
		made = append(made, events.Event{
			Key: []byte("k"), Value: encoded(t, ofShop(length(point(stored), point(stored+1)), length(point(stored+2)))),
			Fate: events.Fate{Array: true, Parts: []events.Part{part(stored), part(stored + 1), part(stored + 2)}},
		})
	}
	timeless := point(stored + 1)
	timeless.TimeUnixNano = 0
	bad := encoded(t, ofShop(length(timeless)))
	made = append(made,
		events.Event{Key: []byte("k"), Value: encoded(t, ofShop(length(point(stored), timeless, point(stored+2)))), Fate: events.Fate{
			Array: true, Parts: []events.Part{part(stored), {Reason: "missing_time", Value: bad}, part(stored + 2)},
		}},
		events.Event{Key: []byte("k"), Value: encoded(t, ofShop(length(&metrics.NumberDataPoint{TimeUnixNano: at(0), Flags: 1})))},
		events.Event{Key: []byte("k"), Value: []byte(`{"resourceMetrics":[]}`), Fate: events.Fate{Reason: "not_otlp"}})
	s.storesWith(made, stored+2, 2, "EVENT_FORMAT", "otlp")
	set := s.settings
	s.settings = set.With("EVENT_FORMAT", "json")
	if code, out := s.run("check", "--sample", "1000"); code != 3 || !strings.Contains(out, "EVENT_FORMAT=otlp ") && !strings.Contains(out, "EVENT_FORMAT=otlp\n") {
		t.Errorf("check ended with code %d, and does not propose the format:\n%s", code, out)
	}
	s.settings = set
	if records := s.redriven(len(made), 2); !slices.ContainsFunc(records[len(made):], func(r check.Record) bool { return string(r.Value) == string(bad) }) {
		t.Error(check.Verdict + "the letter of the point without a time did not go back as its request")
	}
}

// TestRequestsAreReadAsOpenTelemetryWritesThem encodes random requests with OpenTelemetry's types in protobuf and in JSON. Both
// must decode to the same measurements, with the values of the types.
func TestRequestsAreReadAsOpenTelemetryWritesThem(t *testing.T) {
	decoder := func(format measurement.Format) *measurement.Decoder {
		o, _ := measurement.DefaultPaths(format)
		o.Format, o.TimeMin, o.TimeMax = format, measurement.At(0), measurement.At(1<<42)
		d, err := measurement.New(o)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	inProtobuf, inJSON := decoder(measurement.OTLP), decoder(measurement.OTLPJSON)
	const seed, requests = 7, 3000
	chance := rand.New(rand.NewPCG(seed, seed))
	points := 0
	for n := range requests {
		request := randomRequest(chance)
		text, err := protojson.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		want, err := inProtobuf.Decode(record.Record{Value: encoded(t, request)})
		if err != nil {
			t.Fatalf("request %d of seed %d: %v: %s", n, seed, err, text)
		}
		got, err := inJSON.Decode(record.Record{Value: text})
		if err != nil || len(got) != len(want) {
			t.Fatalf("request %d of seed %d: %v, %d points and %d: %s", n, seed, err, len(got), len(want), text)
		}
		for i := range want {
			if shownResult(t, got[i]) != shownResult(t, want[i]) {
				t.Fatalf("request %d of seed %d:\n%s\nin protobuf, and\n%s\nas JSON: %s", n, seed, shownResult(t, want[i]), shownResult(t, got[i]), text)
			}
		}
		points += agrees(t, request, want)
	}
	if points < requests {
		t.Errorf("only %d points were compared", points)
	}
}

func shownResult(t *testing.T, r measurement.Result) string {
	t.Helper()
	if r.Err != nil {
		return r.Err.Error()
	}
	m := r.Measurement
	return fmt.Sprint(m.Position, m.Time, m.Meta, string(m.Elements))
}

// randomRequest returns a request with metrics of each kind.
func randomRequest(chance *rand.Rand) *metrics.MetricsData {
	value := func() *common.AnyValue {
		switch chance.IntN(5) {
		case 0:
			return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: chance.Int64() - chance.Int64()}}
		case 1:
			return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: chance.NormFloat64()}}
		case 2:
			return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: chance.IntN(2) == 0}}
		case 3:
			return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{
				{Value: &common.AnyValue_StringValue{StringValue: "é"}}, {Value: &common.AnyValue_BytesValue{BytesValue: []byte{0, 255}}},
			}}}}
		}
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: fmt.Sprint(chance.IntN(10))}}
	}
	attributes := func() (list []*common.KeyValue) {
		for _, key := range []string{"host.name", "queue", "http.route", "a"}[:chance.IntN(5)] {
			list = append(list, &common.KeyValue{Key: key, Value: value()})
		}
		return list
	}
	at, start := uint64(1_700_000_000_000_000_000+chance.Int64N(1e18)), uint64(chance.IntN(2))*uint64(1_600_000_000_000_000_000)
	double := func() *float64 {
		if chance.IntN(2) == 0 {
			return nil
		}
		return proto.Float64(chance.NormFloat64())
	}
	metric := &metrics.Metric{Name: "m", Unit: []string{"", "s"}[chance.IntN(2)], Description: "d"}
	switch points := 1 + chance.IntN(3); chance.IntN(5) {
	case 0, 1:
		var list []*metrics.NumberDataPoint
		for range points {
			p := &metrics.NumberDataPoint{TimeUnixNano: at, StartTimeUnixNano: start, Attributes: attributes(), Value: &metrics.NumberDataPoint_AsDouble{AsDouble: chance.NormFloat64()}}
			if chance.IntN(2) == 0 {
				p.Value = &metrics.NumberDataPoint_AsInt{AsInt: chance.Int64() >> chance.IntN(64)}
			}
			list = append(list, p)
		}
		metric.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: list}}
		if chance.IntN(2) == 0 {
			metric.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{DataPoints: list, AggregationTemporality: metrics.AggregationTemporality(chance.IntN(3)), IsMonotonic: chance.IntN(2) == 0}}
		}
	case 2:
		metric.Data = &metrics.Metric_Histogram{Histogram: &metrics.Histogram{AggregationTemporality: 2, DataPoints: []*metrics.HistogramDataPoint{{
			TimeUnixNano: at, StartTimeUnixNano: start, Attributes: attributes(), Count: chance.Uint64(), Sum: double(), Min: double(), Max: double(),
			ExplicitBounds: []float64{0.5, chance.NormFloat64()}[:chance.IntN(3)], BucketCounts: []uint64{chance.Uint64N(9), chance.Uint64()}[:chance.IntN(3)],
			Exemplars: []*metrics.Exemplar{{Value: &metrics.Exemplar_AsInt{AsInt: 1}}},
		}}}}
	case 3:
		metric.Data = &metrics.Metric_ExponentialHistogram{ExponentialHistogram: &metrics.ExponentialHistogram{AggregationTemporality: 1, DataPoints: []*metrics.ExponentialHistogramDataPoint{{
			TimeUnixNano: at, StartTimeUnixNano: start, Attributes: attributes(), Count: chance.Uint64N(1 << 40), Sum: double(), Scale: int32(chance.IntN(40) - 20), ZeroCount: chance.Uint64N(9),
			ZeroThreshold: chance.Float64(), Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: int32(chance.IntN(400) - 200), BucketCounts: []uint64{1, chance.Uint64N(1 << 50)}},
		}}}}
	default:
		metric.Data = &metrics.Metric_Summary{Summary: &metrics.Summary{DataPoints: []*metrics.SummaryDataPoint{{
			TimeUnixNano: at, Attributes: attributes(), Count: chance.Uint64N(9), Sum: chance.NormFloat64(),
			QuantileValues: []*metrics.SummaryDataPoint_ValueAtQuantile{{Quantile: 0.5, Value: chance.NormFloat64()}, {}}[:chance.IntN(3)],
		}}}}
	}
	request := ofShop(metric)
	request.ResourceMetrics[0].Resource.Attributes = append(request.ResourceMetrics[0].Resource.Attributes, attributes()...)
	return request
}

// agrees compares the numbers of a request with the decoded ones, and returns the number of compared points.
func agrees(t *testing.T, request *metrics.MetricsData, results []measurement.Result) int {
	t.Helper()
	metric := request.ResourceMetrics[0].ScopeMetrics[0].Metrics[0]
	points := metric.GetGauge().GetDataPoints()
	if points == nil {
		points = metric.GetSum().GetDataPoints()
	}
	for i, p := range points {
		m := results[i].Measurement
		var stored struct {
			Value any
			Start *time.Time
		}
		if err := bson.Unmarshal(documentOf(m.Elements), &stored); err != nil || results[i].Err != nil {
			t.Fatal(err, results[i].Err)
		}
		want := fmt.Sprint(p.GetAsInt())
		if _, isDouble := p.Value.(*metrics.NumberDataPoint_AsDouble); isDouble {
			want = fmt.Sprint(p.GetAsDouble())
		}
		if got := fmt.Sprint(stored.Value); got != want || m.Time != int64(p.TimeUnixNano/1e6) || (stored.Start != nil) != (p.StartTimeUnixNano > 0) {
			t.Fatalf("point %d is %s at %d since %v, want %s: %v", i, got, m.Time, stored.Start, want, p)
		}
	}
	if h := metric.GetHistogram(); h != nil {
		var stored struct {
			Count, Sum, Min, Max any
			Bounds               []float64
			Counts               []any
		}
		p := h.DataPoints[0]
		if err := bson.Unmarshal(documentOf(results[0].Measurement.Elements), &stored); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(stored.Bounds, p.ExplicitBounds) || len(stored.Counts) != len(p.BucketCounts) || (stored.Sum != nil) != (p.Sum != nil) || p.Min != nil && stored.Min != *p.Min {
			t.Fatalf("%+v, want %v", stored, p)
		}
		return 1
	}
	return max(1, len(points))
}

// documentOf returns a document of these elements.
func documentOf(elements []byte) bson.Raw {
	n := len(elements) + 5
	raw := append([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}, elements...)
	return append(raw, 0)
}
