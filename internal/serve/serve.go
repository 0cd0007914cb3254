// Package serve answers queries for stored measurements over HTTP, for Grafana, scripts and browsers.
//
// It reads with the package reader, and never writes. Give it a MongoDB user with read access only.
package serve

import (
	"context"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/rows"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/web"
	"waterwheel/internal/words"
	"waterwheel/reader"
)

// Source reads measurements. *reader.Series implements it.
type Source interface {
	Options() timeseries.Options
	Find(ctx context.Context, q reader.Query) iter.Seq2[reader.Measurement, error]
	Latest(ctx context.Context, q reader.Query) iter.Seq2[reader.Measurement, error]
	Series(ctx context.Context, q reader.Query) iter.Seq2[bson.RawValue, error]
	Totals(ctx context.Context, q reader.TotalsQuery) iter.Seq2[reader.Window, error]
}

// Options are the sources of a Handler, and its limits.
type Options struct {
	// Names lists the time series, and Open opens one of them. The error is reader.ErrNotSetUp if there is no time series of the
	// name.
	Names func(ctx context.Context) ([]string, error)
	Open  func(ctx context.Context, name string) (Source, error)
	// Filter makes a filter on the meta from the conditions of a request, such as sensor=s-17, and a filter in Extended JSON.
	Filter func(o timeseries.Options, conditions []string, filter string) (bson.D, error)
	// Times parses the bounds of a request, in the notation of the flags of query. Times without a zone are in the given zone.
	Times func(from, to, last string, now time.Time, zone *time.Location) (begin, end time.Time, err error)
	// Explain adds to an error of the reader its cause and the way out.
	Explain func(error) error
	// Ping asks MongoDB for an answer, after a query that took too long.
	Ping func(ctx context.Context) error
	// Usage reports whether an error of Filter or Times is a mistake in the request.
	Usage func(error) bool

	// MaxRows is the maximum number of rows of an answer, MaxTime its maximum duration, and MaxQueries the maximum number of
	// concurrent queries.
	MaxRows    int64
	MaxTime    time.Duration
	MaxQueries int
	Token      string // the token that requests must have. Empty means none.
	Log        *slog.Logger
}

type handler struct{ Options }

//go:embed index.html
var indexHTML string

//go:embed index.css
var indexCSS string

//go:embed index.js
var indexScript string

// Handler answers these requests:
//
//	GET /v1/collections    the names of the time series
//	GET /v1/series         the metas that are selected
//	GET /v1/measurements   the measurements that are selected; latest=true: the newest of each series
//	GET /v1/totals         totals of the measurements by windows of time
//	GET /                  a page that plots them
//	GET /healthz           without a token
func Handler(o Options) http.Handler {
	h := &handler{o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	for path, file := range map[string]struct{ kind, text string }{
		"/{$}": {"text/html", indexHTML}, "/index.css": {"text/css", indexCSS}, "/index.js": {"text/javascript", indexScript},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.kind+"; charset=utf-8")
			_, _ = io.WriteString(w, file.text)
		})
	}
	queries := http.NewServeMux()
	queries.HandleFunc("GET /v1/collections", h.bounded(h.collections))
	queries.HandleFunc("GET /v1/series", h.bounded(h.series))
	queries.HandleFunc("GET /v1/measurements", h.bounded(h.measurements))
	queries.HandleFunc("GET /v1/totals", h.bounded(h.totals))
	mux.Handle("GET /v1/", h.allowed(web.Limited(queries, o.MaxQueries, QueueTime, tooMany)))
	return web.Guarded(mux)
}

// allowed passes on only requests that have the token.
func (h *handler) allowed(next http.Handler) http.Handler {
	if h.Token == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare([]byte(given), []byte(h.Token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			fail(w, http.StatusUnauthorized, errors.New("the request needs the header Authorization: Bearer TOKEN, with the token of SERVE_TOKEN"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// QueueTime is how long a query waits for others at most, so that a dashboard with more panels than SERVE_MAX_QUERIES is answered.
const QueueTime = 3 * time.Second

func tooMany(w http.ResponseWriter, _ *http.Request) {
	fail(w, http.StatusTooManyRequests, errors.New("too many queries at the same time (SERVE_MAX_QUERIES): try again in a moment"))
}

// bounded limits the time of an answer, and handles its errors.
func (h *handler) bounded(do func(*answer, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), h.MaxTime)
		defer cancel()
		began := time.Now()
		a := newAnswer(w)
		err := do(a, r.WithContext(ctx))
		if err == nil {
			err = a.end()
		}
		h.Log.Debug("answered", "path", r.URL.Path, "query", r.URL.RawQuery, "rows", a.rows, "took", time.Since(began), "err", err)
		if err == nil || r.Context().Err() != nil { // the client may be gone
			return
		}
		if a.sent { // the client must not take a part for the whole
			h.Log.Warn("answer interrupted", "path", r.URL.Path, "query", r.URL.RawQuery, "rows", a.rows, "err", err)
			panic(http.ErrAbortHandler)
		}
		h.fail(w, ctx, err)
	}
}

// requestError means that the request is wrong.
type requestError struct{ error }

// fail answers with an error and the matching status.
func (h *handler) fail(w http.ResponseWriter, ctx context.Context, err error) {
	err = h.Explain(err)
	var bad requestError
	var query *reader.QueryError
	switch {
	case errors.As(err, &bad), errors.As(err, &query), h.Usage(err):
		fail(w, http.StatusBadRequest, err)
	case errors.Is(err, reader.ErrNotSetUp):
		fail(w, http.StatusNotFound, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		h.failSlow(w, context.WithoutCancel(ctx))
	default:
		h.Log.Warn("query failed", "err", err)
		fail(w, http.StatusBadGateway, err)
	}
}

// pingTime is how long MongoDB may take to answer a ping after a slow query.
const pingTime = time.Second

// failSlow answers a query that took too long. Advice about queries helps only if MongoDB answers at all.
func (h *handler) failSlow(w http.ResponseWriter, ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if err := h.Ping(ctx); err != nil {
		h.Log.Warn("MongoDB does not answer", "err", err)
		fail(w, http.StatusBadGateway, fmt.Errorf("MongoDB did not answer within SERVE_MAX_TIME (%s), nor a ping after that: %w", h.MaxTime, h.Explain(err)))
		return
	}
	fail(w, http.StatusGatewayTimeout, fmt.Errorf("the query takes longer than SERVE_MAX_TIME (%s): "+
		"query a shorter time or a single series, or create an index on the queried parts of meta (META_INDEXES)", h.MaxTime))
}

// fail answers with a status and an error text.
func fail(w http.ResponseWriter, status int, err error) {
	w.Header().Del("Trailer")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

// These are the parameters of requests.
var (
	seriesParameters      = []string{"series", "match", "filter", "from", "to", "last", "limit", "format"}
	measurementParameters = append(slices.Clone(seriesParameters), "fields", "latest", "newest")
	totalsParameters      = append(slices.Clone(seriesParameters), "fields", "every", "agg", "zone", "exact")
)

// maxFields is the maximum number of fields that a request may name. A MongoDB server takes longer than linear for a projection.
const maxFields = 1000

// request is a query with its time series, and the format of its rows.
type request struct {
	reader.Query
	values url.Values
	from   Source
	rows   rows.Options
	limit  int64 // rows of the answer; Query asks for one more, to find out whether there are more
	latest bool
	csv    bool
}

// parse parses the parameters of a request.
func (h *handler) parse(asked *http.Request, known []string) (*request, error) {
	ctx := asked.Context()
	values, err := url.ParseQuery(asked.URL.RawQuery) // a lost condition would widen the answer
	if err != nil {
		return nil, requestError{fmt.Errorf("the query of the URL is malformed: %w: write %%25 for %%, %%3B for ; and %%2B for +", err)}
	}
	for name, given := range values {
		if !slices.Contains(known, name) {
			return nil, requestError{fmt.Errorf("there is no parameter %q; the parameters are %s%s", name, strings.Join(known, ", "), words.DidYouMean(name, known))}
		}
		if len(given) > 1 && name != "match" && name != "fields" {
			return nil, requestError{fmt.Errorf("the parameter %s is given %d times: give it once", name, len(given))}
		}
	}
	name := values.Get("series")
	if name == "" {
		return nil, requestError{fmt.Errorf("the parameter \"series\" is missing: add series=NAME; /v1/collections lists the names of the collections")}
	}
	from, err := h.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	o := from.Options()
	r := &request{values: values, from: from, rows: rows.Options{TimeField: o.TimeField, MetaField: o.MetaField}}
	if r.Meta, err = h.Filter(o, nonempty(values["match"]), values.Get("filter")); err != nil {
		return nil, err
	}
	zone, err := words.ParseZone(values.Get("zone"))
	if err != nil {
		return nil, requestError{fmt.Errorf("zone %w", err)}
	}
	r.rows.Location = zone
	if r.From, r.To, err = h.Times(written(values.Get("from")), written(values.Get("to")), values.Get("last"), time.Now(), zone); err != nil {
		return nil, err
	}
	for _, list := range values["fields"] {
		for field := range strings.SplitSeq(list, ",") {
			if field == "" {
				continue
			}
			if r.Fields == nil {
				r.Fields = []string{} // If only time and meta are named, the answer has no other fields.
			}
			if field == o.TimeField || o.OfMeta(field) || slices.Contains(r.Fields, field) {
				continue
			}
			if r.Fields = append(r.Fields, field); len(r.Fields) > maxFields {
				return nil, requestError{fmt.Errorf("fields names more than %d fields: leave it out for all fields", maxFields)}
			}
		}
	}
	r.rows.Fields = r.Fields
	if r.limit, err = h.limit(values.Get("limit")); err != nil {
		return nil, err
	}
	r.Limit = r.limit + 1
	for flag, to := range map[string]*bool{"latest": &r.latest, "newest": &r.Newest} {
		if text := values.Get(flag); text != "" {
			if *to, err = strconv.ParseBool(text); err != nil {
				return nil, requestError{fmt.Errorf("%s is %q: it must be true or false", flag, text)}
			}
		}
	}
	switch format := values.Get("format"); format {
	case "", "json":
	case "csv":
		r.csv = true
	default:
		return nil, requestError{fmt.Errorf("format is %q: it must be json or csv", format)}
	}
	return r, nil
}

// readTotals parses the parameters of totals.
func readTotals(values url.Values) (t reader.TotalsQuery, err error) {
	every := values.Get("every")
	if every == "" {
		return t, requestError{fmt.Errorf("the parameter every is missing: add the length of the windows, such as every=15m or every=1d")}
	}
	if t.Every, err = reader.ParseStep(every); err != nil {
		return t, requestError{fmt.Errorf("every %w", err)}
	}
	t.Aggregations = []reader.Aggregation{reader.Mean}
	if agg := values.Get("agg"); agg != "" {
		if t.Aggregations, err = rollup.ParseAggregations(agg); err != nil {
			return t, requestError{fmt.Errorf("agg %w", err)}
		}
	}
	if exact := values.Get("exact"); exact != "" {
		if t.Exact, err = strconv.ParseBool(exact); err != nil {
			return t, requestError{fmt.Errorf("exact is %q: it must be true or false", exact)}
		}
	}
	return t, nil
}

// limit returns the maximum number of rows of the answer.
func (h *handler) limit(text string) (int64, error) {
	if text == "" {
		return h.MaxRows, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > h.MaxRows {
		return 0, requestError{fmt.Errorf("limit is %q: it must be a number from 1 to %d (SERVE_MAX_ROWS)", text, h.MaxRows)}
	}
	return n, nil
}

// nonempty removes empty conditions, because a variable of a dashboard may have no value.
func nonempty(conditions []string) []string {
	return slices.DeleteFunc(slices.Clone(conditions), func(c string) bool { return strings.TrimSpace(c) == "" })
}

// lostPlus is a time whose offset lost its plus sign, because + means a space in the query of a URL.
var lostPlus = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\S*) (\d\d:?\d\d)$`)

// written returns a time as query takes it. It converts milliseconds since 1970, such as Grafana's ${__from}, to a text. Shorter
// numbers are most likely seconds, so they stay, and are refused.
func written(text string) string {
	const shortest = 11
	text = lostPlus.ReplaceAllString(text, "$1+$2")
	n, err := strconv.ParseInt(text, 10, 64)
	if len(text) < shortest || err != nil {
		return text
	}
	return time.UnixMilli(n).UTC().Format("2006-01-02T15:04:05.000Z")
}
