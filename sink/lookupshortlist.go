package sink

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/timeseries"
)

// maxCandidates is how many of the buckets found for a look-up are kept. A series of more than BUCKET_DELTA_MAX
// measurements a flush leaves a bucket behind with each, which is neither closed nor full, so that thousands may be found
// for every one of a thousand series. The catalog takes the first that it does not refuse, and it has few reasons to
// refuse one: a bucket of the series that it holds already or has just left, one that was edited by hand. Should it refuse
// all, it opens a new bucket.
const maxCandidates = 4

// candidate is a bucket found, with what tells whether a look-up wants it, and how much.
type candidate struct {
	bucketer.Candidate
	id      bson.ObjectID
	minTime int64
	count   int64
	size    int64
}

// isBetter is the order in which the catalog takes candidates: the largest minimum time, then the fewest measurements.
func (c *candidate) isBetter(than *candidate) bool {
	return cmp.Or(cmp.Compare(than.minTime, c.minTime), cmp.Compare(c.count, than.count)) < 0
}

// shortlist is the best candidates for one look-up, best first; of equals the one found first.
type shortlist struct {
	answer *bucketer.Answer
	span   int64 // milliseconds
	best   []candidate
}

// wants is the condition of the look-up, of which the query has only what is common to all of a batch.
func (s *shortlist) wants(c *candidate) bool {
	l := &s.answer.Lookup
	if l.ID != (bson.ObjectID{}) {
		return c.id == l.ID
	}
	return c.minTime <= l.Time && c.minTime > l.Time-s.span && (l.Size == 0 || c.size < int64(l.Size))
}

// offer takes a copy of a candidate if it is among the best.
func (s *shortlist) offer(c candidate) {
	at := sort.Search(len(s.best), func(i int) bool { return c.isBetter(&s.best[i]) })
	if at == maxCandidates {
		return
	}
	var memory []byte
	if last := maxCandidates - 1; len(s.best) > last {
		memory = s.best[last].Document[:0]
		s.best = s.best[:last]
	}
	c.Document = append(memory, c.Document...)
	s.best = slices.Insert(s.best, at, c)
}

// shortlists are those of the look-ups of one query, by the binary key of their series.
type shortlists map[string][]*shortlist

func (p *Partition) newShortlists(b batch, answers []bucketer.Answer) shortlists {
	all, span := make(shortlists, len(b.indexes)), p.store.span()
	for _, i := range b.indexes {
		series := answers[i].Lookup.Series
		all[series] = append(all[series], &shortlist{answer: &answers[i], span: span})
	}
	return all
}

// answer gives each look-up its candidates.
func (all shortlists) answer() {
	for _, lists := range all {
		for _, s := range lists {
			for i := range s.best {
				s.answer.Candidates = append(s.answer.Candidates, s.best[i].Candidate)
			}
		}
	}
}

// shortlist makes the query. It is not ordered after writes, so it needs no session and may overlap other calls.
func (p *Partition) shortlist(ctx context.Context, q Query, all shortlists) error {
	defer p.store.Metrics.command("find", time.Now())
	return p.store.ports.Buckets.Find(ctx, q, func(d bson.Raw) error {
		c, ok := p.candidate(d)
		if !ok {
			return nil // made by hand: never reopened
		}
		for _, s := range all[seriesOf(d.Lookup(timeseries.FieldMeta))] {
			if s.wants(&c) {
				s.offer(c)
			}
		}
		return nil
	})
}

// candidate reads a bucket, whose document it does not copy; false when it is none that a catalog writes.
func (p *Partition) candidate(d bson.Raw) (candidate, bool) {
	c := candidate{Candidate: bucketer.Candidate{Document: d}}
	var isID, isTime, isCount bool
	c.id, isID = d.Lookup(timeseries.FieldID).ObjectIDOK()
	c.minTime, isTime = d.Lookup(timeseries.FieldControl, timeseries.FieldMin, p.store.Collection.TimeField).DateTimeOK()
	c.count, isCount = d.Lookup(timeseries.FieldControl, timeseries.FieldCount).AsInt64OK()
	if size, ok := d.Lookup(sizeField).AsInt64OK(); ok {
		c.size, c.Size = size, int32(size)
	} else {
		c.size, _ = d.Lookup(timeseries.FieldControl, timeseries.FieldSize).AsInt64OK()
	}
	return c, isID && isTime && isCount && c.count > 0
}

// seriesOf is the binary key of a series: exactly this meta, type and value. A query finds also what only compares equal.
func seriesOf(meta bson.RawValue) string {
	if meta.Type == 0 {
		return ""
	}
	return string(byte(meta.Type)) + string(meta.Value)
}
