package reader

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// scan reads the buckets of a request in the order of their minimum times, each once. After a failure of the server it continues
// where it was.
type scan struct {
	series  *Series
	request request // without its sort
	newest  bool

	answer documents // Nil means that no request is open.
	retry  retry

	current bson.Raw
	begins  int64           // the current bucket's control.min.<time>
	timed   bool            // whether the current bucket has that field
	last    int64           // the minimum time of the last bucket that had one
	started bool            // whether there was such a bucket
	beside  map[string]bool // the _ids of all buckets with that minimum time
	untimed map[string]bool // the _ids of all buckets without a minimum time
}

// next goes to the next bucket. False means that there are no more. The bucket is valid until the next call.
func (s *scan) next(ctx context.Context) (bool, error) {
	for {
		err := s.ask(ctx)
		for err == nil && s.answer.Next(ctx) {
			s.retry.progressed()
			if s.take(s.answer.Document()) {
				return true, nil
			}
		}
		if err == nil {
			err = s.answer.Err()
		}
		s.close(ctx)
		if err == nil {
			return false, nil
		}
		if err := s.retry.wait(ctx, err); err != nil {
			return false, err
		}
	}
}

// ask requests the rest of the buckets, unless an answer is open.
func (s *scan) ask(ctx context.Context) (err error) {
	if s.answer == nil {
		s.answer, err = s.series.port.find(ctx, s.rest())
	}
	return err
}

// rest is the request for the buckets that are not read yet.
func (s *scan) rest() request {
	r, direction, bound := s.request, 1, "$gte"
	if s.newest {
		direction, bound = -1, "$lte"
	}
	r.sort = bson.D{{Key: s.series.minPath(), Value: direction}}
	r.hint = s.series.index()
	if s.started {
		behind := bson.D{{Key: s.series.minPath(), Value: bson.D{{Key: bound, Value: bson.DateTime(s.last)}}}}
		r.filter = bson.D{{Key: "$and", Value: bson.A{r.filter, behind}}}
	}
	return r
}

// take records the scan's position. False means that the bucket came before.
func (s *scan) take(bucket bson.Raw) bool {
	s.current = bucket
	s.begins, s.timed = s.series.begins(bucket)
	key := keyOf(idOf(bucket))
	if s.beside == nil {
		s.beside, s.untimed = map[string]bool{}, map[string]bool{}
	}
	came := s.untimed
	if s.timed {
		if !s.started || s.begins != s.last {
			clear(s.beside)
			s.started, s.last = true, s.begins
		}
		came = s.beside
	}
	known := came[key]
	came[key] = true
	return !known
}

func (s *scan) close(ctx context.Context) {
	if s.answer != nil {
		_ = s.answer.Close(context.WithoutCancel(ctx)) // The cursor is lost or no longer needed.
		s.answer = nil
	}
}

// begins returns a bucket's control.min.<time> in milliseconds. False means that it has none.
func (s *Series) begins(bucket bson.Raw) (int64, bool) {
	v, err := bucket.LookupErr(timeseries.FieldControl, timeseries.FieldMin, s.options.TimeField)
	if err != nil {
		return 0, false
	}
	return v.DateTimeOK()
}

// idOf returns a bucket's _id. Type 0 means that none can be read.
func idOf(bucket bson.Raw) bson.RawValue {
	v, err := bucket.LookupErr(timeseries.FieldID)
	if err != nil {
		return bson.RawValue{}
	}
	return v
}

// metaOf returns a bucket's meta. Type 0 means that it has none.
func metaOf(bucket bson.Raw) bson.RawValue {
	v, err := bucket.LookupErr(timeseries.FieldMeta)
	if err != nil {
		return bson.RawValue{}
	}
	return v
}

func sameValue(a, b bson.RawValue) bool { return a.Type == b.Type && slices.Equal(a.Value, b.Value) }

func cloned(v bson.RawValue) bson.RawValue {
	return bson.RawValue{Type: v.Type, Value: slices.Clone(v.Value)}
}
