package sink

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// smallBatch is how many documents are asked for at once after an answer that did not come: the server may have put more
// into one than may be read.
const smallBatch = 16

// Scan reads the buckets of a partition that may list offsets in [From, To), in the order of their largest offset, so that
// it can go on where it was when a cursor dies or an answer cannot be read. It is not for concurrent use.
type Scan struct {
	Buckets  Finder
	Source   timeseries.Source
	From, To int64
	// Projection is as in Query.
	Projection bson.Raw

	last   bson.RawValue       // largest offset of the bucket that came last; Type 0: none came whose is a number
	beside map[string]struct{} // the buckets that came with it
	odd    map[string]struct{} // those whose largest offset is no number
	batch  int32
}

// Finder finds buckets: Buckets, or a model of them.
type Finder interface {
	Find(ctx context.Context, q Query, each func(document bson.Raw) error) error
}

// Each calls use for every bucket that no earlier call of it has used. A bucket that is written meanwhile only moves away
// from the beginning: it may come twice, and none is passed over. After an error of MongoDB it may be called again, and
// progress tells whether there was any; an error of use is returned as it is.
func (s *Scan) Each(ctx context.Context, use func(bson.Raw) error) (progress bool, err error) {
	if s.odd == nil {
		s.beside, s.odd = map[string]struct{}{}, map[string]struct{}{}
	}
	query := Query{Filter: s.filter(), Projection: s.Projection, Sort: document(bson.D{{Key: timeseries.PathLast, Value: 1}}), Batch: s.batch}
	err = s.Buckets.Find(ctx, query, func(d bson.Raw) error {
		if !s.isNew(d) {
			return nil
		}
		progress = true
		return use(d)
	})
	if err != nil {
		s.batch = smallBatch
		if !progress {
			s.batch = 1
		}
	}
	return progress, err
}

// filter is what is left to read. What is no number is smaller or larger than all numbers, and always looked for.
func (s *Scan) filter() bson.Raw {
	from := s.From
	if n, ok := s.last.AsInt64OK(); ok {
		from = n
	}
	return document(append(sourceFilter(s.Source),
		bson.E{Key: timeseries.PathLast, Value: not("$lt", from)},
		bson.E{Key: timeseries.PathFirst, Value: not("$gte", s.To)}))
}

// isNew notes where the scan is, and tells whether it was not there before.
func (s *Scan) isNew(d bson.Raw) bool {
	if d.Validate() != nil { // nobody can tell, and use says so
		return true
	}
	id := d.Lookup(timeseries.FieldID)
	key := string(byte(id.Type)) + string(id.Value)
	came := s.odd
	last := d.Lookup(timeseries.FieldControl, timeseries.FieldSource, timeseries.FieldLast)
	if n, ok := last.AsInt64OK(); ok {
		if before, ok := s.last.AsInt64OK(); !ok || n > before {
			clear(s.beside)
			s.last = cloned(last)
		}
		came = s.beside
	}
	_, known := came[key]
	came[key] = struct{}{}
	return !known
}
