package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// maxExplained bounds the number of series whose reading Explain explains.
const maxExplained = 100

// ErrNoExplain means that the server does not tell what a query costs.
var ErrNoExplain = errors.New("this server does not support explain with executionStats")

// Plan tells what Find costs the server for a query.
type Plan struct {
	// Listing is the cost of listing the selected series. Nil means that the filter is one whole meta and needs no listing.
	Listing *Cost `json:"listing,omitempty"`
	// Series is the number of selected series. Explained is how many of them Reading covers: at most the first hundred.
	Series    int `json:"series"`
	Explained int `json:"explained"`
	// Reading is what reading the buckets of the series costs.
	Reading Cost `json:"reading"`
	// Segments is what reading the segments costs, for all series together. Nil means that there are none.
	Segments *Cost `json:"segments,omitempty"`
}

// Cost is what a server did for a command.
type Cost struct {
	// Buckets is how many buckets the server returned. For a listing it counts the buckets before they were grouped.
	Buckets           int64 `json:"buckets"`
	DocumentsExamined int64 `json:"documentsExamined"`
	KeysExamined      int64 `json:"keysExamined"`
	// Indexes are the names of the indexes used, sorted.
	Indexes []string `json:"indexes"`
	// Scans tells that the server read the whole collection. Sorts tells that it had to sort the result.
	Scans bool `json:"scans"`
	Sorts bool `json:"sorts"`
}

// Explain asks the server, with the explain command, what Find would cost it for a query. The server runs the queries for this,
// but sends no buckets. Explain reads the metas in segments. The error is ErrNoExplain if the server cannot tell.
func (s *Series) Explain(ctx context.Context, q Query) (Plan, error) {
	p, err := s.prepare(ctx, q)
	if err != nil {
		return Plan{}, err
	}
	var plan Plan
	if s.lists(&p) {
		plan.Listing = &Cost{}
		if err := plan.Listing.add(s.port.explainAggregate(ctx, s.listing(&p))); err != nil {
			return Plan{}, fmt.Errorf("running explain for the list of series of %s: %w", s.namespace, err)
		}
	}
	if p.segments {
		plan.Segments = &Cost{}
		if err := plan.Segments.add(s.port.explainFind(ctx, s.segmentRequest(&p))); err != nil {
			return Plan{}, fmt.Errorf("running explain for the segments of %s: %w", s.namespace, err)
		}
	}
	metas := p
	s.wantMetas(&metas)
	groups, err := s.groups(ctx, &metas, leaveOut)
	if err != nil {
		return Plan{}, err
	}
	plan.Series = len(groups)
	plan.Reading, plan.Explained, err = s.explainReading(ctx, &p, groups)
	return plan, err
}

// explainReading returns the cost of reading groups, and how many of them it explained.
func (s *Series) explainReading(ctx context.Context, p *plan, groups []group) (c Cost, explained int, err error) {
	explained = min(len(groups), maxExplained)
	places := swept(groups[:explained], 0, maxExplained)
	if len(places) < 2 || p.newest || !s.ordersMetas(ctx) {
		places = nil
	} else if err := c.add(s.port.explainFind(ctx, s.sweepRequest(p, groups, places))); err != nil {
		return c, 0, fmt.Errorf("running explain for the buckets of %s: %w", s.namespace, err)
	}
	for i, g := range groups[:explained] {
		if slices.Contains(places, i) {
			continue
		}
		if err := c.add(s.port.explainFind(ctx, s.scan(p, g).rest())); err != nil {
			return c, 0, fmt.Errorf("running explain for the buckets of %s: %w", s.namespace, err)
		}
	}
	return c, explained, nil
}

// ExplainFilter asks the server what a find with a filter on buckets costs. The filter has the form that
// timeseries.Options.BucketFilter returns, and that a view makes of a filter on measurements. It takes as long as reading the
// buckets. The error is ErrNoExplain if the server cannot tell.
func (s *Series) ExplainFilter(ctx context.Context, filter bson.Raw) (c Cost, err error) {
	var d bson.D
	if err := bson.Unmarshal(filter, &d); err != nil {
		return c, fmt.Errorf("the filter is not a document: %w", err)
	}
	if err := c.add(s.port.explainFind(ctx, request{filter: d})); err != nil {
		return c, fmt.Errorf("running explain for a filter on %s: %w", s.namespace, err)
	}
	return c, nil
}

// add adds the costs from an answer of explain.
func (c *Cost) add(answer bson.Raw, err error) error {
	if err != nil {
		return err
	}
	if !c.addStats(answer) {
		return ErrNoExplain
	}
	c.addPlans(answer, false)
	slices.Sort(c.Indexes)
	c.Indexes = slices.Compact(c.Indexes)
	return nil
}

// addStats adds the totals of every executionStats. These are at the top, in the first stage of a pipeline, or in either place
// for each shard. It returns false if there are none.
func (c *Cost) addStats(d bson.Raw) (found bool) {
	for name, v := range members(d) {
		if name == "executionStats" && v.Type == bson.TypeEmbeddedDocument {
			stats := bson.Raw(v.Value)
			number := func(name string) int64 {
				n, _ := stats.Lookup(name).AsInt64OK()
				return n
			}
			if _, err := stats.LookupErr("totalDocsExamined"); err == nil {
				c.Buckets += number("nReturned")
				c.DocumentsExamined += number("totalDocsExamined")
				c.KeysExamined += number("totalKeysExamined")
				found = true
			}
			continue
		}
		if rawbson.IsNested(v.Type) && c.addStats(v.Value) {
			found = true
		}
	}
	return found
}

// addPlans records the stages of every winning plan. inside tells that d is part of one.
func (c *Cost) addPlans(d bson.Raw, inside bool) {
	for name, v := range members(d) {
		text, _ := v.StringValueOK()
		switch {
		case rawbson.IsNested(v.Type) && name != "rejectedPlans" && name != "executionStats":
			c.addPlans(v.Value, inside || name == "winningPlan")
		case !inside:
		case name == "indexName":
			c.Indexes = append(c.Indexes, text)
		case name == "stage":
			c.Scans = c.Scans || text == "COLLSCAN"
			c.Sorts = c.Sorts || text == "SORT"
		}
	}
}

// members iterates over a document or array until its first malformed element.
func members(d bson.Raw) func(yield func(string, bson.RawValue) bool) {
	return func(yield func(string, bson.RawValue) bool) {
		if rawbson.DocumentSize(d) != len(d) {
			return
		}
		for list := rawbson.Content(d); len(list) > 0; {
			e, rest, ok := rawbson.Read(list)
			if !ok || !yield(string(e.Name), bson.RawValue{Type: e.Kind, Value: e.Value}) {
				return
			}
			list = rest
		}
	}
}
