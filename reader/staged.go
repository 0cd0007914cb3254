package reader

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// stagingTime is how long segments are read for the same moment when failures come in between. What has ended at that moment, and
// so has to be read from segments no more, stays for some minutes: a reading that takes longer might miss some.
const stagingTime = time.Minute

// staging reads what segments have of the selected series into memory. That is done at the beginning of a reading, for one moment:
// so nothing that is compacted later is missed, or comes twice.
type staging struct {
	series *Series
	plan   *plan
	bad    func(segment bson.Raw, err error) error // tells the caller of a segment that cannot be read

	began    time.Time
	choice   *choice          // Nil means not made yet.
	seen     map[string]bool  // the _ids of segments that were taken in
	told     map[string]bool  // the _ids of bad ones
	rows     map[string]*held // by partition and meta. Nil means not selected.
	list     []*held
	sources  []timeseries.Source // the partitions; their places are the beginning of keys
	unpacker *timeseries.Unpacker
	key      []byte
	trim     []byte
}

// staged is what segments have of the series and times that a plan selects, one of each series and partition.
func (s *Series) staged(ctx context.Context, p *plan, bad func(bson.Raw, error) error) ([]*held, error) {
	if !p.segments {
		return nil, nil
	}
	g := staging{series: s, plan: p, bad: bad, told: map[string]bool{}, unpacker: timeseries.NewUnpacker(s.options)}
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
		if time.Since(g.began) > stagingTime {
			p.now = time.Time{}
			g.begin()
		}
	}
}

// begin forgets what was read.
func (g *staging) begin() {
	g.began, g.choice, g.list = time.Now(), nil, nil
	g.seen, g.rows = map[string]bool{}, map[string]*held{}
}

// read reads what was not read yet.
func (g *staging) read(ctx context.Context, r *retry) error {
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
	answer, err := g.series.port.find(ctx, g.series.stagingRequest(g.plan))
	return each(ctx, answer, err, func(segment bson.Raw) error {
		id := keyOf(idOf(segment))
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

// stagingRequest asks for the segments that may have something of what is selected.
func (s *Series) stagingRequest(p *plan) request {
	return request{filter: s.segmentsOf(p), projection: s.withSegments(p.projection)}
}

// segmentsOf selects the segments of the plan's moment that may hold measurements of its times and series.
func (s *Series) segmentsOf(p *plan) bson.D {
	return p.bounds.appendTo(append(s.timeFilter(p), timeseries.SegmentsShown(p.now)...))
}

// add takes in what is selected of a segment. Of one that cannot be read to its end it is what comes before.
func (g *staging) add(segment bson.Raw) error {
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
		fields := m.Fields
		if g.plan.fields.trims() {
			var ok bool
			if fields, ok = g.plan.fields.trimmed(&g.trim, m.Elements); !ok {
				return errMalformed
			}
		}
		if g.plan.single {
			h.keepNewest(&m, fields)
		} else {
			h.keep(&m, fields)
		}
	}
	return g.unpacker.Err()
}

// errMalformed tells that a stored document is no BSON.
var errMalformed = errors.New("it holds malformed BSON")

// sourceNumber is the place of a partition among those met.
func (g *staging) sourceNumber(source timeseries.Source) uint32 {
	i := slices.Index(g.sources, source)
	if i < 0 {
		i = len(g.sources)
		g.sources = append(g.sources, source)
	}
	return uint32(i)
}

// of is where measurements of a series go that come from the partition at the beginning of the key. Nil means that they are not selected.
func (g *staging) of(meta bson.RawValue) *held {
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

// trimmed is a document of those elements that the fields name, in the memory of buffer.
func (f *fields) trimmed(buffer *[]byte, elements []byte) (bson.Raw, bool) {
	dst, ok := f.appendTrimmed(append((*buffer)[:0], 0, 0, 0, 0), elements)
	if !ok {
		return nil, false
	}
	*buffer = rawbson.EndDocument(dst, 0)
	return *buffer, true
}
