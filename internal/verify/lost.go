package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// Lost are offsets that retention deleted before a consumer read them, and that are not stored.
type Lost struct {
	Count int64 `json:"count"`
	// First are the first ranges of such offsets.
	First []LostRange `json:"first"`
}

// LostRange are the offsets [From, To).
type LostRange struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// lost finds out which of the offsets noted as lost are not stored. A former owner may have read some, and stored them without
// committing.
func (v *Verifier) lost(ctx context.Context, r Range) (Lost, error) {
	found := Lost{First: []LostRange{}}
	for _, noted := range disjoint(r.Lost) {
		for from := noted.From; from < noted.To; from += v.o.Window {
			to := min(noted.To, from+v.o.Window)
			stored, err := v.storedOffsets(ctx, r.Source, from, to)
			if err != nil {
				return found, fmt.Errorf("reading the buckets of records that Kafka has deleted, in %s/%d: %w", r.Source.Topic, r.Source.Partition, err)
			}
			next := from
			stored.each(func(p timeseries.Position) {
				found.add(next, p.Offset, v.o.Examples)
				next = p.Offset + 1
			})
			found.add(next, to, v.o.Examples)
		}
	}
	return found, nil
}

// storedOffsets returns the offsets in [from, to) that a bucket or segment lists.
func (v *Verifier) storedOffsets(ctx context.Context, source timeseries.Source, from, to int64) (*set, error) {
	stored, b := newSet(from), listing{}
	err := v.o.Buckets.Find(ctx, source, from, to, false, func(document bson.Raw) error {
		b.read(document)
		for _, p := range b.positions {
			if p.Offset >= from && p.Offset < to {
				stored.add(timeseries.Position{Offset: p.Offset})
			}
		}
		return nil
	})
	return stored, err
}

// add counts the offsets [from, to), if there are any.
func (l *Lost) add(from, to int64, examples int) {
	if from >= to {
		return
	}
	l.Count += to - from
	if last := len(l.First) - 1; last >= 0 && l.First[last].To == from {
		l.First[last].To = to
	} else if len(l.First) < examples {
		l.First = append(l.First, LostRange{from, to})
	}
}

// disjoint merges ranges that overlap.
func disjoint(ranges []claim.Lost) (apart []claim.Lost) {
	ranges = slices.SortedFunc(slices.Values(ranges), func(a, b claim.Lost) int { return cmp.Compare(a.From, b.From) })
	for _, r := range ranges {
		if n := len(apart); n > 0 && r.From <= apart[n-1].To {
			apart[n-1].To = max(apart[n-1].To, r.To)
			continue
		}
		apart = append(apart, r)
	}
	return apart
}
