package sink

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// maxCandidates is how many of the buckets found for a look-up are kept. A series with more than BUCKET_DELTA_MAX measurements
// a flush leaves behind, with each flush, a bucket that is neither closed nor full. So thousands may be found for every one of
// a thousand series. The catalog takes the first bucket that it does not refuse. It has few reasons to refuse one. The catalog
// already holds the bucket or has just left it, its values have other types, or a person has edited it. If it refuses all, it
// opens a new bucket.
const maxCandidates = 4

// candidate is a found bucket, with the fields that decide whether a look-up wants it, and in which order.
type candidate struct {
	document *held
	bson     int32 // size of the whole document. Zero means unknown.
	id       bson.ObjectID
	minTime  int64
	count    int64
	size     int64
}

// held is the document of a candidate. All look-ups that keep the candidate share it.
type held struct {
	bytes bson.Raw
	users int
}

// isBetter compares candidates by the catalog's order: the largest minimum time first, then the fewest measurements.
func (c *candidate) isBetter(than *candidate) bool {
	return cmp.Or(cmp.Compare(than.minTime, c.minTime), cmp.Compare(c.count, than.count)) < 0
}

// search is one Find.
type search struct {
	answers  []bucketer.Answer // by look-up
	answered []bool
	span     int64 // milliseconds
	held     int   // bytes of the documents kept
}

// shortlist holds the best candidates for one look-up, best first. Among equal ones the first found comes first.
type shortlist struct {
	index  int // of the look-up
	lookup *bucketer.Lookup
	best   []candidate
}

// shortlists are the shortlists of the look-ups of one query.
type shortlists struct {
	*search
	lists    []*shortlist            // those of look-ups ahead come last
	bySeries map[string][]*shortlist // by the binary key
	spare    bson.Raw                // memory of a document without users
}

func (s *search) newShortlists(b batch) *shortlists {
	all := &shortlists{search: s, bySeries: make(map[string][]*shortlist, len(b.indexes))}
	for _, i := range b.indexes {
		all.lists = append(all.lists, &shortlist{index: i, lookup: &s.answers[i].Lookup})
	}
	slices.SortStableFunc(all.lists, func(a, b *shortlist) int { return trueFirst(!a.lookup.Ahead, !b.lookup.Ahead) })
	all.group()
	return all
}

// group sets bySeries.
func (all *shortlists) group() {
	clear(all.bySeries)
	for _, s := range all.lists {
		all.bySeries[s.lookup.Series] = append(all.bySeries[s.lookup.Series], s)
	}
}

// offer gives a candidate to the look-ups that want it. The caller owns the document, so offer copies it.
func (all *shortlists) offer(c candidate, document bson.Raw) {
	c.document = &held{}
	for _, s := range all.bySeries[timeseries.Key(document.Lookup(timeseries.FieldMeta))] {
		if !s.wants(&c, all.span) {
			continue
		}
		at := sort.Search(len(s.best), func(i int) bool { return c.isBetter(&s.best[i]) })
		if at == maxCandidates {
			continue
		}
		if len(s.best) == maxCandidates {
			all.letGo(s, maxCandidates-1)
		}
		if c.document.users++; c.document.users == 1 {
			c.document.bytes, all.spare = append(all.spare[:0], document...), nil
			all.held += len(document)
		}
		s.best = slices.Insert(s.best, at, c)
	}
	for all.held > maxAnswerBytes && len(all.lists) > 1 {
		all.shed()
	}
}

// letGo shortens a list to n candidates.
func (all *shortlists) letGo(s *shortlist, n int) {
	for _, c := range s.best[n:] {
		if c.document.users--; c.document.users == 0 {
			all.held -= len(c.document.bytes)
			all.spare = c.document.bytes
		}
	}
	clear(s.best[n:])
	s.best = s.best[:n]
}

// shed leaves half of the look-ups unanswered.
func (all *shortlists) shed() {
	keep := (len(all.lists) + 1) / 2
	for _, s := range all.lists[keep:] {
		all.letGo(s, 0)
	}
	all.lists = all.lists[:keep]
	all.group()
}

// wants reports whether the look-up's own condition holds. The query has only the conditions that all look-ups of a batch
// share.
func (s *shortlist) wants(c *candidate, span int64) bool {
	l := s.lookup
	if l.ID != (bson.ObjectID{}) {
		return c.id == l.ID
	}
	return c.minTime <= l.Time && c.minTime > l.Time-span && (l.Size == 0 || c.size < int64(l.Size))
}

// answer gives each look-up its candidates.
func (all *shortlists) answer() {
	for _, s := range all.lists {
		all.answered[s.index] = true
		for i := range s.best {
			c := &s.best[i]
			a := &all.answers[s.index]
			a.Candidates = append(a.Candidates, bucketer.Candidate{Document: c.document.bytes, Size: c.bson})
		}
	}
}

// shortlist makes the query of a batch. The query is not ordered after writes, so it needs no session and may overlap other
// calls.
func (p *Partition) shortlist(ctx context.Context, q mongodb.Query, b batch, s *search) (*shortlists, error) {
	defer p.store.Metrics.command("find", time.Now())
	found := s.newShortlists(b)
	err := p.store.Ports.Buckets.Find(ctx, q, func(d bson.Raw) error {
		if c, ok := p.candidate(d); ok { // other documents were made by hand, and are never reopened
			found.offer(c, d)
		}
		return nil
	})
	return found, err
}

// candidate reads a bucket. False means that no catalog writes such a document.
func (p *Partition) candidate(d bson.Raw) (candidate, bool) {
	var c candidate
	var isID, isTime, isCount bool
	c.id, isID = d.Lookup(timeseries.FieldID).ObjectIDOK()
	c.minTime, isTime = d.Lookup(timeseries.FieldControl, timeseries.FieldMin, p.store.Options.TimeField).DateTimeOK()
	c.count, isCount = d.Lookup(timeseries.FieldControl, timeseries.FieldCount).AsInt64OK()
	if size, ok := d.Lookup(sizeField).AsInt64OK(); ok {
		c.size, c.bson = size, int32(size)
	} else {
		c.size, _ = d.Lookup(timeseries.FieldControl, timeseries.FieldSize).AsInt64OK()
	}
	return c, isID && isTime && isCount && c.count > 0
}
