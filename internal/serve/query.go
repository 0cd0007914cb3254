package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"waterwheel/internal/cli/rows"
	"waterwheel/internal/rollup"
	"waterwheel/internal/words"
	"waterwheel/reader"
)

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
			if field == "" || field == o.TimeField || o.OfMeta(field) || slices.Contains(r.Fields, field) {
				continue
			}
			if r.Fields = append(r.Fields, field); len(r.Fields) > maxFields {
				return nil, requestError{fmt.Errorf("fields names more than %d fields: leave it out for all fields", maxFields)}
			}
		}
	}
	r.rows.Fields = r.Fields
	if r.Limit, err = h.limit(values.Get("limit")); err != nil {
		return nil, err
	}
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

// written returns a time as query takes it. It converts milliseconds since 1970, such as Grafana's ${__from}, to a text.
func written(text string) string {
	const digits = 13
	text = lostPlus.ReplaceAllString(text, "$1+$2")
	n, err := strconv.ParseInt(text, 10, 64)
	if len(text) != digits || err != nil {
		return text
	}
	return time.UnixMilli(n).UTC().Format("2006-01-02T15:04:05.000Z")
}
