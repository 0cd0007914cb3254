package reader

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/timeseries"
)

// segmentReadingTime is how long segments are read for the same moment if failures interrupt the reading. A segment that has
// ended at that moment is kept for only some minutes. A longer reading might miss it.
const segmentReadingTime = time.Minute

// segmentReading reads the measurements of the selected series from segments into memory. A reading does this at its beginning,
// for one moment. So it neither misses nor repeats measurements that are compacted later.
type segmentReading struct {
	series *Series
	plan   *plan
	bad    func(segment bson.Raw, err error) error // tells the caller of a segment that cannot be read

	began    time.Time
	choice   *choice          // Nil means that it is not made yet.
	seen     map[string]bool  // the _ids of segments that were read
	told     map[string]bool  // the _ids of segments that bad was called for
	rows     map[string]*held // by partition and meta. Nil means that the series is not selected.
	list     []*held
	sources  []timeseries.Source // the partitions; a key begins with the index of its partition
	unpacker *timeseries.Unpacker
	key      []byte
	trim     []byte
}

// inSegments returns the selected measurements in segments, with one entry for each series and partition.
func (s *Series) inSegments(ctx context.Context, p *plan, bad func(bson.Raw, error) error) ([]*held, error) {
	if !p.segments {
		return nil, nil
	}
	g := segmentReading{series: s, plan: p, bad: bad, told: map[string]bool{}, unpacker: timeseries.NewUnpacker(s.options)}
	g.begin()
	var r retry
	for {
		err := g.read(ctx, &r)
		switch {
		case err == nil:
			for _, h := range g.list {
				h.order()
			}
			return g.list, nil
		case errors.Is(err, errEnough):
			return nil, err
		}
		if err := r.wait(ctx, err); err != nil {
			return nil, err
		}
		if time.Since(g.began) > segmentReadingTime {
			p.now = time.Time{}
			g.begin()
		}
	}
}

// begin discards what was read, and starts anew.
func (g *segmentReading) begin() {
	g.began, g.choice, g.list = time.Now(), nil, nil
	g.seen, g.rows = map[string]bool{}, map[string]*held{}
}

// read reads the segments that were not read yet.
func (g *segmentReading) read(ctx context.Context, r *retry) error {
	if g.plan.now.IsZero() {
		now, err := g.series.port.now(ctx)
		if err != nil {
			return err
		}
		g.plan.now = now
	}
	if g.choice == nil {
		c, err := g.series.choose(ctx, g.plan, g.series.segmentsOf(g.plan))
		if err != nil {
			return err
		}
		r.progressed()
		g.choice = &c
	}
	if g.choice.nothing() {
		return nil
	}
	answer, err := g.series.port.find(ctx, g.series.segmentRequest(g.plan))
	return each(ctx, answer, err, func(segment bson.Raw) error {
		id := timeseries.Key(idOf(segment))
		if g.seen[id] {
			return nil
		}
		g.seen[id] = true
		r.progressed()
		err := g.add(segment)
		if err == nil || g.told[id] {
			return nil
		}
		g.told[id] = true
		return g.bad(segment, err)
	})
}

// stagingBatch is how many segments an answer has at most. MongoDB's first answer has 101 otherwise. All of them are wanted, and
// 16 MiB bound an answer anyway.
const stagingBatch = 1000

// segmentRequest requests the segments that may have selected measurements.
func (s *Series) segmentRequest(p *plan) request {
	return request{filter: s.segmentsOf(p), projection: s.withSegments(p.projection), batch: stagingBatch}
}

// segmentsOf selects the segments that are shown at the plan's moment and may hold measurements of its times and series.
func (s *Series) segmentsOf(p *plan) bson.D {
	return p.bounds.appendTo(append(s.timeFilter(p), timeseries.SegmentsShown(p.now)...))
}

// add adds the selected measurements of a segment. If a segment cannot be read to its end, they are those before the damage.
func (g *segmentReading) add(segment bson.Raw) error {
	if err := g.unpacker.Reset(segment); err != nil {
		return err
	}
	g.key = binary.LittleEndian.AppendUint32(g.key[:0], g.sourceNumber(g.unpacker.Source()))
	var m timeseries.Unpacked
	for g.unpacker.Next(&m) {
		if m.Time < g.plan.first || m.Time > g.plan.last {
			continue
		}
		h := g.of(m.Meta)
		if h == nil {
			continue
		}
		fields, err := g.plan.fields.trimmed(&g.trim, m.Fields)
		if err != nil {
			return err
		}
		if g.plan.single {
			h.keepNewest(&m, fields)
		} else {
			h.keep(&m, fields)
		}
	}
	return g.unpacker.Err()
}

// sourceNumber returns the index of a partition in sources, which it adds if necessary.
func (g *segmentReading) sourceNumber(source timeseries.Source) uint32 {
	i := slices.Index(g.sources, source)
	if i < 0 {
		i = len(g.sources)
		g.sources = append(g.sources, source)
	}
	return uint32(i)
}

// of returns where measurements of a series go. The key begins with the number of their partition. Nil means that the series is
// not selected.
func (g *segmentReading) of(meta bson.RawValue) *held {
	g.key = append(append(g.key[:4], byte(meta.Type)), meta.Value...)
	h, known := g.rows[string(g.key)]
	if known || !g.choice.takes(meta) {
		g.rows[string(g.key)] = h
		return h
	}
	h = &held{plan: g.plan, sorted: true, source: g.sources[binary.LittleEndian.Uint32(g.key)]}
	h.current.Meta = bson.RawValue{Type: meta.Type, Value: bytes.Clone(meta.Value)}
	g.rows[string(g.key)] = h
	g.list = append(g.list, h)
	return h
}

// choice is the set of series in some segments that a query selects.
type choice struct {
	all   bool
	metas []bson.RawValue // sorted, each once
	none  bool            // also the series without meta
	bound *bounds         // Its equalities select the series, and metas is empty. Nil means that the other fields select them.
}

// nothing reports whether no series is selected.
func (c *choice) nothing() bool { return !c.all && !c.none && c.bound == nil && len(c.metas) == 0 }

// takes reports whether the series of a meta is selected.
func (c *choice) takes(meta bson.RawValue) bool {
	switch {
	case c.all:
		return true
	case meta.Type == 0:
		return c.none
	case c.bound != nil:
		return c.bound.takes(meta)
	}
	_, found := slices.BinarySearchFunc(c.metas, meta, timeseries.Compare)
	return found
}

// choose determines which series the plan selects among those in the segments that a filter finds. Only a server knows what a
// filter on a part of the meta means. So choose asks the server to apply the filter to each meta.
func (s *Series) choose(ctx context.Context, p *plan, segments bson.D) (c choice, err error) {
	switch {
	case s.options.MetaField == "" || len(p.meta) == 0:
		return choice{all: true}, nil
	case p.whole != nil: // null also selects the series without meta
		return choice{metas: []bson.RawValue{*p.whole}, none: p.whole.Type == bson.TypeNull}, nil
	case p.bounds.complete:
		return choice{bound: &p.bounds}, nil
	}
	if len(p.bounds.all) == 0 {
		if c.none, err = s.choosesNone(ctx, p, segments); err != nil {
			return c, err
		}
	}
	answer, err := s.port.aggregate(ctx, s.choosing(p, segments))
	err = each(ctx, answer, err, func(d bson.Raw) error {
		c.metas = append(c.metas, timeseries.Clone(idOf(d)))
		return nil
	})
	if refuses(err) {
		refusal := err
		c.metas, err = s.tryEach(ctx, p, segments)
		err = because(err, refusal)
	}
	slices.SortFunc(c.metas, timeseries.Compare)
	c.metas = slices.CompactFunc(c.metas, func(a, b bson.RawValue) bool { return timeseries.Compare(a, b) == 0 })
	return c, err
}

// choosesNone reports whether the plan selects the series without meta. It tries the plan's filter on a segment from which it has
// removed the meta.
func (s *Series) choosesNone(ctx context.Context, p *plan, segments bson.D) (found bool, err error) {
	answer, err := s.port.aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: segments}},
		bson.D{{Key: "$limit", Value: 1}},
		bson.D{{Key: "$project", Value: bson.D{{Key: timeseries.FieldID, Value: 1}}}},
		bson.D{{Key: "$match", Value: p.meta}},
	})
	if found, err = isAny(ctx, answer, err); !refuses(err) {
		return found, err
	}
	there, moved := atPlace(p.meta, timeseries.Path(timeseries.FieldMeta, "none")) // a segment has nothing at this path
	if moved != nil {
		return false, because(moved, err)
	}
	return s.isThere(ctx, request{filter: both(segments, there), projection: bson.D{{Key: timeseries.FieldID, Value: 1}}, limit: 1})
}

// refuses reports whether the server rejected the command itself.
func refuses(err error) bool {
	refused := (mongo.CommandError{})
	return errors.As(err, &refused) && !transient(err)
}

// because adds the server's refusal of a pipeline to the error of a filter that cannot be applied without this pipeline. The filter
// itself may be wrong.
func because(err, refusal error) error {
	if errors.As(err, new(*QueryError)) {
		return &QueryError{fmt.Errorf("%w. The server's answer: %w", err, refusal)}
	}
	return err
}

// both returns the conjunction of two filters.
func both(a, b bson.D) bson.D { return bson.D{{Key: "$and", Value: bson.A{a, b}}} }

// isThere reports whether anything is found.
func (s *Series) isThere(ctx context.Context, r request) (found bool, err error) {
	answer, err := s.port.find(ctx, r)
	return isAny(ctx, answer, err)
}

// isAny reports whether an answer has a document.
func isAny(ctx context.Context, answer documents, err error) (found bool, _ error) {
	err = each(ctx, answer, err, func(bson.Raw) error {
		found = true
		return nil
	})
	return found, err
}

// choosing is the pipeline that lists the selected metas in segments. In a damaged segment, the column of metas may have any
// type.
func (s *Series) choosing(p *plan, segments bson.D) bson.A {
	column := timeseries.DataPath(s.options.MetaField)
	readable := bson.D{{Key: column, Value: bson.D{{Key: "$type", Value: "object"}, {Key: "$not", Value: bson.D{{Key: "$type", Value: "array"}}}}}}
	return bson.A{
		bson.D{{Key: "$match", Value: both(segments, readable)}},
		bson.D{{Key: "$project", Value: bson.D{{Key: "metas", Value: bson.D{{Key: "$objectToArray", Value: "$" + column}}}}}},
		bson.D{{Key: "$unwind", Value: "$metas"}},
		bson.D{{Key: "$project", Value: bson.D{{Key: timeseries.FieldMeta, Value: "$metas.v"}}}},
		bson.D{{Key: "$match", Value: p.meta}},
		bson.D{{Key: "$group", Value: bson.D{{Key: timeseries.FieldID, Value: "$" + timeseries.FieldMeta}}}},
	}
}

// tryEach lists the same metas on a server that cannot run the choosing pipeline. It asks about each meta separately: it applies
// the filter to the path of the meta within its segment.
func (s *Series) tryEach(ctx context.Context, p *plan, segments bson.D) (metas []bson.RawValue, err error) {
	column := timeseries.DataPath(s.options.MetaField)
	type place struct {
		segment bson.RawValue
		path    string
		meta    bson.RawValue
	}
	var places []place
	met := map[string]bool{}
	answer, err := s.port.find(ctx, request{filter: segments, projection: bson.D{{Key: column, Value: 1}}})
	err = each(ctx, answer, err, func(segment bson.Raw) error {
		for index, meta := range members(bson.Raw(segment.Lookup(timeseries.FieldData, s.options.MetaField).Value)) {
			if key := timeseries.Key(meta); !met[key] {
				met[key] = true
				places = append(places, place{timeseries.Clone(idOf(segment)), column + "." + index, timeseries.Clone(meta)})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, at := range places {
		there, err := atPlace(p.meta, at.path)
		if err != nil {
			return nil, err
		}
		found, err := s.isThere(ctx, request{
			filter:     both(bson.D{{Key: timeseries.FieldID, Value: at.segment}}, there),
			projection: bson.D{{Key: timeseries.FieldID, Value: 1}}, limit: 1,
		})
		if err != nil {
			return nil, err
		}
		if found {
			metas = append(metas, at.meta)
		}
	}
	return metas, nil
}

// atPlace rewrites a filter on the meta into a filter on the value at a path.
func atPlace(filter bson.D, path string) (bson.D, error) {
	moved := make(bson.D, 0, len(filter))
	for _, e := range filter {
		below, ofMeta := strings.CutPrefix(e.Key, timeseries.FieldMeta)
		switch {
		case ofMeta:
			e.Key = path + below
		case e.Key == "$comment":
		case e.Key == "$and" || e.Key == "$or" || e.Key == "$nor":
			clauses, err := atPlaces(e.Value.(bson.RawValue), path)
			if err != nil {
				return nil, err
			}
			e.Value = clauses
		default:
			return nil, &QueryError{fmt.Errorf("this server cannot apply %s to measurements that are still in segments: write the filter without %[1]s", e.Key)}
		}
		moved = append(moved, e)
	}
	return moved, nil
}

func atPlaces(clauses bson.RawValue, path string) (moved bson.A, err error) {
	list, err := clauses.Array().Values()
	if err != nil {
		return nil, err
	}
	for _, clause := range list {
		filter, err := atPlace(normalQuery(clause.Document(), 0), path)
		if err != nil {
			return nil, err
		}
		moved = append(moved, filter)
	}
	return moved, nil
}
