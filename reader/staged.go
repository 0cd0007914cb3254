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

// stagingTime is how long segments are read for the same moment if failures interrupt the reading. A segment that has ended at
// that moment is kept for only some minutes. A longer reading might miss it.
const stagingTime = time.Minute

// staging reads the measurements of the selected series from segments into memory. A reading does this at its beginning, for one
// moment. So it neither misses nor repeats measurements that are compacted later.
type staging struct {
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

// staged returns the selected measurements in segments, with one entry for each series and partition.
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

// begin discards what was read, and starts anew.
func (g *staging) begin() {
	g.began, g.choice, g.list = time.Now(), nil, nil
	g.seen, g.rows = map[string]bool{}, map[string]*held{}
}

// read reads the segments that were not read yet.
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

// stagingBatch is how many segments an answer has at most. MongoDB's first answer has 101 otherwise. All of them are wanted, and
// 16 MiB bound an answer anyway.
const stagingBatch = 1000

// stagingRequest requests the segments that may have selected measurements.
func (s *Series) stagingRequest(p *plan) request {
	return request{filter: s.segmentsOf(p), projection: s.withSegments(p.projection), batch: stagingBatch}
}

// segmentsOf selects the segments that are shown at the plan's moment and may hold measurements of its times and series.
func (s *Series) segmentsOf(p *plan) bson.D {
	return p.bounds.appendTo(append(s.timeFilter(p), timeseries.SegmentsShown(p.now)...))
}

// add adds the selected measurements of a segment. If a segment cannot be read to its end, they are those before the damage.
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

// errMalformed means that a stored document is not valid BSON.
var errMalformed = errors.New("it holds malformed BSON")

// sourceNumber returns the index of a partition in sources, which it adds if necessary.
func (g *staging) sourceNumber(source timeseries.Source) uint32 {
	i := slices.Index(g.sources, source)
	if i < 0 {
		i = len(g.sources)
		g.sources = append(g.sources, source)
	}
	return uint32(i)
}

// of returns where measurements of a series go. The key begins with the number of their partition. Nil means that the series is
// not selected.
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

// trimmed returns a document of the elements that the fields name. It uses the memory of buffer.
func (f *fields) trimmed(buffer *[]byte, elements []byte) (bson.Raw, bool) {
	dst, ok := f.appendTrimmed(append((*buffer)[:0], 0, 0, 0, 0), elements)
	if !ok {
		return nil, false
	}
	*buffer = rawbson.EndDocument(dst, 0)
	return *buffer, true
}
