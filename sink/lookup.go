package sink

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/bucketer"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Bounds of one look-up query, and of the answers of one Find.
const (
	maxQuerySeries = 1000
	maxQueryBytes  = 8 << 20
	maxAnswerBytes = 1 << 20
)

// sizeField is the field in which a look-up returns the size of the whole document.
const sizeField = "size"

// Find looks up stored buckets of this partition that may take measurements. They have version 1, are not closed and not full.
// The answers have the order of the look-ups, each with at most maxCandidates buckets. If they would take too much memory, some
// look-ups stay unanswered, those ahead first, but never all. Find needs no fence, because a stale answer fails the condition
// of the update (E5).
func (p *Partition) Find(ctx context.Context, lookups []bucketer.Lookup) ([]bucketer.Answer, error) {
	answers := make([]bucketer.Answer, len(lookups))
	for i, l := range lookups {
		answers[i].Lookup = l
	}
	s := search{answers: answers, answered: make([]bool, len(lookups)), span: p.store.span()}
	for _, batch := range batches(lookups, s.span) {
		if err := p.findBatch(ctx, batch, &s); err != nil {
			return nil, mongodb.Failure("looking up buckets", err)
		}
		if s.held > maxAnswerBytes {
			break
		}
	}
	kept := answers[:0]
	for i, a := range answers {
		if s.answered[i] {
			kept = append(kept, a)
		}
	}
	return kept, nil
}

// batch is the look-ups of one query, by index.
type batch struct {
	byID    bool // a query of archived buckets by _id; otherwise one of series in a range of times
	indexes []int
}

// batches groups look-ups into queries. A query asks for one range of times, at most two spans wide. So it does not read the
// whole past of a series because of one late measurement of another series. Look-ups that measurements wait for come before
// look-ups ahead.
func batches(lookups []bucketer.Lookup, span int64) []batch {
	var byID, byTime []int
	for i, l := range lookups {
		if l.ID != (bson.ObjectID{}) {
			byID = append(byID, i)
		} else {
			byTime = append(byTime, i)
		}
	}
	slices.SortStableFunc(byTime, func(i, j int) int { return cmp.Compare(lookups[i].Time, lookups[j].Time) })

	var all []batch
	for chunk := range slices.Chunk(byID, maxIDs) {
		all = append(all, batch{byID: true, indexes: chunk})
	}
	first, bytes := 0, 0
	for n, i := range byTime {
		size := len(lookups[i].Meta.Value) + mongodb.WriteOverhead
		if n-first == maxQuerySeries || bytes+size > maxQueryBytes || lookups[i].Time-lookups[byTime[first]].Time > span {
			all = append(all, batch{indexes: byTime[first:n]})
			first, bytes = n, 0
		}
		bytes += size
	}
	if first < len(byTime) {
		all = append(all, batch{indexes: byTime[first:]})
	}
	due := func(b batch) bool {
		return slices.ContainsFunc(b.indexes, func(i int) bool { return !lookups[i].Ahead })
	}
	slices.SortStableFunc(all, func(a, b batch) int { return trueFirst(due(a), due(b)) })
	return all
}

// trueFirst sorts true before false.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// findBatch makes one query and gives its look-ups their candidates. If MongoDB refuses the hint, it repeats the query without
// one. If that helps, the index is missing, and later queries have no hint either.
func (p *Partition) findBatch(ctx context.Context, b batch, s *search) error {
	query := mongodb.Query{Filter: p.lookupFilter(b, s.answers), Projection: p.lookupProjection()}
	if !b.byID && !p.store.unhinted.Load() {
		query.Hint = mongodb.Document(p.store.Options.SeriesIndex())
	}
	found, err := p.shortlist(ctx, query, b, s)
	if query.Hint != nil && mongodb.HasCode(err, mongodb.CodeBadValue) {
		query.Hint = nil
		if found, err = p.shortlist(ctx, query, b, s); err == nil && !p.store.unhinted.Swap(true) {
			p.store.Logger.Warn("the index for looking up buckets is missing, so look-ups are slow: restart the consumer to create the index",
				"collection", p.store.Namespace)
		}
	}
	if err == nil {
		found.answer()
	}
	return err
}

// lookupFilter builds the filter of a batch as bytes, because it may take megabytes.
func (p *Partition) lookupFilter(b batch, answers []bucketer.Answer) bson.Raw {
	start, filter := bsoncore.AppendDocumentStart(nil)
	if b.byID {
		filter = appendIn(filter, timeseries.FieldID, b.indexes, func(dst []byte, key string, i int) []byte {
			return bsoncore.AppendObjectIDElement(dst, key, answers[i].Lookup.ID)
		})
	} else {
		filter = p.appendSeries(filter, b, answers)
	}
	filter = append(filter, inner(mongodb.Document(append(timeseries.OfSource(p.source),
		bson.E{Key: timeseries.PathVersion, Value: timeseries.Version},
		bson.E{Key: timeseries.PathClosed, Value: bson.D{{Key: "$ne", Value: true}}},
		bson.E{Key: timeseries.PathCount, Value: bson.D{{Key: "$lt", Value: p.store.MaxCount}}},
	)))...)
	filter, _ = bsoncore.AppendDocumentEnd(filter, start) // fails only for a wrong start
	return bson.Raw(filter)
}

// appendSeries asks for the series of a batch, in the range of times of all its look-ups.
func (p *Partition) appendSeries(filter []byte, b batch, answers []bucketer.Answer) []byte {
	known := make(map[string]bool, len(b.indexes))
	distinct := slices.DeleteFunc(slices.Clone(b.indexes), func(i int) bool {
		series := answers[i].Lookup.Series
		seen := known[series]
		known[series] = true
		return seen
	})
	filter = appendIn(filter, timeseries.FieldMeta, distinct, func(dst []byte, key string, i int) []byte {
		meta := answers[i].Lookup.Meta
		if meta.Type == 0 { // null also finds buckets without a meta
			return bsoncore.AppendNullElement(dst, key)
		}
		return bsoncore.AppendValueElement(dst, key, bsoncore.Value{Type: bsoncore.Type(meta.Type), Data: meta.Value})
	})
	first, last := answers[b.indexes[0]].Lookup.Time, answers[b.indexes[len(b.indexes)-1]].Lookup.Time
	return append(filter, inner(mongodb.Document(bson.D{{
		Key: timeseries.MinPath(p.store.Options.TimeField), Value: bson.D{
			{Key: "$gt", Value: bson.DateTime(first - p.store.span())}, {Key: "$lte", Value: bson.DateTime(last)},
		},
	}}))...)
}

// appendIn appends the element key: {$in: [...]}.
func appendIn(dst []byte, key string, of []int, value func(dst []byte, key string, i int) []byte) []byte {
	object, dst := bsoncore.AppendDocumentElementStart(dst, key)
	array, dst := bsoncore.AppendArrayElementStart(dst, "$in")
	for n, i := range of {
		dst = value(dst, strconv.Itoa(n), i)
	}
	dst, _ = bsoncore.AppendArrayEnd(dst, array)
	dst, _ = bsoncore.AppendDocumentEnd(dst, object)
	return dst
}

// inner returns the elements of a document, without its length and end.
func inner(d bson.Raw) []byte { return d[4 : len(d)-1] }

func (p *Partition) lookupProjection() bson.Raw {
	fields := bson.D{{Key: timeseries.FieldControl, Value: 1}, {Key: timeseries.FieldMeta, Value: 1}}
	if p.store.BSONSize {
		fields = append(fields, bson.E{Key: sizeField, Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}})
	}
	return mongodb.Document(fields)
}

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
	lists    []*shortlist            // look-ups ahead come last
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
