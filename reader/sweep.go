package reader

import (
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

const (
	// sweptAtOnce is how many groups one request asks for at most.
	sweptAtOnce = 1000
	// sweptBytes bounds the metas in one request. A command may have 48 MB.
	sweptBytes = 4 << 20
)

// sweep reads the buckets of many groups by few requests: each asks for the next groups at once, in the order of the index, which
// is that of groups and then of times. It holds one document.
type sweep struct {
	series *Series
	plan   *plan
	groups []group

	answer documents // Nil means that the next groups are to be asked for.
	end    int       // The answer has the groups before this one.
	ended  bool      // The answer has no more documents.
	ahead  bool      // The answer's document is of a later group than was read last.
	// refused reports that the server does not order metas as groups are, or does not take such requests.
	refused bool
}

// sweeps reports whether a request for many metas can have the group's. Others mean something else there: null means absent metas
// too, a regular expression is a pattern, and arrays stand in the index by their elements.
func (g group) sweeps() bool {
	switch orNull(g.meta).Type {
	case bson.TypeNull, bson.TypeUndefined, bson.TypeArray, bson.TypeRegex:
		return false
	}
	return !isOperators(g.meta)
}

// swept are the places of those groups from a place on that one request can have, at most so many.
func swept(groups []group, from int, most int64) (places []int) {
	bytes := 0
	for i := from; i < len(groups) && int64(len(places)) < min(most, sweptAtOnce) && bytes < sweptBytes; i++ {
		if groups[i].sweeps() {
			places = append(places, i)
			bytes += len(groups[i].meta.Value)
		}
	}
	return places
}

// anyOf selects the buckets of metas.
func anyOf(metas bson.A) bson.E {
	return bson.E{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$in", Value: metas}}}
}

// sweepRequest asks for the buckets of groups in their order.
func (s *Series) sweepRequest(p *plan, groups []group, places []int) request {
	metas := make(bson.A, 0, len(places))
	for _, i := range places {
		metas = append(metas, groups[i].meta)
	}
	return request{
		filter: append(bson.D{anyOf(metas)}, s.shownFilter(p)...), projection: p.projection,
		sort: s.index(), hint: s.index(),
	}
}

// part is what the sweep has of a group. Groups are asked for in their order. At most so many groups are wanted from this one on. Nil
// means that the group is to be read on its own.
func (w *sweep) part(ctx context.Context, place int, wanted int64) documents {
	if w.refused || w.plan.newest || !w.groups[place].sweeps() {
		return nil
	}
	if place >= w.end {
		w.close(ctx)
	}
	if w.answer == nil && !w.open(ctx, place, wanted) {
		return nil
	}
	return &part{sweep: w, group: w.groups[place]}
}

// open asks for the groups from a place on. One group alone, and those that cannot be asked for together, are read on their own.
func (w *sweep) open(ctx context.Context, place int, wanted int64) bool {
	places := swept(w.groups, place, wanted)
	if len(places) < 2 {
		return false
	}
	if !w.series.ordersMetas(ctx) {
		w.refused = true
		return false
	}
	answer, err := w.series.port.find(ctx, w.series.sweepRequest(w.plan, w.groups, places))
	if err != nil {
		w.refused = !transient(err)
		return false
	}
	w.answer, w.end, w.ended, w.ahead = answer, places[len(places)-1]+1, false, false
	return true
}

func (w *sweep) close(ctx context.Context) {
	if w.answer != nil {
		_ = w.answer.Close(context.WithoutCancel(ctx)) // of a cursor that is gone, or not wanted any more
		w.answer = nil
	}
}

// part is the documents of one group in a sweep. After a failure the sweep is asked for anew with the next group.
type part struct {
	sweep *sweep
	group group
	err   error
}

// errDisorder means that a server orders metas in another way than it showed.
var errDisorder = errors.New("the server does not give series in the order of their metas: has the collection of buckets a collation?")

// Next implements documents.
func (p *part) Next(ctx context.Context) bool {
	w := p.sweep
	for w.answer != nil && !w.ended {
		if !w.ahead && !w.answer.Next(ctx) {
			w.ended = true
			if p.err = w.answer.Err(); p.err != nil {
				w.close(ctx)
			}
			return false
		}
		w.ahead = false
		meta := metaOf(w.answer.Document())
		if meta.Type == bson.TypeArray { // it has a meta that was asked for as an element
			continue
		}
		switch c := p.group.compare(group{meta: meta}); {
		case c == 0:
			return true
		case c < 0:
			w.ahead = true
			return false
		}
		p.err = errDisorder
		return false
	}
	return false
}

// Document implements documents.
func (p *part) Document() bson.Raw { return p.sweep.answer.Document() }

// Err implements documents.
func (p *part) Err() error { return p.err }

// Close leaves the sweep open for the next group.
func (*part) Close(context.Context) error { return nil }

// ordersMetas reports whether the server orders values as groups are ordered. It asks once, by sorting some values: so a collation of the
// collection shows, too.
func (s *Series) ordersMetas(ctx context.Context) bool {
	s.orderOnce.Lock()
	defer s.orderOnce.Unlock()
	if s.orders == nil {
		var sorted []bson.RawValue
		answer, err := s.port.aggregate(ctx, ordering())
		err = each(ctx, answer, err, func(d bson.Raw) error {
			sorted = append(sorted, cloned(metaOf(d)))
			return nil
		})
		if err != nil && transient(err) || err == nil && len(sorted) == 0 { // there is no bucket
			return false
		}
		orders := err == nil && len(sorted) == len(metasToOrder) && slices.IsSortedFunc(sorted, timeseries.Compare)
		s.orders = &orders
	}
	return *s.orders
}

// metasToOrder are metas of several kinds, not in their order.
var metasToOrder = bson.A{
	bson.D{{Key: "a", Value: int32(10)}},
	bson.D{{Key: "a", Value: "b"}, {Key: "c", Value: int32(1)}},
	bson.D{{Key: "b", Value: int32(1)}},
	"b", "B", "a", "10", "9", int32(10),
	bson.D{{Key: "a", Value: 9.5}},
	int64(9), 9.5,
	bson.D{{Key: "a", Value: "b"}},
	bson.D{{Key: "a", Value: "B"}},
	true, false, bson.DateTime(1),
	bson.D{},
}

// ordering is the pipeline that sorts metasToOrder.
func ordering() bson.A {
	return bson.A{
		bson.D{{Key: "$limit", Value: 1}},
		bson.D{{Key: "$project", Value: bson.D{{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$literal", Value: metasToOrder}}}}}},
		bson.D{{Key: "$unwind", Value: "$" + timeseries.FieldMeta}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: timeseries.FieldMeta, Value: 1}}}},
	}
}
