package cli

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
	"waterwheel/reader"
)

// shelf implements measurementSource in memory. It evaluates a query's times and limit, and whether the query has a filter on the
// meta.
type shelf struct {
	all      []reader.Measurement // sorted by series
	selected []bson.RawValue      // metas that every filter selects
	broken   error                // error after the first measurement
	asked    []reader.Query
	endless  bool // Find repeats all measurements until it is stopped
	windows  []reader.Window
	totals   []reader.TotalsQuery // queries for totals so far
}

// Options implements measurementSource.
func (s *shelf) Options() timeseries.Options {
	return timeseries.Options{TimeField: "time", MetaField: "meta"}
}

func (s *shelf) takes(q reader.Query, m reader.Measurement) bool {
	filtered := len(q.Meta.(bson.D)) > 0
	for _, meta := range s.selected {
		filtered = filtered && !meta.Equal(m.Meta)
	}
	return !filtered && (q.From.IsZero() || !m.Time.Before(q.From)) && (q.To.IsZero() || m.Time.Before(q.To))
}

// Find implements measurementSource.
func (s *shelf) Find(_ context.Context, q reader.Query) iter.Seq2[reader.Measurement, error] {
	s.asked = append(s.asked, q)
	return func(yield func(reader.Measurement, error) bool) {
		n := int64(0)
		for again := true; again; again = s.endless {
			for _, m := range s.all {
				if !s.takes(q, m) {
					continue
				}
				if n++; !yield(m, nil) || n == q.Limit || s.broken != nil && !yield(reader.Measurement{}, s.broken) {
					return
				}
			}
		}
	}
}

// Latest implements measurementSource. It returns the last measurement of each meta.
func (s *shelf) Latest(_ context.Context, q reader.Query) iter.Seq2[reader.Measurement, error] {
	if q.Meta == nil {
		q.Meta = bson.D{}
	}
	return func(yield func(reader.Measurement, error) bool) {
		for i, m := range s.all {
			if last := i == len(s.all)-1 || !s.all[i+1].Meta.Equal(m.Meta); last && s.takes(q, m) && !yield(m, nil) {
				return
			}
		}
	}
}

// Follow implements measurementSource.
func (s *shelf) Follow(ctx context.Context, q reader.Query, _ time.Duration) iter.Seq2[reader.Measurement, error] {
	return s.Find(ctx, q)
}

// Series implements measurementSource.
func (s *shelf) Series(ctx context.Context, q reader.Query) iter.Seq2[bson.RawValue, error] {
	return func(yield func(bson.RawValue, error) bool) {
		for m, err := range s.Latest(ctx, q) {
			if !yield(m.Meta, err) {
				return
			}
		}
	}
}

// Totals implements measurementSource.
func (s *shelf) Totals(_ context.Context, q reader.TotalsQuery) iter.Seq2[reader.Window, error] {
	s.totals = append(s.totals, q)
	return func(yield func(reader.Window, error) bool) {
		for _, w := range s.windows {
			w.Time = w.Time.In(q.Zone)
			if !yield(w, nil) {
				return
			}
		}
	}
}

// Explain implements measurementSource. There is no server to explain.
func (s *shelf) Explain(context.Context, reader.Query) (reader.Plan, error) {
	return reader.Plan{}, reader.ErrNoExplain
}

// PlainIndexes implements measurementSource.
func (s *shelf) PlainIndexes(context.Context) (collection.IndexList, error) {
	return collection.IndexList{Options: s.Options()}, nil
}

// Size implements measurementSource.
func (s *shelf) Size(context.Context) (collection.Size, error) { return collection.Size{}, nil }

// raw encodes a value.
func raw(t testing.TB, v any) bson.RawValue {
	t.Helper()
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return bson.RawValue{Type: kind, Value: data}
}

// filled returns a shelf with an hour of two sensors. Every filter selects one of them.
func filled(t testing.TB) *shelf {
	s := &shelf{}
	for sensor := range 2 {
		meta := raw(t, bson.D{{Key: "sensor", Value: fmt.Sprintf("s-%d", 17+sensor)}})
		for n := range 60 {
			s.all = append(s.all, reader.Measurement{
				Time: time.Date(2026, 3, 1, 12, n, 0, 0, time.UTC), Meta: meta,
				Fields: raw(t, bson.D{{Key: "celsius", Value: float64(n)}, {Key: "name", Value: "x"}}).Document(),
			})
		}
		if sensor == 0 {
			s.selected = append(s.selected, meta)
		}
	}
	return s
}

// onShelf runs a command line on a shelf.
func onShelf(t *testing.T, s *shelf, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	env := map[string]string{"MONGODB_URI": "mongodb://mongo/db"}
	return try(t, env, func(p *Program) {
		p.read = func(_ context.Context, _ config.Config, _ *slog.Logger, name string, use func(measurementSource) error) error {
			if name != "measurements" {
				t.Errorf("%q is opened", name)
			}
			return use(s)
		}
	}, append([]string{"query", "measurements"}, args...)...)
}
