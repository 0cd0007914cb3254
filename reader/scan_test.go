package reader

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// outages are temporary failures.
var outages = []error{
	io.ErrUnexpectedEOF,
	mongo.CommandError{Labels: []string{"NetworkError"}, Message: "connection reset"},
	mongo.CommandError{Code: 43, Name: "CursorNotFound"},
	mongo.CommandError{Code: 10107, Name: "NotWritablePrimary"},
	mongo.CommandError{Code: 11600, Name: "InterruptedAtShutdown"},
}

// TestFindGoesOnAfterFailures checks that nothing is lost, doubled or out of order after failures between buckets.
func TestFindGoesOnAfterFailures(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 4))
			stored, buckets := randomFacts(random, testOptions, stringMetas(1+random.IntN(3)), 0, 1+random.IntN(300))
			failures := 0
			f := &fake{buckets: buckets, fail: func() error {
				if random.IntN(4) > 0 {
					return nil
				}
				failures++
				return outages[random.IntN(len(outages))]
			}}
			s := newSeries("s", "db.s.buckets", testOptions, f)
			newest := random.IntN(2) == 0
			got, err := facts(s.Find(t.Context(), Query{Newest: newest}))
			if want := texts(stored, math.MinInt64, math.MaxInt64, newest); err != nil || !slices.Equal(got, want) {
				t.Fatalf("seed %d, %d failures: %v\n got %d %q\nwant %d %q", seed, failures, err, len(got), got, len(want), want)
			}
			if len(buckets) > 30 && failures == 0 {
				t.Errorf("seed %d: nothing failed", seed)
			}
		})
	}
}

func TestFindGivesUp(t *testing.T) {
	_, buckets := randomFacts(rand.New(rand.NewPCG(1, 5)), testOptions, stringMetas(1), 0, 50)
	refused := mongo.CommandError{Code: 13, Name: "Unauthorized", Message: "not allowed"}
	for name, c := range map[string]struct {
		fails       error
		least, most time.Duration
	}{
		"at once when it is refused":          {refused, 0, 0},
		"after a minute without any progress": {io.ErrUnexpectedEOF, patience, patience + 2*longestPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				f := &fake{buckets: buckets, fail: func() error {
					if asked++; asked > 3 {
						return c.fails
					}
					return nil
				}}
				s, start := newSeries("s", "db.s.buckets", testOptions, f), time.Now()
				_, err := facts(s.Find(t.Context(), Query{Meta: map[string]any{"m": stringMetas(1)[0]}}))
				if took := time.Since(start); !errors.Is(err, c.fails) && !errors.As(err, new(mongo.CommandError)) || took < c.least || took > c.most {
					t.Errorf("it took %v and gave %v", took, err)
				}
			})
		})
	}
}

func TestFindEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, buckets := randomFacts(rand.New(rand.NewPCG(1, 5)), testOptions, stringMetas(1), 0, 50)
		s := newSeries("s", "db.s.buckets", testOptions, &fake{buckets: buckets, fail: func() error { return io.ErrUnexpectedEOF }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := facts(s.Find(ctx, Query{})); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v it gave %v", time.Since(start), err)
		}
	})
}
