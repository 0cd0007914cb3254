package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/reader"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// source answers with fixed measurements, and records the queries.
type source struct {
	options timeseries.Options
	all     []reader.Measurement
	err     error         // returned after the measurements
	wait    chan struct{} // each query waits for it. Nil means that none waits.
	waiting chan struct{} // a query sends to it when it begins to wait

	mu     sync.Mutex
	asked  reader.Query
	latest bool
	totals reader.TotalsQuery
}

func (s *source) Options() timeseries.Options { return s.options }

func (s *source) Find(ctx context.Context, q reader.Query) iter.Seq2[reader.Measurement, error] {
	s.mu.Lock()
	s.asked = q
	s.mu.Unlock()
	return func(yield func(reader.Measurement, error) bool) {
		if s.wait != nil {
			s.waiting <- struct{}{}
			select {
			case <-s.wait:
			case <-ctx.Done():
				yield(reader.Measurement{}, ctx.Err())
				return
			}
		}
		for i, m := range s.all {
			if int64(i) == q.Limit || !yield(m, nil) {
				return
			}
		}
		if s.err != nil && yield(reader.Measurement{}, s.err) {
			yield(reader.Measurement{Time: noon, Fields: document(bson.D{{Key: "last", Value: true}})}, nil)
		}
	}
}

func (s *source) Latest(ctx context.Context, q reader.Query) iter.Seq2[reader.Measurement, error] {
	s.latest = true
	return s.Find(ctx, q)
}

func (s *source) Series(ctx context.Context, q reader.Query) iter.Seq2[bson.RawValue, error] {
	return func(yield func(bson.RawValue, error) bool) {
		for m, err := range s.Find(ctx, q) {
			if !yield(m.Meta, err) {
				return
			}
		}
	}
}

// Totals returns the measurements as windows.
func (s *source) Totals(ctx context.Context, q reader.TotalsQuery) iter.Seq2[reader.Window, error] {
	s.totals = q
	return func(yield func(reader.Window, error) bool) {
		for m, err := range s.Find(ctx, q.Query) {
			if !yield(reader.Window{Time: m.Time.In(q.Zone), Meta: m.Meta, Fields: m.Fields}, err) {
				return
			}
		}
	}
}

func document(d bson.D) bson.Raw {
	raw, err := bson.Marshal(d)
	if err != nil {
		panic(err)
	}
	return raw
}

func measured(second int, meta any, fields bson.D) reader.Measurement {
	m := reader.Measurement{Time: noon.Add(time.Duration(second) * time.Second), Fields: document(fields)}
	if meta != nil {
		m.Meta = document(bson.D{{Key: "m", Value: meta}}).Lookup("m")
	}
	return m
}

// errUsage is the error of requests that Filter or Times refuse.
var errUsage = errors.New("this cannot be asked")

// serving starts a server for a source, with options that a test may change, and returns its address.
func serving(t *testing.T, s *source, change func(*Options)) string {
	t.Helper()
	o := Options{
		Names: func(context.Context) ([]string, error) { return []string{"a", "b"}, nil },
		Open: func(_ context.Context, name string) (Source, error) {
			if name != "a" {
				return nil, fmt.Errorf("opening %s: %w", name, reader.ErrNotSetUp)
			}
			return s, nil
		},
		Filter: func(_ timeseries.Options, conditions []string, filter string) (bson.D, error) {
			if slices.Contains(conditions, "wrong") {
				return nil, errUsage
			}
			return bson.D{{Key: "conditions", Value: strings.Join(conditions, " ")}, {Key: "filter", Value: filter}}, nil
		},
		Times: func(from, to, last string, _ time.Time, zone *time.Location) (time.Time, time.Time, error) {
			if last == "wrong" {
				return time.Time{}, time.Time{}, errUsage
			}
			begin, err := time.Parse(time.RFC3339, from)
			if err != nil {
				begin, _ = time.ParseInLocation(time.DateOnly, from, zone)
			}
			end, _ := time.Parse(time.RFC3339, to)
			return begin, end, nil
		},
		Usage:   func(err error) bool { return errors.Is(err, errUsage) },
		Explain: func(err error) error { return err },
		Ping:    func(context.Context) error { return nil },
		MaxRows: 1000, MaxTime: 10 * time.Second, MaxQueries: 2, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	server := httptest.NewServer(Handler(o))
	t.Cleanup(server.Close)
	return server.URL
}

func newSource(all ...reader.Measurement) *source {
	return &source{options: timeseries.Options{TimeField: "time", MetaField: "meta"}, all: all}
}

// head is an answer without its body.
type head struct {
	StatusCode      int
	Header, Trailer http.Header
}

// get sends a request, and reads the answer to its end.
func get(t *testing.T, address string, header ...string) (head, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return head{}, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return head{answer.StatusCode, answer.Header, answer.Trailer}, string(body), err
}

// TestRowsAreFlat checks that the parts of meta and nested fields are named by their paths. Values of every kind are plain JSON.
func TestRowsAreFlat(t *testing.T) {
	uuid := bson.Binary{Subtype: 4, Data: []byte("0123456789abcdef")}
	decimal, _ := bson.ParseDecimal128("12.50")
	infinite, _ := bson.ParseDecimal128("Infinity")
	s := newSource(
		measured(0, bson.D{{Key: "sensor", Value: "s\n1"}, {Key: "at", Value: bson.D{{Key: "site", Value: 7}}}}, bson.D{
			{Key: "celsius", Value: 21.5},
			{Key: "wind", Value: bson.D{{Key: "speed", Value: int64(1) << 60}, {Key: "none", Value: bson.D{}}}},
			{Key: "nan", Value: math.NaN()},
			{Key: "ok", Value: true},
			{Key: "nothing", Value: nil},
			{Key: "exact", Value: decimal},
			{Key: "endless", Value: infinite},
			{Key: "list", Value: bson.A{1, "two", bson.D{{Key: "three", Value: 3}}}},
			{Key: "at", Value: bson.NewDateTimeFromTime(noon)},
			{Key: "id", Value: uuid},
		}),
		measured(1, "s-2", bson.D{}),
		measured(2, nil, bson.D{{Key: "meta.x", Value: "<&>"}}),
	)
	answer, body, err := get(t, serving(t, s, nil)+"/v1/measurements?series=a")
	want := `[{"time":"2026-11-25T12:00:00.000Z","meta.sensor":"s\n1","meta.at.site":7,"celsius":21.5,"wind.speed":1152921504606846976,"wind.none":{},` +
		`"nan":null,"ok":true,"nothing":null,"exact":12.50,"endless":null,"list":[1,"two",{"three":3}],"at":"2026-11-25T12:00:00.000Z","id":"30313233-3435-3637-3839-616263646566"},` + "\n" +
		`{"time":"2026-11-25T12:00:01.000Z","meta":"s-2"},` + "\n" + `{"time":"2026-11-25T12:00:02.000Z","meta.x":"\u003c\u0026\u003e"}]` + "\n"
	if err != nil || answer.StatusCode != 200 || body != want {
		t.Errorf("%v, %v:\n%s\nwant\n%s", answer, err, body, want)
	}
	if !json.Valid([]byte(body)) {
		t.Error("this is not JSON")
	}
	if _, body, _ := get(t, serving(t, s, nil)+"/v1/series?series=a"); !strings.HasPrefix(body, `[{"meta.sensor":"s\n1","meta.at.site":7},`+"\n"+`{"meta":"s-2"},`+"\n{}]") {
		t.Errorf("series:\n%s", body)
	}
	if _, body, _ := get(t, serving(t, s, nil)+"/v1/collections"); body != "[\"a\",\n\"b\"]\n" {
		t.Errorf("collections:\n%s", body)
	}
	if answer, body, _ := get(t, serving(t, newSource(), nil)+"/v1/measurements?series=a"); body != "[]\n" || answer.Header.Get("Content-Type") != "application/json" {
		t.Errorf("nothing: %q", body)
	}
}

// TestRequestsBecomeQueries checks that each parameter gets into the query, also Grafana's milliseconds and empty variables.
func TestRequestsBecomeQueries(t *testing.T) {
	s := newSource(measured(0, "s-1", bson.D{{Key: "celsius", Value: 1}, {Key: "wind", Value: bson.D{{Key: "speed", Value: 3}}}, {Key: "humidity", Value: 40}}))
	from := serving(t, s, nil) + "/v1/measurements?"
	_, body, err := get(t, from+url.Values{
		"series": {"a"}, "match": {"site=north", "", "sensor!=s-17"}, "filter": {"{}"}, "from": {"1764072000000"}, "to": {"2025-11-26T00:00:00Z"},
		"fields": {"wind.speed,time", "celsius"}, "limit": {"7"}, "latest": {"true"}, "newest": {"1"}, "format": {"csv"},
	}.Encode())
	if err != nil || body != "time,meta,wind.speed,celsius\n2026-11-25T12:00:00.000Z,s-1,3,1\n" {
		t.Errorf("%v:\n%s", err, body)
	}
	q := s.asked
	if fmt.Sprint(q.Meta) != `{"conditions":"site=north sensor!=s-17","filter":"{}"}` || !s.latest || !q.Newest || q.Limit != 8 || fmt.Sprint(q.Fields) != "[wind.speed celsius]" ||
		!q.From.Equal(time.UnixMilli(1764072000000)) || q.To.Format(time.RFC3339) != "2025-11-26T00:00:00Z" {
		t.Errorf("the query is %+v", q)
	}
}

// TestOnlyTimeAndMeta checks a request that names no other fields, and times before 2001, which have fewer digits.
func TestOnlyTimeAndMeta(t *testing.T) {
	s := newSource(measured(0, "s-1", bson.D{{Key: "celsius", Value: 1}}))
	from := serving(t, s, nil) + "/v1/measurements?series=a&from=999999999999&fields="
	for fields, want := range map[string]string{"time": "[]", "meta,": "[]", "": "nil", "celsius": "[celsius]"} {
		if _, body, err := get(t, from+fields); err != nil || strings.Contains(body, "error") {
			t.Errorf("%q: %v, %s", fields, err, body)
		}
		got := fmt.Sprint(s.asked.Fields)
		if s.asked.Fields == nil {
			got = "nil"
		}
		if got != want || !s.asked.From.Equal(time.UnixMilli(999999999999)) {
			t.Errorf("%q: the fields are %s, from %s", fields, got, s.asked.From)
		}
	}
}

// TestTotals checks that the parameters get into the query, and that a window is a flat row like any other.
func TestTotals(t *testing.T) {
	s := newSource(
		measured(0, bson.D{{Key: "sensor", Value: "s-1"}}, bson.D{{Key: "count", Value: int64(2)}, {Key: "celsius", Value: bson.D{{Key: "mean", Value: 21.25}, {Key: "max", Value: int32(24)}}}}),
		measured(3600, bson.D{{Key: "sensor", Value: "s-1"}}, bson.D{{Key: "count", Value: int64(1)}, {Key: "wind", Value: bson.D{{Key: "speed", Value: bson.D{{Key: "max", Value: 3}}}}}}),
	)
	from := serving(t, s, nil) + "/v1/totals?"
	values := url.Values{
		"series": {"a"}, "match": {"site=north"}, "from": {"2025-11-25"}, "to": {"2025-11-26T00:00:00Z"}, "fields": {"celsius,wind"},
		"limit": {"1"}, "every": {"1h"}, "agg": {"count,mean,max"}, "zone": {"Europe/Berlin"}, "exact": {"true"},
	}
	answer, body, err := get(t, from+values.Encode())
	want := `[{"time":"2026-11-25T13:00:00.000+01:00","meta.sensor":"s-1","count":2,"celsius.mean":21.25,"celsius.max":24}]` + "\n"
	if err != nil || body != want || answer.Trailer.Get(trailerMore) != "true" {
		t.Errorf("%v, %v:\n%s", answer, err, body)
	}
	q := s.totals
	if fmt.Sprint(q.Meta) != `{"conditions":"site=north","filter":""}` || q.Limit != 2 || fmt.Sprint(q.Fields, q.Every, q.Aggregations, q.Zone, q.Exact) != "[celsius wind] 1h [count mean max] Europe/Berlin true" ||
		q.From.Format(time.RFC3339) != "2025-11-25T00:00:00+01:00" || q.To.Format(time.RFC3339) != "2025-11-26T00:00:00Z" {
		t.Errorf("the query is %+v", q)
	}
	const table = "time,sensor,count,celsius.mean,celsius.max,wind.speed.max\n2026-11-25T12:00:00.000Z,s-1,2,21.25,24,\n2026-11-25T13:00:00.000Z,s-1,1,,,3\n"
	if _, body, err := get(t, from+"series=a&every=15m&format=csv"); err != nil || body != table {
		t.Errorf("%v:\n%s", err, body)
	}
	if q := s.totals; fmt.Sprint(q.Fields == nil, q.Every, q.Aggregations, q.Zone, q.Exact, q.Limit) != "true 15m [mean] UTC false 1001" {
		t.Errorf("the query is %+v", q)
	}
}

// TestWhatIsWrongIsSaid checks that each error has a status and a sentence that says what to do.
func TestWhatIsWrongIsSaid(t *testing.T) {
	s := newSource(measured(0, "s-1", bson.D{}))
	from := serving(t, s, nil)
	for path, want := range map[string]string{
		"/v1/measurements":                              "400 the parameter \\\"series\\\" is missing",
		"/v1/measurements?series=b":                     "404 no such time series",
		"/v1/measurements?series=a&lst=1h":              "400 did you mean last?",
		"/v1/measurements?series=a&match=wrong":         "400 this cannot be asked",
		"/v1/measurements?series=a&last=wrong":          "400 this cannot be asked",
		"/v1/measurements?series=a&limit=1001":          "400 from 1 to 1000 (SERVE_MAX_ROWS)",
		"/v1/measurements?series=a&limit=-1":            "400 from 1 to 1000",
		"/v1/measurements?series=a&format=xml":          "400 json or csv",
		"/v1/measurements?series=a&latest=perhaps":      "400 true or false",
		"/v1/series?series=a&format=csv":                "400 format=csv is for measurements and totals",
		"/v1/series?series=a&fields=celsius":            "400 there is no parameter",
		"/v1/totals?series=a":                           "400 the parameter every is missing",
		"/v1/totals?series=a&every=7m":                  "400 every is \\\"7m\\\": windows shorter",
		"/v1/totals?series=a&every=1h&agg=meen":         "400 did you mean mean?",
		"/v1/totals?series=a&every=1h&zone=Berlin":      "400 there is no such time zone",
		"/v1/totals?series=a&every=1h&exact=perhaps":    "400 true or false",
		"/v1/totals?series=a&every=1h&latest=true":      "400 there is no parameter",
		"/v1/totals?series=b&every=1h":                  "404 no such time series",
		"/v1/measurements?series=a&every=1h":            "400 there is no parameter",
		"/v2/measurements?series=a":                     "404 ",
		"/v1/series?series=a&match=sensor=s1;x":         "400 the query of the URL is malformed",
		"/v1/series?series=a&match=sensor=s1%":          "400 write %25 for %",
		"/v1/series?series=a&series=b":                  "400 the parameter series is given 2 times",
		"/v1/series?series=a&match=a=1&match=b=2":       "200 ",
		"/v1/measurements?series=a&limit=1&fields=,,,a": "200 ",
	} {
		answer, body, err := get(t, from+path)
		if err != nil {
			t.Fatal(err)
		}
		status, part, _ := strings.Cut(want, " ")
		if fmt.Sprint(answer.StatusCode) != status || !strings.Contains(body, part) {
			t.Errorf("GET %s: %d, want %s: %s", path, answer.StatusCode, want, body)
		}
	}
	for _, c := range []struct {
		err    error
		status int
	}{
		{&reader.QueryError{Err: errors.New("wrong")}, http.StatusBadRequest},
		{errors.New("the server is away"), http.StatusBadGateway},
	} {
		answer, body, err := get(t, serving(t, &source{options: s.options, err: c.err}, nil)+"/v1/measurements?series=a")
		if err != nil || answer.StatusCode != c.status || !strings.Contains(body, c.err.Error()) || answer.Header.Get("Trailer") != "" {
			t.Errorf("%v: %v, %v, %s", c.err, answer, err, body)
		}
	}
}

// TestAPartIsNotTakenForTheWhole checks that an answer says if its limit cut it off. A failure in the middle breaks the answer
// off.
func TestAPartIsNotTakenForTheWhole(t *testing.T) {
	var all []reader.Measurement
	for i := range 3000 {
		all = append(all, measured(i, "s-1", bson.D{{Key: "text", Value: strings.Repeat("x", 100)}, {Key: "last", Value: nil}}))
	}
	s := newSource(all...)
	for _, format := range []string{"json", "csv"} {
		from := serving(t, s, func(o *Options) { o.MaxRows = 4000 }) + "/v1/measurements?series=a&format=" + format
		for limit, more := range map[string]string{"": "", "&limit=3000": "", "&limit=2999": "true", "&limit=1": "true"} {
			answer, _, err := get(t, from+limit)
			if err != nil || answer.Trailer.Get(trailerMore) != more {
				t.Errorf("%s%s: the trailer is %q, want %q; %v", format, limit, answer.Trailer.Get(trailerMore), more, err)
			}
		}
		s.err = errors.New("the server is away")
		if _, body, err := get(t, from); err == nil {
			t.Errorf("%s: an answer of %d bytes was broken off, and looks whole", format, len(body))
		}
		s.err = &reader.BucketError{Namespace: "a.buckets", Err: errors.New("damaged")}
		answer, body, err := get(t, from)
		if err != nil || !strings.Contains(body, "true") || answer.Trailer.Get(trailerUnreadable) != "1" {
			t.Errorf("%s: after a damaged bucket: %v, %v", format, answer, err)
		}
		s.err = nil
	}
}

// TestQueriesAreBounded checks the time limit of a query and the number of concurrent queries.
func TestQueriesAreBounded(t *testing.T) {
	s := newSource(measured(0, "s-1", bson.D{}))
	s.wait, s.waiting = make(chan struct{}), make(chan struct{}, 3)
	slow := serving(t, s, func(o *Options) { o.MaxTime = 10 * time.Millisecond })
	if answer, body, err := get(t, slow+"/v1/measurements?series=a"); err != nil || answer.StatusCode != http.StatusGatewayTimeout || !strings.Contains(body, "SERVE_MAX_TIME (10ms)") {
		t.Errorf("%v, %v, %s", answer, err, body)
	}
	dead := serving(t, s, func(o *Options) {
		o.MaxTime = 10 * time.Millisecond
		o.Ping = func(context.Context) error { return errors.New("no primary") }
	})
	if answer, body, err := get(t, dead+"/v1/measurements?series=a"); err != nil || answer.StatusCode != http.StatusBadGateway || !strings.Contains(body, "no primary") {
		t.Errorf("%v, %v, %s", answer, err, body)
	}
	for len(s.waiting) > 0 {
		<-s.waiting
	}
	busy := serving(t, s, nil)
	done := make(chan int, 2)
	for range 2 {
		go func() {
			answer, err := http.Get(busy + "/v1/measurements?series=a")
			if err != nil {
				done <- 0
				return
			}
			answer.Body.Close()
			done <- answer.StatusCode
		}()
	}
	for range 2 {
		select {
		case <-s.waiting:
		case status := <-done:
			t.Fatalf("a query within the bound was answered with %d", status)
		case <-time.After(time.Minute):
			t.Fatal("the queries do not read")
		}
	}
	answer, _, err := get(t, busy+"/v1/collections")
	if err != nil || answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" {
		t.Errorf("a third query: %v, %v; it should be refused, and told when to ask again", answer, err)
	}
	if answer, _, err := get(t, busy+"/healthz"); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("health beside the queries: %v, %v", answer, err)
	}
	close(s.wait)
	for range 2 {
		if status := <-done; status != http.StatusOK {
			t.Errorf("a query that was let in: %d", status)
		}
	}
}

// TestATokenIsNeeded checks that measurements need the token. The page and the health check do not.
func TestATokenIsNeeded(t *testing.T) {
	from := serving(t, newSource(), func(o *Options) { o.Token = "geheim" })
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/v1/collections", "Bearer geheim", 200},
		{"/v1/collections", "bearer geheim", 200},
		{"/v1/collections", "", 401},
		{"/v1/collections", "Bearer geheim2", 401},
		{"/v1/collections", "geheim", 401},
		{"/v1/measurements?series=a", "", 401},
		{"/v1/series?series=a", "", 401},
		{"/healthz", "", 200},
		{"/", "", 200},
		{"/index.js", "", 200},
		{"/index.css", "", 200},
	} {
		answer, body, err := get(t, from+c.path, "Authorization", c.token)
		if err != nil || answer.StatusCode != c.want || strings.Contains(body, "geheim") {
			t.Errorf("GET %s with %q: %v, %v, %s", c.path, c.token, answer, err, body)
		}
	}
}
